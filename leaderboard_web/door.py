"""What the routes share, and who is asking."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, cast

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from kernelderby.core.errors import Banned, NotAllowed, NotLoggedIn
from kernelderby.core.settings import Settings
from kernelderby.leaderboard_web.rendering import Pages
from kernelderby.leaderboard_web.ticker import Ticker
from kernelderby.storage import people, visibility
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.database import Database
from kernelderby.storage.people import PersonInfo
from kernelderby.storage.submissions import SubmissionView

COOKIE = "derby_session"


@dataclass(frozen=True, kw_only=True)
class Door:
    """Made once by `create_app`; every route gets it as its first argument."""

    settings: Settings
    database: Database
    artifacts: ArtifactStore
    ring: Callable[[str], None]     # tells the workers of a device class that there is work
    ticker: Ticker
    pages: Pages


def door_of(request: Request) -> Door:
    """The door of the app that serves this request."""
    return cast(Door, request.app.state.door)


TheDoor = Annotated[Door, Depends(door_of)]


async def viewer_of(request: Request, door: TheDoor) -> PersonInfo | None:
    """Who asks: by bearer token, else by session cookie, else None. Pages name them too.

    Raises NotLoggedIn for an unknown token, Banned.
    """
    with telling_whom_to_write_to(door):
        person = await run_in_threadpool(_look_up, door, request.headers.get("authorization"), request.cookies.get(COOKIE))
    request.state.person = person
    return person


async def person_of(person: Annotated[PersonInfo | None, Depends(viewer_of)]) -> PersonInfo:
    """Who asks. Raises NotLoggedIn."""
    if person is None:
        raise NotLoggedIn
    return person


async def reader_of(person: Annotated[PersonInfo, Depends(person_of)]) -> PersonInfo:
    """Who asks, with a login or token that may read what is theirs. Raises NotLoggedIn, NotAllowed."""
    _require_scope(person, "read")
    return person


async def submitter_of(person: Annotated[PersonInfo, Depends(person_of)]) -> PersonInfo:
    """Who asks, with a login or token that may send and cancel. Raises NotLoggedIn, NotAllowed."""
    _require_scope(person, "submit")
    return person


async def organizer_of(person: Annotated[PersonInfo, Depends(person_of)]) -> PersonInfo:
    """Who asks, an organizer with a login or token that may organize. Raises NotLoggedIn, NotAllowed."""
    if person.role in ("organizer", "admin"):
        _require_scope(person, "organize")
    if not person.is_organizer:
        raise NotAllowed("Only an organizer may do this.")
    return person


async def holder_of(person: Annotated[PersonInfo, Depends(person_of)]) -> PersonInfo:
    """Who asks, themself and not an agent, with a login or token for all that they may send and read. Raises NotLoggedIn, NotAllowed."""
    _require_themself(person)
    for scope in ("submit", "read"):
        _require_scope(person, scope)
    return person


async def own_reader_of(person: Annotated[PersonInfo, Depends(person_of)]) -> PersonInfo:
    """Who asks, themself and not an agent, with a login or token that may read. Raises NotLoggedIn, NotAllowed."""
    _require_themself(person)
    _require_scope(person, "read")
    return person


Viewer = Annotated[PersonInfo | None, Depends(viewer_of)]
LoggedIn = Annotated[PersonInfo, Depends(person_of)]
Reader = Annotated[PersonInfo, Depends(reader_of)]
Submitter = Annotated[PersonInfo, Depends(submitter_of)]
Holder = Annotated[PersonInfo, Depends(holder_of)]
OwnReader = Annotated[PersonInfo, Depends(own_reader_of)]
Organizer = Annotated[PersonInfo, Depends(organizer_of)]


@contextmanager
def telling_whom_to_write_to(door: Door) -> Iterator[None]:
    """A ban that is met inside says where to write."""
    try:
        yield
    except Banned as error:
        raise Banned(error.reason, door.settings.contact) from None


def submission_for(door: Door, person: PersonInfo | None, number: int) -> SubmissionView:
    """A submission that this reader may see. Raises NotFound."""
    with door.database.read() as session:
        return visibility.submission(session, number, person, datetime.now(UTC))


def may_see_source(person: PersonInfo | None, owner_id: int) -> bool:
    """Whether source and log are this reader's to see: the owner's and the organizers' only."""
    return person is not None and "read" in person.scopes and (person.id == owner_id or person.is_organizer)


def require_source(person: PersonInfo | None, owner_id: int) -> None:
    """Raises NotLoggedIn or NotAllowed unless `may_see_source`."""
    if may_see_source(person, owner_id):
        return
    if person is None:
        raise NotLoggedIn
    _require_scope(person, "read")
    raise NotAllowed("Source and log belong to whoever sent them. Only that person and the organizers may read them.")


def _require_themself(person: PersonInfo) -> None:
    if person.agent is not None:
        raise NotAllowed("An agent's token leaves its person's account alone. Its person does this, with a login or token of their own.")


def _require_scope(person: PersonInfo, scope: str) -> None:
    if scope not in person.scopes:
        raise NotAllowed(f"This token has not the scope `{scope}`. Use one that has it; `derby token new` makes one.")


def _look_up(door: Door, authorization: str | None, cookie: str | None) -> PersonInfo | None:
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotLoggedIn("The Authorization header must read `Bearer` and a token. `derby token` makes one.")
        with door.database.read() as session:
            person = people.by_token(session, token.strip())
        if person is None:
            raise NotLoggedIn("This token is not known, or it was revoked. Ask an organizer for a new one, or run `derby login`.")
        return person
    if cookie is None:
        return None
    with door.database.read() as session:
        return people.by_cookie(session, cookie)
