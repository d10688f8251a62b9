"""Log in by a one-time link or a token, and out."""

from typing import Annotated
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Form, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from kernelderby.leaderboard_web.door import COOKIE, Door, TheDoor, Viewer, telling_whom_to_write_to
from kernelderby.leaderboard_web.headers import HEADERS
from kernelderby.leaderboard_web.providers import providers
from kernelderby.leaderboard_web.rendering import address_of, local_path
from kernelderby.storage import people

router = APIRouter()
_NOT_KNOWN = "This login link was used already, or it is older than a day. Ask for a new one, or log in with a token."
_BAD_TOKEN = "This token is not known, or it was revoked. Ask an organizer for a new one."


def to_login(request: Request) -> RedirectResponse:
    """Where a page sends a reader who must log in first; the login leads back."""
    return RedirectResponse(f"/login?next={quote(address_of(request), safe='')}", 303)


@router.get("/login")
def show(request: Request, door: TheDoor, viewer: Viewer, code: str = "", next: str = "/") -> Response:
    """The link's page. It logs in by a button, since chat programs open links to preview them."""
    return login_page(request, door, code=code, next=next)


@router.post("/login")
async def log_in(request: Request, door: TheDoor, code: Annotated[str, Form(max_length=200)] = "",
                 token: Annotated[str, Form(max_length=200)] = "", next: Annotated[str, Form(max_length=2000)] = "/") -> Response:
    """Spend the code, or take the token, for a session cookie."""
    with telling_whom_to_write_to(door):
        cookie = await run_in_threadpool(_open_session, door, code.strip(), token.strip(), request.cookies.get(COOKIE))
    if cookie is None:
        request.state.person = None
        return login_page(request, door, status=401, next=next, sentence=_BAD_TOKEN if token.strip() else _NOT_KNOWN)
    return with_cookie(door, RedirectResponse(local_path(next), 303), cookie)


@router.post("/logout")
def log_out(request: Request, door: TheDoor) -> Response:
    """End this browser's session."""
    if cookie := request.cookies.get(COOKIE):
        with door.database.begin() as session:
            people.end_session(session, cookie)
    response = RedirectResponse("/", 303)
    response.delete_cookie(COOKIE)
    return response


def login_page(request: Request, door: Door, *, status: int = 200, code: str = "", next: str = "/",
               sentence: str | None = None) -> Response:
    """The ways in, under a sentence that says why an earlier one failed. Its forms may lead to the providers."""
    page = door.pages.render(request, "login.html", status=status, code=code, next=local_path(next), sentence=sentence,
                             providers=providers(door.settings))
    return leading_to_providers(door, page)


def leading_to_providers(door: Door, page: Response) -> Response:
    """`page`, whose forms may be answered by a way to a provider; browsers hold forms to it."""
    origins = sorted({f"{url.scheme}://{url.netloc}" for p in providers(door.settings) for url in [urlsplit(p.authorize_url)]})
    policy = HEADERS["content-security-policy"]
    page.headers["content-security-policy"] = policy.replace("form-action 'self'", " ".join(["form-action 'self'", *origins]))
    return page


def with_cookie(door: Door, response: Response, cookie: str) -> Response:
    """`response`, which logs its browser in."""
    response.set_cookie(COOKIE, cookie, max_age=int(people.COOKIE_LIFE.total_seconds()), httponly=True, samesite="lax",
                        secure=door.settings.public_url.startswith("https:"))
    return response


def _open_session(door: Door, code: str, token: str, old: str | None) -> str | None:
    """A new cookie at every login; the browser's old one ends, whoever put it there."""
    with door.database.begin() as session:
        if token:
            person = people.by_token(session, token)
            code = people.new_login_code(session, person.id, person.token) if person else ""
        cookie = people.redeem_code(session, code) if code else None
        if cookie and old:
            people.end_session(session, old)
        return cookie
