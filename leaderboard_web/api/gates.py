"""/contests/{contest}/gates, /gates/{change}: other gates in mid-contest, tried on the best entries before they are applied."""

import tempfile
from datetime import UTC, datetime
from pathlib import Path as FolderPath
from typing import Annotated

from fastapi import APIRouter, Form, Path, UploadFile
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from kernelderby.core import problem_upload
from kernelderby.core.problem_folder import archive
from kernelderby.core.text import one_line
from kernelderby.core.verdict import Outcome, State
from kernelderby.leaderboard_web.api.contest_wire import ContestName
from kernelderby.leaderboard_web.api.wire import BIG
from kernelderby.leaderboard_web.door import Door, Organizer, TheDoor
from kernelderby.leaderboard_web.problem_json import responses
from kernelderby.storage import audit, contests, gates, problems
from kernelderby.storage.gate_views import ChangeView, Fate
from kernelderby.storage.gates import NewChange

router = APIRouter(tags=["contests"])
ChangeId = Annotated[int, Path(ge=1, le=BIG, description="The change's number.", examples=[3])]


class FateOut(BaseModel):
    """One entry before the change and after it."""

    submission: int
    replay: int = Field(description="The organizers' run of it under the new gates: a submission that only organizers see.")
    person: str
    agent: str | None
    device: str
    score_us: float | None
    rank_before: tuple[int, int] | None = Field(description="Null: a better entry of theirs stands on the board.")
    rank_after: tuple[int, int] | None = Field(description="On the board without those that drop. Null: it is not on it.")
    state: State = Field(description="Of the replay.")
    outcome: Outcome | None = Field(description="Of the replay.")
    gate: str | None
    message: str | None
    drops: bool | None = Field(description="Null: not known yet.")
    now: str | None = Field(description="Once applied: the state or outcome of the entry itself since.")


class GateOut(BaseModel):
    """A change of gates. `complete`: each entry was judged under the new ones. Once applied, entries are as they were then."""

    id: int
    contest: str
    problem: str
    version: str
    gate_set: str = Field(description="The new one.")
    reason: str
    top: int
    made_by: str
    created_at: datetime
    applied_at: datetime | None
    withdrawn_at: datetime | None
    complete: bool
    drops: int
    entries: list[FateOut]
    unjudged: list[int] = Field(description="Submissions that come up into the first `top` places for those that drop, and that these "
                                            "gates have not judged: rejudge them once the change is applied.")


class GateList(BaseModel):
    """Newest first."""

    gates: list[GateOut]


class Applying(BaseModel):
    """Whether to apply a change of which not all runs are judged."""

    model_config = ConfigDict(extra="forbid")
    anyway: bool = False


@router.post("/contests/{contest}/gates", status_code=201, responses=responses(401, 404))
def preview(door: TheDoor, person: Organizer, contest: ContestName,
            file: Annotated[UploadFile, Form(description="A zip or tar of the problem's folder, with other hidden cases or budgets.")],
            reason: Annotated[Annotated[str, AfterValidator(one_line)], Form(min_length=1, max_length=500, description=(
                "Those whose entries fall read it."))],
            top: Annotated[int, Form(ge=1, le=100, description="So many places of each board are judged again.")] = 10) -> GateOut:
    """Try other gates on the best entries. Nothing changes on any board; what would is told by /gates/{change}."""
    new = _read(door, contest, file.file.read(), reason, top, person.id)
    now = datetime.now(UTC)
    with door.database.begin() as session:
        info = contests.get(session, contest, now)
        change = gates.propose(session, info, new, now)
        audit.note(session, person.id, "gate preview", contest=info.name, change=change.id, gate_set=change.gate_set, reason=change.reason,
                   top=top)
    return _rung(door, change, info.name)


@router.get("/contests/{contest}/gates", responses=responses(401, 404))
def listing(door: TheDoor, person: Organizer, contest: ContestName) -> GateList:
    """The changes of gates of a contest."""
    with door.database.read() as session:
        info = contests.get(session, contest, datetime.now(UTC))
        return GateList(gates=[_out(change, info.name) for change in gates.listing(session, info.id)])


@router.get("/gates/{change}", responses=responses(401, 404))
def show(door: TheDoor, person: Organizer, change: ChangeId) -> GateOut:
    """What a change does to each entry: before, after, ranks, who drops."""
    with door.database.read() as session:
        found = gates.view(session, change)
        return _out(found, contests.by_id(session, found.contest_id, datetime.now(UTC)).name)


@router.post("/gates/{change}/apply", responses=responses(401, 404))
def apply(door: TheDoor, person: Organizer, change: ChangeId, asked: Applying | None = None) -> GateOut:
    """Make the gates the contest's. New submissions are judged by them, the best entries again, on the same board."""
    now, anyway = datetime.now(UTC), asked is not None and asked.anyway
    with door.database.begin() as session:
        if not anyway:
            gates.check_complete(gates.view(session, change))
        found = gates.apply(session, change, now)
        audit.note(session, person.id, "gate apply", change=change, anyway=anyway, drops=_drops(found))
        name = contests.by_id(session, found.contest_id, now).name
    return _rung(door, found, name)


@router.post("/gates/{change}/withdraw", responses=responses(401, 404))
def withdraw(door: TheDoor, person: Organizer, change: ChangeId) -> GateOut:
    """Throw a change away that was not applied."""
    now = datetime.now(UTC)
    with door.database.begin() as session:
        found = gates.withdraw(session, change, now)
        audit.note(session, person.id, "gate withdraw", change=change)
        return _out(found, contests.by_id(session, found.contest_id, now).name)


def _read(door: Door, contest: str, upload: bytes, reason: str, top: int, by: int) -> NewChange:
    """The uploaded folder over the version that the contest plays, kept in the store."""
    files = problem_upload.read_folder(upload)
    with door.database.read() as session:
        info = contests.get(session, contest, datetime.now(UTC))
        place = gates.places_of(session, info, problem_upload.name_of(files))[0]
        key = problems.archive_of(session, place.version_id)
    with tempfile.TemporaryDirectory(prefix="derby-gates-") as folder:
        problem = problem_upload.with_other_gates(door.artifacts.get(key), files, FolderPath(folder))
        return NewChange(problem=problem, archive=door.artifacts.put(archive(problem)), reason=reason, top=top, made_by=by)


def _rung(door: Door, change: ChangeView, contest: str) -> GateOut:
    """After the commit: there is work."""
    for device in change.devices:
        door.ring(device)
    return _out(change, contest)


def _out(change: ChangeView, contest: str) -> GateOut:
    return GateOut(
        id=change.id, contest=contest, problem=change.problem, version=change.version, gate_set=change.gate_set, reason=change.reason,
        top=change.top, made_by=change.made_by, created_at=change.created_at, applied_at=change.applied_at,
        withdrawn_at=change.withdrawn_at, complete=change.is_complete, drops=len(_drops(change)),
        entries=[_fate(fate) for fate in change.entries], unjudged=change.unjudged)


def _fate(fate: Fate) -> FateOut:
    return FateOut(
        submission=fate.submission, replay=fate.replay, person=fate.person, agent=fate.agent, device=fate.device, score_us=fate.score_us,
        rank_before=fate.rank_before, rank_after=fate.rank_after, state=fate.state, outcome=fate.outcome, gate=fate.gate,
        message=fate.message, drops=None if fate.stands is None else not fate.stands, now=fate.now or None)


def _drops(change: ChangeView) -> list[int]:
    return [fate.submission for fate in change.entries if fate.stands is False]
