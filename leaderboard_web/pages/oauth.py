"""Log in by an account elsewhere, or link one: out to the provider, and back."""

import logging
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Form, Path, Query, Request
from starlette.responses import RedirectResponse, Response

from kernelderby.core.errors import NotLoggedIn
from kernelderby.leaderboard_web.door import COOKIE, Door, TheDoor, Viewer, holder_of, telling_whom_to_write_to
from kernelderby.leaderboard_web.pages.login import login_page, with_cookie
from kernelderby.leaderboard_web.providers import ProviderFailed, provider
from kernelderby.leaderboard_web.rendering import local_path
from kernelderby.storage import audit, identities, people
from kernelderby.storage.identities import Account, Round, RoundRefused
from kernelderby.storage.people import PersonInfo

log = logging.getLogger(__name__)
router = APIRouter()
BROWSER_COOKIE = "derby_oauth"     # ties a round to the browser that began it
Key = Annotated[str, Path(max_length=16)]
Said = Annotated[str, Query(max_length=1000)]


@router.post("/login/{key}")
async def start(request: Request, door: TheDoor, viewer: Viewer, key: Key, next: Annotated[str, Form(max_length=2000)] = "/",
                link: Annotated[bool, Query()] = False) -> Response:
    """Off to the provider: to log in, or with `link` to let an account there log the reader in."""
    asked = provider(door.settings, key)
    person = None
    if link:
        if viewer is None:
            raise NotLoggedIn
        person = (await holder_of(viewer)).id
    with door.database.begin() as session:
        started = identities.start_round(session, asked.key, local_path(next), person, _now())
    from kernelderby.leaderboard_web import asking  # here: an HTTP client and its libraries are 10 MB that most servers never need

    response = RedirectResponse(asking.address_of_login(asked, started.state, started.verifier), 303)
    response.set_cookie(BROWSER_COOKIE, started.browser, max_age=int(identities.ROUND_LIFE.total_seconds()), path="/login",
                        httponly=True, samesite="lax", secure=_is_https(door))
    return response


@router.get("/login/{key}/back")
def back(request: Request, door: TheDoor, viewer: Viewer, key: Key, code: Said = "", state: Said = "", error: Said = "") -> Response:
    """Back from the provider: the round ends here, and is of this browser or of none."""
    asked = provider(door.settings, key)
    try:
        with door.database.begin() as session:     # spent before anything is asked, whatever comes of it
            found = identities.end_round(session, asked.key, state, request.cookies.get(BROWSER_COOKIE, ""), _now())
        if error or not code:
            raise RoundRefused(f"{asked.title} did not log you in: you or it said no. Start again, or log in another way.")
        from kernelderby.leaderboard_web import asking

        account = asking.account_of(asked, code, found.verifier)
        response = _linked(door, viewer, found, account) if found.person else _logged_in(request, door, found, account)
    except (RoundRefused, ProviderFailed) as failed:
        log.info("login failed", extra={"provider": asked.key, "reason": failed.message})
        response = login_page(request, door, status=failed.status, sentence=failed.message)
    response.delete_cookie(BROWSER_COOKIE, path="/login")
    return response


def _logged_in(request: Request, door: Door, found: Round, account: Account) -> Response:
    with telling_whom_to_write_to(door), door.database.begin() as session:
        person = identities.log_in(session, account, _now())
        if old := request.cookies.get(COOKIE):
            people.end_session(session, old)
        cookie = people.open_login(session, person.id)
        audit.note(session, person.id, "login", provider=account.provider)
    return with_cookie(door, RedirectResponse(found.next, 303), cookie)


def _linked(door: Door, viewer: PersonInfo | None, found: Round, account: Account) -> Response:
    if viewer is None or viewer.id != found.person:
        raise RoundRefused("You are not logged in any more as who began this link. Log in, then start it again.")
    with door.database.begin() as session:
        identity = identities.link(session, viewer.id, account, _now())
        audit.note(session, viewer.id, "link", provider=account.provider, identity=identity.id)
    return RedirectResponse(found.next, 303)


def _is_https(door: Door) -> bool:
    return door.settings.public_url.startswith("https:")


def _now() -> datetime:
    return datetime.now(UTC)
