"""/contests/{contest}/final: equal fresh runs of the best entries on one runner, and the order they give."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from kernelderby.core.contest import Stage
from kernelderby.core.devices import device as device_class
from kernelderby.core.errors import NotAllowed, NotFound
from kernelderby.core.text import one_line
from kernelderby.leaderboard_web.api.contest_wire import ContestName
from kernelderby.leaderboard_web.door import Organizer, TheDoor, Viewer
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import appeals, audit, contests, heats
from kernelderby.storage.contests import ContestInfo, ContestProblemInfo
from kernelderby.storage.heats import Finalist, HeatView

router = APIRouter(tags=["contests"])


class Starting(BaseModel):
    """Which boards' final heats to start; without a name those of all."""

    model_config = ConfigDict(extra="forbid")
    problem: Annotated[str, AfterValidator(one_line)] | None = Field(None, max_length=80)
    device: Annotated[str, AfterValidator(one_line)] | None = Field(None, max_length=40)
    again: bool = Field(False, description="From the start, where the runner is gone, a run failed, or finalists or gates changed.")


class FinalistOut(BaseModel):
    """An entry in a final heat. Score and rank are null where no run of it was accepted."""

    rank: tuple[int, int] | None
    submission: int
    person: str
    agent: str | None
    team: str | None
    runs: int = Field(description="Accepted ones, which the score is of.")
    failed: list[str] = Field(description="How the others ended.")
    score_us: float | None
    score_ci_us: tuple[float, float] | None


class HeatOut(BaseModel):
    """The final heat of a board, fastest first. `waiting`: runs that are still to end; until it is 0 the order is provisional."""

    id: int
    problem: str
    version: str
    gate_set: str
    device: str
    runner: str | None = Field(description="All runs are of this one; null before the first.")
    runs: int = Field(description="Of each finalist.")
    waiting: int
    created_at: datetime
    finalists: list[FinalistOut]


class FinalOut(BaseModel):
    """The final heats of a contest."""

    contest: str
    stage: Stage
    open_appeals: int = Field(description="Appeals that wait for an answer.")
    heats: list[HeatOut]


@router.post("/contests/{contest}/final", status_code=201, responses=responses(401, 404))
def start(door: TheDoor, person: Organizer, contest: ContestName, asked: Starting | None = None) -> FinalOut:
    """After the end, have the best entries run again: equally often, in turn, on the runner that takes the first run."""
    now, asked = datetime.now(UTC), asked or Starting(problem=None, device=None, again=False)
    begin = heats.start_again if asked.again else heats.start
    with door.database.begin() as session:
        info = contests.get(session, contest, now)
        begun = [begin(session, info, place, person.id, now) for place in _places(session, info, asked)]
        audit.note(session, person.id, "final start", contest=info.name, heats=[heat.id for heat in begun], again=asked.again)
        waiting = appeals.open_count(session, info.id)
    for device in sorted({heat.device for heat in begun}):
        door.ring(device)
    return _out(info, begun, waiting)


@router.get("/contests/{contest}/final", responses=responses(401, 404))
def show(door: TheDoor, viewer: Viewer, contest: ContestName) -> FinalOut:
    """The final order; before the reveal for organizers."""
    with door.database.read() as session:
        info = contests.get(session, contest, datetime.now(UTC))
        if info.stage is not Stage.REVEALED and not (viewer is not None and viewer.is_organizer):
            raise NotAllowed("The final order is shown to everybody once the contest is revealed. Until then it is the organizers'.")
        found = [heat for place in contests.problems_of(session, info.id) if (heat := heats.of_board(session, info.id, place))]
        return _out(info, found, appeals.open_count(session, info.id))


def _places(session: Session, info: ContestInfo, asked: Starting) -> list[ContestProblemInfo]:
    known = contests.problems_of(session, info.id)
    device = device_class(asked.device).name if asked.device else None
    found = [p for p in known if asked.problem in (None, p.problem) and device in (None, p.device)]
    if not found:
        boards = ", ".join(f"{p.problem}@{p.device}" for p in known)
        raise NotFound(f"The contest {info.name!r} has no such board. It has: {boards or 'none'}.")
    return [place for place in found if heats.finalists(session, info, place)] or found     # an empty board has no final


def _out(info: ContestInfo, found: list[HeatView], open_appeals: int) -> FinalOut:
    return FinalOut(contest=info.name, stage=info.stage, open_appeals=open_appeals, heats=[
        HeatOut(id=h.id, problem=h.problem, version=h.version, gate_set=h.gate_set, device=h.device, runner=h.runner, runs=h.runs,
                waiting=h.waiting, created_at=h.created_at, finalists=[_finalist(f) for f in h.finalists]) for h in found])


def _finalist(f: Finalist) -> FinalistOut:
    return FinalistOut(rank=f.rank, submission=f.submission, person=f.person, agent=f.agent, team=f.team, runs=f.runs, failed=f.failed,
                       score_us=f.score.score_us if f.score else None, score_ci_us=(f.score.low_us, f.score.high_us) if f.score else None)
