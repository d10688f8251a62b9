"""/people and /audit, for organizers: who is here, roles, bans, who did what."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from kernelderby.leaderboard_web.api.wire import BIG
from kernelderby.leaderboard_web.door import Organizer, TheDoor
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import accounts, audit

router = APIRouter(tags=["organizers"])
Who = Annotated[str, Path(max_length=80, description="Their name or number.")]


class AccountOut(BaseModel):
    """A person as organizers see them."""

    id: int
    name: str
    role: str
    created_at: datetime
    banned_at: datetime | None
    ban_reason: str
    deleted_at: datetime | None
    logins: list[str] = Field(description="Accounts elsewhere that log them in.", examples=[["github octocat"]])


class AccountList(BaseModel):
    """In the order in which they came. `next` is the `after` of the next page, or null at the end."""

    people: list[AccountOut]
    next: int | None


class BanIn(BaseModel):
    """Why. The person reads it."""

    model_config = ConfigDict(extra="forbid")
    reason: str = Field(min_length=1, max_length=300)


class RoleIn(BaseModel):
    """What they shall be."""

    model_config = ConfigDict(extra="forbid")
    role: Literal["contestant", "organizer", "admin"]


class AuditOut(BaseModel):
    """One action. A person of null: whoever holds the database."""

    id: int
    at: datetime
    person_id: int | None
    person: str | None
    action: str
    detail: dict[str, Any]


class AuditList(BaseModel):
    """Newest first. `next` is the `before` of the next page, or null at the end."""

    actions: list[AuditOut]
    next: int | None


@router.get("/people", responses=responses(401))
def listing(door: TheDoor, person: Organizer, limit: Annotated[int, Query(ge=1, le=500)] = 100,
            after: Annotated[int, Query(ge=0, le=BIG)] = 0) -> AccountList:
    """Everyone."""
    with door.database.read() as session:
        found = accounts.listing(session, after, limit)
    return AccountList(people=[AccountOut(**asdict(p)) for p in found], next=found[-1].id if len(found) == limit else None)


@router.get("/people/{person}", responses=responses(401, 404))
def show(door: TheDoor, organizer: Organizer, person: Who) -> AccountOut:
    """A person."""
    with door.database.read() as session:
        return AccountOut(**asdict(accounts.get(session, person)))


@router.post("/people/{person}/role", responses=responses(401, 404))
def role(door: TheDoor, organizer: Organizer, person: Who, asked: RoleIn) -> AccountOut:
    """Give someone a role. Only an admin may."""
    with door.database.begin() as session:
        found = accounts.set_role(session, organizer, person, asked.role)
        audit.note(session, organizer.id, "people role", whom=found.id, role=asked.role)
    return AccountOut(**asdict(found))


@router.post("/people/{person}/ban", responses=responses(401, 404))
def ban(door: TheDoor, organizer: Organizer, person: Who, asked: BanIn) -> AccountOut:
    """Shut someone out: what waits is cancelled, what they sent competes no more, and they are told why."""
    with door.database.begin() as session:
        found = accounts.ban(session, organizer, person, asked.reason, datetime.now(UTC))
        audit.note(session, organizer.id, "people ban", whom=found.id, reason=found.ban_reason)
    return AccountOut(**asdict(found))


@router.post("/people/{person}/unban", responses=responses(401, 404))
def unban(door: TheDoor, organizer: Organizer, person: Who) -> AccountOut:
    """Let someone in again; their accepted entries compete again."""
    with door.database.begin() as session:
        found = accounts.unban(session, organizer, person)
        audit.note(session, organizer.id, "people unban", whom=found.id)
    return AccountOut(**asdict(found))


@router.get("/audit", responses=responses(401, 404))
def actions(door: TheDoor, person: Organizer, limit: Annotated[int, Query(ge=1, le=500)] = 100,
            before: Annotated[int | None, Query(ge=1, le=BIG)] = None,
            by: Annotated[str | None, Query(max_length=80, description="Only what they did: a name or number.")] = None) -> AuditList:
    """Who did what."""
    with door.database.read() as session:
        whose = accounts.get(session, by).id if by is not None else None
        found = audit.listing(session, limit=limit, before=before, person=whose)
    return AuditList(actions=[AuditOut(**asdict(a)) for a in found], next=found[-1].id if len(found) == limit else None)
