"""Your account: what logs you in, browsers, tokens, a code to link by, your data, leaving."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Form, Path, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from kernelderby.core.errors import RequestError
from kernelderby.leaderboard_web.api import accounts as api
from kernelderby.leaderboard_web.api.wire import BIG
from kernelderby.leaderboard_web.door import COOKIE, Door, TheDoor, Viewer, holder_of, own_reader_of
from kernelderby.leaderboard_web.pages.login import leading_to_providers, to_login
from kernelderby.leaderboard_web.providers import providers
from kernelderby.storage import accounts, identities, people
from kernelderby.storage.people import PersonInfo

router = APIRouter()
Number = Annotated[int, Path(ge=1, le=BIG)]


@router.get("/account")
async def show(request: Request, door: TheDoor, viewer: Viewer) -> Response:
    """The page."""
    if viewer is None:
        return to_login(request)
    return await run_in_threadpool(_page, request, door, await own_reader_of(viewer))


@router.post("/account/link-code")
async def link_code(request: Request, door: TheDoor, viewer: Viewer) -> Response:
    """The page with a new code, which is shown this once."""
    if viewer is None:
        return to_login(request)
    made = await run_in_threadpool(api.link_code, door, await holder_of(viewer))
    return await run_in_threadpool(_page, request, door, viewer, code=made.code)


@router.post("/account/sessions/end")
async def end_other_sessions(request: Request, door: TheDoor, viewer: Viewer) -> Response:
    """Log every other browser out."""
    if viewer is None:
        return to_login(request)
    await run_in_threadpool(api.end_other_sessions, door, await holder_of(viewer))
    return RedirectResponse("/account", 303)


@router.post("/account/sessions/{session}/end")
async def end_session(request: Request, door: TheDoor, viewer: Viewer, session: Number) -> Response:
    """Log one browser out."""
    if viewer is None:
        return to_login(request)
    await run_in_threadpool(api.end_session, door, await holder_of(viewer), session)
    return RedirectResponse("/account", 303)


@router.post("/account/identities/{identity}/unlink")
async def unlink(request: Request, door: TheDoor, viewer: Viewer, identity: Number) -> Response:
    """Let an account log the reader in no longer."""
    if viewer is None:
        return to_login(request)
    return await _done_or_told(request, door, await holder_of(viewer), lambda person: api.unlink(door, person, identity))


@router.post("/account/delete")
async def leave(request: Request, door: TheDoor, viewer: Viewer, confirm: Annotated[str, Form(max_length=200)] = "") -> Response:
    """Delete the account for good."""
    if viewer is None:
        return to_login(request)
    answer = await _done_or_told(request, door, await holder_of(viewer), lambda person: api.end_account(door, person, confirm))
    if answer.status_code == 303:
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE)
    return answer


async def _done_or_told(request: Request, door: Door, person: PersonInfo, do: Callable[[PersonInfo], object]) -> Response:
    try:
        await run_in_threadpool(do, person)
    except RequestError as error:
        return await run_in_threadpool(_page, request, door, person, error=error)
    return RedirectResponse("/account", 303)


def _page(request: Request, door: Door, person: PersonInfo, code: str | None = None, error: RequestError | None = None) -> Response:
    with door.database.read() as session:
        linked = identities.of_person(session, person.id)
        logins = accounts.logins_of(session, person, datetime.now(UTC))
        tokens = [t for t in people.tokens_of(session, person.id) if t.revoked_at is None]
    known = {identity.provider for identity in linked}
    page = door.pages.render(
        request, "account.html", status=error.status if error else 200, sentence=error.message if error else None, code=code,
        identities=[(i, identities.title(i.provider)) for i in linked], logins=logins, tokens=tokens,
        linkable=[p for p in providers(door.settings) if p.key not in known])
    return leading_to_providers(door, page)
