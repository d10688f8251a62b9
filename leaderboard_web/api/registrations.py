"""/contests/{contest}/registration, /invitations, /quota: places in a contest, and what may still be sent."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Body, Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kernelderby.core.errors import NotFound
from kernelderby.core.text import one_line
from kernelderby.core.verdict import Mode
from kernelderby.leaderboard_web.api.wire import BIG
from kernelderby.leaderboard_web.door import Organizer, Reader, Submitter, TheDoor
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import audit, contests, quotas, registrations
from kernelderby.storage.quotas import Use
from kernelderby.storage.registrations import RegistrationInfo

router = APIRouter(tags=["contests"])
ContestName = Annotated[str, Path(max_length=80, description="The contest's name.", examples=["spring"]), AfterValidator(one_line)]


class Contact(BaseModel):
    """Where a prize would go. Organizers alone see it."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field("", max_length=120, description="Your real name.")
    email: str = Field("", max_length=254)
    country: str = Field("", max_length=80)


class Registering(BaseModel):
    """A place to take. What is left out of a place you have: the contact stays as it is, the team does not."""

    model_config = ConfigDict(extra="forbid")
    team: int | None = Field(None, ge=1, le=BIG, description="The number of the team you enter for; where teams compete, one is needed.")
    contact: Contact | None = None
    invitation: str | None = Field(None, min_length=1, max_length=80, description="Where the contest is closed: an organizer's code.")


class PlaceOut(BaseModel):
    """Your place in a contest."""

    contest: str
    person: str
    team: str | None
    contact: Contact
    at: datetime
    withdrawn_at: datetime | None


class Inviting(BaseModel):
    """How many codes to make, one for each person."""

    model_config = ConfigDict(extra="forbid")
    count: int = Field(1, ge=1, le=100)


class CodesOut(BaseModel):
    """Codes, shown this once. Each lets one person in."""

    codes: list[str]
    expires_at: datetime


class ModeQuotaOut(BaseModel):
    """What went of a quota in a mode. A limit of null: there is none."""

    mode: Mode
    runs: int | None
    runs_spent: int = Field(description="Those that wait included; not those that a failure of ours ended.")
    runs_left: int | None
    waiting: int
    gpu_seconds: float | None
    gpu_seconds_spent: float
    gpu_seconds_reserved: float = Field(description="Kept for runs that wait.")
    gpu_seconds_left: float | None


class CapOut(BaseModel):
    """What the contest may cost in all."""

    gpu_seconds: float | None
    gpu_seconds_left: float | None


class ContestQuotaOut(BaseModel):
    """What you, or your team, may still send into a contest."""

    contest: str
    by_team: bool = Field(description="Whether a team's members share it.")
    modes: list[ModeQuotaOut]
    cap: CapOut
    returns: str = Field(description="When it comes back, in words.")


@router.post("/contests/{contest}/registration", responses=responses(401, 404, 410))
def register(door: TheDoor, person: Submitter, contest: ContestName, asked: Annotated[Registering | None, Body()] = None) -> PlaceOut:
    """Take a place in a contest, or change the one you have."""
    asked, now = asked or Registering.model_validate({}), datetime.now(UTC)
    contact = asked.contact.model_dump() if asked.contact else None
    with door.database.begin() as session:
        found = contests.get(session, contest, now)
        place = registrations.register(session, found, person, asked.team, contact, asked.invitation, now)
        audit.note(session, person.id, "contest register", contest=found.name, team=place.team)
    return _place(found.name, place)


@router.get("/contests/{contest}/registration", responses=responses(401, 404))
def show(door: TheDoor, person: Reader, contest: ContestName) -> PlaceOut:
    """Your place in a contest."""
    with door.database.read() as session:
        found = contests.get(session, contest, datetime.now(UTC))
        place = registrations.registration(session, found.id, person.id)
    if place is None:
        raise NotFound(f"You are not registered in the contest {found.name!r}. `derby contest register {found.name}` registers you.")
    return _place(found.name, place)


@router.delete("/contests/{contest}/registration", responses=responses(401, 404, 410))
def withdraw(door: TheDoor, person: Submitter, contest: ContestName) -> PlaceOut:
    """Give up your place before the end. What you sent stays, and no quota comes back."""
    now = datetime.now(UTC)
    with door.database.begin() as session:
        found = contests.get(session, contest, now)
        place = registrations.withdraw(session, found, person, now)
        audit.note(session, person.id, "contest withdraw", contest=found.name)
    return _place(found.name, place)


@router.post("/contests/{contest}/invitations", status_code=201, responses=responses(401, 404, 410))
def invite(door: TheDoor, person: Organizer, contest: ContestName, asked: Annotated[Inviting | None, Body()] = None) -> CodesOut:
    """Make codes for a closed contest, each for one person within 7 days; for organizers."""
    now, count = datetime.now(UTC), asked.count if asked else 1
    with door.database.begin() as session:
        found = contests.get(session, contest, now)
        codes = registrations.invite(session, found, person, count, now)
        audit.note(session, person.id, "contest invite", contest=found.name, count=count)
    return CodesOut(codes=[code.text for code in codes], expires_at=codes[0].expires_at)


@router.get("/contests/{contest}/quota", responses=responses(401, 404))
def quota(door: TheDoor, person: Reader, contest: ContestName) -> ContestQuotaOut:
    """What you, or your team, may still send, by mode; and what is left of what the contest may cost."""
    with door.database.read() as session:
        found = contests.get(session, contest, datetime.now(UTC))
        place = registrations.registration(session, found.id, person.id)
        team = place.team if place else None
        modes = [_mode(mode, quotas.use(session, found, person.id, team, mode)) for mode in Mode]
        cap = quotas.cap(session, found)
    return ContestQuotaOut(contest=found.name, by_team=found.rules.by_team, modes=modes, returns=quotas.NEVER,
                           cap=CapOut(gpu_seconds=cap.limit.gpu_seconds, gpu_seconds_left=cap.seconds_left))


def _mode(mode: Mode, use: Use) -> ModeQuotaOut:
    return ModeQuotaOut(
        mode=mode, runs=use.limit.runs, runs_spent=use.runs, runs_left=use.runs_left, waiting=use.waiting,
        gpu_seconds=use.limit.gpu_seconds, gpu_seconds_spent=use.seconds,
        gpu_seconds_reserved=round(use.reserved, 3), gpu_seconds_left=use.seconds_left)


def _place(contest: str, place: RegistrationInfo) -> PlaceOut:
    return PlaceOut(contest=contest, person=place.person, team=place.team_name, contact=Contact(**place.contact), at=place.at,
                    withdrawn_at=place.withdrawn_at)
