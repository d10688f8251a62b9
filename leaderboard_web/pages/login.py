"""Log in by a one-time link or a token, and out."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from kernelderby.leaderboard_web.door import COOKIE, Door, TheDoor, Viewer
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
    return door.pages.render(request, "login.html", code=code, next=local_path(next), sentence=None)


@router.post("/login")
async def log_in(request: Request, door: TheDoor, code: Annotated[str, Form(max_length=200)] = "",
                 token: Annotated[str, Form(max_length=200)] = "", next: Annotated[str, Form(max_length=2000)] = "/") -> Response:
    """Spend the code, or take the token, for a session cookie."""
    cookie = await run_in_threadpool(_open_session, door, code.strip(), token.strip())
    if cookie is None:
        request.state.person = None
        return door.pages.render(request, "login.html", status=401, code="", next=local_path(next),
                                 sentence=_BAD_TOKEN if token.strip() else _NOT_KNOWN)
    response = RedirectResponse(local_path(next), 303)
    response.set_cookie(COOKIE, cookie, max_age=int(people.COOKIE_LIFE.total_seconds()), httponly=True, samesite="lax",
                        secure=door.settings.public_url.startswith("https:"))
    return response


@router.post("/logout")
def log_out(request: Request, door: TheDoor) -> Response:
    """End this browser's session."""
    if cookie := request.cookies.get(COOKIE):
        with door.database.begin() as session:
            people.end_session(session, cookie)
    response = RedirectResponse("/", 303)
    response.delete_cookie(COOKIE)
    return response


def _open_session(door: Door, code: str, token: str) -> str | None:
    with door.database.begin() as session:
        if token:
            person = people.by_token(session, token)
            code = people.new_login_code(session, person.id, person.token) if person else ""
        return people.redeem_code(session, code) if code else None
