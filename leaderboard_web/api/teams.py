"""/teams: make, invite, join, leave and merge them."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kernelderby.core.errors import NotAllowed
from kernelderby.core.text import one_line
from kernelderby.leaderboard_web.api.wire import BIG
from kernelderby.leaderboard_web.door import Reader, Submitter, TheDoor
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import audit, teams
from kernelderby.storage.teams import TeamInfo

router = APIRouter(tags=["teams"])
TeamId = Annotated[int, Path(ge=1, le=BIG, description="The team's number.", examples=[3])]
CodeText = Annotated[str, AfterValidator(one_line)]


class NewTeam(BaseModel):
    """A team to make."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, AfterValidator(one_line)] = Field(min_length=1, max_length=80, examples=["Warp Speed"])


class GivenCode(BaseModel):
    """A code, as its maker gave it."""

    model_config = ConfigDict(extra="forbid")
    code: CodeText = Field(min_length=1, max_length=80, examples=["team_…"])


class TeamOut(BaseModel):
    """A team and who is in it now. Once nobody is, it has no owner and is closed."""

    id: int
    name: str
    owner: str | None
    members: list[str] = Field(description="Whoever is in it longest comes first.")
    merged_into: int | None = Field(description="The team it is a part of now.")


class TeamList(BaseModel):
    """Your teams, the one you joined first first."""

    teams: list[TeamOut]


class CodeOut(BaseModel):
    """A code, shown this once. It can be used once."""

    code: str
    expires_at: datetime


@router.post("/teams", status_code=201, responses=responses(401))
def create(door: TheDoor, person: Submitter, asked: NewTeam) -> TeamOut:
    """Make a team. You own it; an agent's token makes none."""
    with door.database.begin() as session:
        team = teams.create(session, asked.name, person, datetime.now(UTC))
        audit.note(session, person.id, "team create", team=team.id, name=team.name)
    return _out(team)


@router.get("/teams", responses=responses(401))
def listing(door: TheDoor, person: Reader) -> TeamList:
    """The teams you are in."""
    with door.database.read() as session:
        return TeamList(teams=[_out(team) for team in teams.of_person(session, person.id)])


@router.post("/teams/join", responses=responses(401, 404))
def join(door: TheDoor, person: Submitter, given: GivenCode) -> TeamOut:
    """Join a team by its owner's code."""
    with door.database.begin() as session:
        team = teams.join(session, given.code, person, datetime.now(UTC))
        audit.note(session, person.id, "team join", team=team.id)
    return _out(team)


@router.get("/teams/{team}", responses=responses(401, 404))
def show(door: TheDoor, person: Reader, team: TeamId) -> TeamOut:
    """A team, for its members and the organizers."""
    with door.database.read() as session:
        found = teams.get(session, team)
    if not found.has(person.id) and not person.is_organizer:
        raise NotAllowed("Who is in a team is for its members and the organizers to see.")
    return _out(found)


@router.post("/teams/{team}/invitations", status_code=201, responses=responses(401, 404))
def invite(door: TheDoor, person: Submitter, team: TeamId) -> CodeOut:
    """Make a code by which one person joins, within 7 days; for the owner."""
    with door.database.begin() as session:
        code = teams.invite(session, team, person, datetime.now(UTC))
        audit.note(session, person.id, "team invite", team=team)
    return CodeOut(code=code.text, expires_at=code.expires_at)


@router.post("/teams/{team}/leave", responses=responses(401, 404))
def leave(door: TheDoor, person: Submitter, team: TeamId) -> TeamOut:
    """Leave a team, and the contests by team that you entered for it. The owner's place goes to whoever is in it longest."""
    with door.database.begin() as session:
        left = teams.leave(session, team, person, datetime.now(UTC))
        audit.note(session, person.id, "team leave", team=team)
    return _out(left)


@router.post("/teams/{team}/merge-code", status_code=201, responses=responses(401, 404))
def merge_code(door: TheDoor, person: Submitter, team: TeamId) -> CodeOut:
    """Make a code by which the owner of another team makes it a part of this one; for the owner, before the freeze of their contests."""
    with door.database.begin() as session:
        code = teams.merge_code(session, team, person, datetime.now(UTC))
        audit.note(session, person.id, "team merge code", team=team)
    return CodeOut(code=code.text, expires_at=code.expires_at)


@router.post("/teams/{team}/merge", responses=responses(401, 404))
def merge(door: TheDoor, person: Submitter, team: TeamId, given: GivenCode) -> TeamOut:
    """Make this team a part of the code's, with its members, places and entries in contests that go on. The team it is a part of now."""
    with door.database.begin() as session:
        merged = teams.merge(session, team, given.code, person, datetime.now(UTC))
        audit.note(session, person.id, "team merge", team=team, into=merged.id)
    return _out(merged)


def _out(team: TeamInfo) -> TeamOut:
    return TeamOut(id=team.id, name=team.name, owner=team.owner, members=[name for _, name in team.members], merged_into=team.merged_into)
