"""/people/me: browser logins, linked accounts, link codes, everything that is yours, and leaving for good."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from kernelderby.core.errors import DerbyError
from kernelderby.leaderboard_web.api.wire import BIG
from kernelderby.leaderboard_web.door import Door, Holder, OwnReader, TheDoor
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import accounts, audit, exports, identities
from kernelderby.storage.accounts import LoginInfo
from kernelderby.storage.identities import IdentityInfo
from kernelderby.storage.people import PersonInfo

router = APIRouter(tags=["people"])
_EXPORT: dict[int | str, dict[str, Any]] = {200: {"description": "One object: person, identities, tokens, sessions, teams, registrations, "
                                                  "notices, appeals, actions, submissions with their sources."}}
Number = Annotated[int, Path(ge=1, le=BIG)]


class LoginOut(BaseModel):
    """A browser that is logged in."""

    id: int
    created_at: datetime
    expires_at: datetime
    token: str | None = Field(description="The token that opened it; null: a link, or an account elsewhere.")
    is_this: bool


class LoginList(BaseModel):
    """Your browser logins, newest first."""

    sessions: list[LoginOut]


class Ended(BaseModel):
    """How many logins were ended."""

    ended: int


class IdentityOut(BaseModel):
    """An account elsewhere that logs you in."""

    id: int
    provider: str = Field(examples=["github"])
    name: str
    created_at: datetime


class IdentityList(BaseModel):
    """The accounts that log you in."""

    identities: list[IdentityOut]


class LinkCodeOut(BaseModel):
    """A code that links one account elsewhere to you, once. Whoever has it can log in as you: give it to nobody."""

    code: str
    expires_at: datetime


class Leaving(BaseModel):
    """Your name, as the confirmation."""

    model_config = ConfigDict(extra="forbid")
    confirm: str = Field(max_length=80)


class Left(BaseModel):
    """An account that is no more."""

    deleted: int = Field(description="Its number, which its entries keep.")


@router.get("/people/me/sessions", responses=responses(401))
def sessions(door: TheDoor, person: OwnReader) -> LoginList:
    """The browsers that are logged in as you."""
    with door.database.read() as session:
        return LoginList(sessions=[_login(known) for known in accounts.logins_of(session, person, _now())])


@router.delete("/people/me/sessions", responses=responses(401))
def end_other_sessions(door: TheDoor, person: Holder) -> Ended:
    """Log out every browser but the one that asks, and end login links and link codes that wait."""
    with door.database.begin() as session:
        ended = accounts.end_other_logins(session, person, _now())
        audit.note(session, person.id, "sessions end", count=ended)
    return Ended(ended=ended)


@router.delete("/people/me/sessions/{session}", responses=responses(401, 404))
def end_session(door: TheDoor, person: Holder, session: Number) -> LoginOut:
    """Log one of your browsers out."""
    with door.database.begin() as opened:
        found = accounts.end_login(opened, person, session, _now())
        audit.note(opened, person.id, "session end", login=session)
    return _login(found)


@router.get("/people/me/identities", responses=responses(401))
def linked(door: TheDoor, person: OwnReader) -> IdentityList:
    """The accounts elsewhere that log you in."""
    with door.database.read() as session:
        return IdentityList(identities=[_identity(known) for known in identities.of_person(session, person.id)])


@router.delete("/people/me/identities/{identity}", responses=responses(401, 404))
def unlink(door: TheDoor, person: Holder, identity: Number) -> IdentityOut:
    """Let an account log you in no longer; the last way in stays."""
    with door.database.begin() as session:
        found = identities.unlink(session, person.id, identity)
        audit.note(session, person.id, "unlink", provider=found.provider, identity=identity)
    return _identity(found)


@router.post("/people/me/link-codes", status_code=201, responses=responses(401))
def link_code(door: TheDoor, person: Holder) -> LinkCodeOut:
    """A code for another door, such as the Discord bot: whoever gives it there is linked to you. Once, within 15 minutes."""
    with door.database.begin() as session:
        made = identities.new_link_code(session, person.id, _now())
        audit.note(session, person.id, "link code")
    return LinkCodeOut(code=made.code, expires_at=made.expires_at)


@router.get("/people/me/export", response_class=StreamingResponse, responses=_EXPORT | responses(401))
def export(door: TheDoor, person: OwnReader) -> StreamingResponse:
    """Everything that is yours, as one JSON object, with the sources inline."""
    with door.database.begin() as session:
        audit.note(session, person.id, "export")
    with door.database.read() as session:
        account = exports.account(session, person.id)
    return StreamingResponse(_written(door, person, account), media_type="application/json",
                             headers={"Content-Disposition": 'attachment; filename="kernelderby.json"'})


@router.delete("/people/me", responses=responses(401))
def leave(door: TheDoor, person: Holder, asked: Leaving) -> Left:
    """Delete your account for good. Entries stay on their boards without a name; sources that only you sent are deleted."""
    end_account(door, person, asked.confirm)
    return Left(deleted=person.id)


def end_account(door: Door, person: PersonInfo, confirm: str) -> None:
    """What both doors do when someone leaves. Raises NotAllowed, RequestError."""
    with door.database.begin() as session:
        sent = accounts.leave(session, person, confirm, _now())
        audit.note(session, person.id, "account deleted")
    with door.database.begin() as session:      # holds writers on SQLite: nobody commits one of these sources meanwhile
        for sha in accounts.orphans(session, sent):
            door.artifacts.drop(sha)


def _written(door: Door, person: PersonInfo, account: dict[str, Any]) -> Iterator[str]:
    """Page by page, since sources can be a thousand times a mebibyte."""
    yield json.dumps(account, ensure_ascii=False)[:-1] + ', "submissions": ['
    before: int | None = None
    while True:
        with door.database.read() as session:
            page = exports.submission_pages(session, person.id, before)
        for view in page:
            text = json.dumps(exports.submission(view, _source(door, view.source_sha)), ensure_ascii=False)
            yield f"{'' if before is None else ', '}{text}"
            before = view.id
        if not page:
            break
    yield "]}\n"


def _source(door: Door, sha: str) -> str | None:
    try:
        return door.artifacts.get(sha).decode(errors="replace")
    except DerbyError:      # gone or damaged: an export must not end in the middle
        return None


def _login(known: LoginInfo) -> LoginOut:
    return LoginOut(**asdict(known))


def _identity(known: IdentityInfo) -> IdentityOut:
    return IdentityOut(id=known.id, provider=known.provider, name=known.name, created_at=known.created_at)


def _now() -> datetime:
    return datetime.now(UTC)
