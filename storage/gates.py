"""A change of gates on a contest's board: tried on its best entries, then applied to them and to all that comes, or withdrawn.

The board stays the same board: a new gate set is of the same version.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, or_, select, text, update
from sqlalchemy.orm import Session

from kernelderby.core.contest import Stage
from kernelderby.core.errors import NotFound, RequestError
from kernelderby.core.problem_folder import Problem
from kernelderby.core.text import one_line
from kernelderby.core.verdict import Mode, State
from kernelderby.storage import boards, claims, contests, problems, replays, submissions
from kernelderby.storage.base import COMPETES
from kernelderby.storage.contest_models import ContestProblem, GateChange
from kernelderby.storage.contests import ContestInfo, ContestProblemInfo
from kernelderby.storage.gate_views import ChangeView, view_of
from kernelderby.storage.models import Submission

MOST = 300           # entries that one change judges again


@dataclass(frozen=True, kw_only=True)
class NewChange:
    """A change of gates to try."""

    problem: Problem       # with the new gates, and of the version that the contest plays
    archive: str           # its artifact key
    reason: str            # told to those whose entries fall
    top: int               # so many places of each board are judged again
    made_by: int           # people.id


def places_of(session: Session, contest: ContestInfo, problem: str) -> list[ContestProblemInfo]:
    """The boards whose gates can change now. Raises NotFound; RequestError before the start and after the reveal."""
    found = [place for place in contests.problems_of(session, contest.id) if place.problem == problem]
    if not found:
        raise NotFound(f"The contest {contest.name!r} has no problem {one_line(problem, 80)!r}.")
    if contest.stage is Stage.COMING:
        raise RequestError(f"The contest has not begun, and nobody is judged yet: `derby problem add`, then `derby contest change "
                           f"{contest.name} --problem {problem}@DEVICE`.")
    if contest.stage is Stage.REVEALED:
        raise RequestError("The contest is revealed: its order is final.")
    return found


def propose(session: Session, contest: ContestInfo, new: NewChange, now: datetime) -> ChangeView:
    """Try other gates: the best entries are queued again as organizers' runs. Raises NotFound, RequestError."""
    contests.hold(session, contest.id)
    places = [p for p in places_of(session, contest, new.problem.name) if p.version == new.problem.version]
    if not places:
        raise RequestError("This is another version than the contest's. A change of gates keeps reference, inputs and cases as they are.")
    if any(place.gate_set == new.problem.gate_set for place in places):
        raise RequestError("The contest judges by these gates already.")
    _check_none_open(session, contest, places[0])
    if not (reason := one_line(new.reason, 500)):
        raise RequestError("Give the reason: those whose entries fall read it.")
    version = problems.add_gate_set(session, places[0].version_id, new.problem, new.archive)
    row = GateChange(contest=contest.id, version=version, reason=reason, top=new.top, made_by=new.made_by, created_at=now)
    session.add(row)
    session.flush()
    for entry in _entries(session, contest, places, new.top):
        replays.add(session, entry, new.made_by, version, now, gate_change=row.id)
    return view(session, row.id)


def view(session: Session, change_id: int) -> ChangeView:
    """A change and what it does to each entry. Raises NotFound."""
    return view_of(session, _row(session, change_id))


def listing(session: Session, contest_id: int) -> list[ChangeView]:
    """All changes of a contest, newest first."""
    rows = session.scalars(select(GateChange).where(GateChange.contest == contest_id).order_by(GateChange.id.desc()))
    return [view_of(session, row) for row in rows]


def check_complete(change: ChangeView) -> None:
    """Raises RequestError where an entry was not judged under the new gates yet."""
    if change.is_complete:
        return
    failed = [str(fate.replay) for fate in change.entries if fate.state is State.DONE and fate.stands is None]
    again = f" Those that our own failure ended: `derby rejudge {' '.join(failed[:10])}`." if failed else ""
    judged = sum(fate.stands is not None for fate in change.entries)
    raise RequestError(f"{judged} of {len(change.entries)} entries are judged under the new gates. Wait for the others, or apply it "
                       f"--anyway.{again}")


def apply(session: Session, change_id: int, now: datetime) -> ChangeView:
    """Make the gates the contest's: new submissions are judged by them, and the best entries again, on the same board.

    What was previewed is kept as it is now. Whoever sends meanwhile waits for this transaction. Raises NotFound, RequestError.
    """
    contest = _contest_of(session, change_id, now)
    row = _open(session, change_id)
    preview = view_of(session, row)
    places = [place for place in places_of(session, contest, preview.problem) if place.version == preview.version]
    row.applied_at, row.result = now, {"entries": [asdict(fate) for fate in preview.entries]}
    for entry in _locked(session, row, Submission.state != State.DONE):
        _move_over(session, entry, row)
    entries = [entry.id for entry in _entries(session, contest, places, row.top)]
    session.execute(update(ContestProblem).where(
        ContestProblem.contest == contest.id, ContestProblem.version.in_([p.version_id for p in places]))
        .values(version=row.version).execution_options(synchronize_session=False))
    _judge_again(session, row, entries)
    replays.end_all(session, Submission.gate_change == row.id, "The change was applied meanwhile.")
    session.flush()
    return view(session, change_id)


def withdraw(session: Session, change_id: int, now: datetime) -> ChangeView:
    """Throw a change away. Raises NotFound, RequestError where it was applied or withdrawn."""
    _contest_of(session, change_id, now)
    row = _open(session, change_id)
    row.withdrawn_at = now
    replays.end_all(session, Submission.gate_change == row.id, "The change was withdrawn.")
    return view(session, change_id)


def open_change(session: Session, contest_id: int, version_id: int) -> int | None:
    """The change of that version that is neither applied nor withdrawn."""
    return session.scalar(select(GateChange.id).where(
        GateChange.contest == contest_id, GateChange.applied_at.is_(None), GateChange.withdrawn_at.is_(None),
        GateChange.version.in_(problems.gate_sets(version_id))))


def _judge_again(session: Session, row: GateChange, best: list[int]) -> None:
    """The best entries and those of the preview, with all runs of theirs."""
    tried = select(Submission.replays).where(Submission.gate_change == row.id)
    rows = _locked(session, row, Submission.id.in_(replays.twins(or_(Submission.id.in_(best), Submission.id.in_(tried)))))
    for device in sorted({entry.device for entry in rows}):
        submissions.rejudge_all(session, [entry for entry in rows if entry.device == device and entry.competes], _reason(row))


def _locked(session: Session, row: GateChange, which: ColumnElement[bool]) -> Sequence[Submission]:
    """Submissions to the change's board under older gates, locked, as they are then."""
    here = (Submission.contest == row.contest, Submission.version.in_(problems.gate_sets(row.version)), Submission.version != row.version,
            Submission.replays.is_(None))
    return session.scalars(select(Submission).where(*here, which).order_by(Submission.id).with_for_update(of=Submission)
                           .execution_options(populate_existing=True)).all()


def _reason(row: GateChange) -> str:
    return f"The gates of this board changed: {row.reason}"


def _move_over(session: Session, entry: Submission, row: GateChange) -> None:
    """One that is not judged yet is judged by the new gates; where somebody works on it by the old ones, from the start."""
    if entry.state == State.QUEUED:
        entry.version = row.version
    elif entry.mode == Mode.RANKED and not entry.cancel_requested:
        entry.version = row.version
        claims.take_back(session, entry, _reason(row))


def _entries(session: Session, contest: ContestInfo, places: Sequence[ContestProblemInfo], top: int) -> list[Submission]:
    """Everything at least as fast as the last of the best rows, each source of a person once: their next best is no way around a gate."""
    found = [entry for place in places for entry in _best(session, contest, place, top)]
    if len(found) > MOST:
        raise RequestError(f"{len(found)} entries would be judged again; {MOST} may. Choose fewer places with --top.")
    return found


def _best(session: Session, contest: ContestInfo, place: ContestProblemInfo, top: int) -> list[Submission]:
    rows = boards.board(session, place.problem, place.device, contest.id).rows[:top]
    chosen = _competing(contest.id, place)
    if len(rows) == top:
        chosen = chosen.where(Submission.score_us <= rows[-1].score_us)
    first: dict[tuple[int, str], Submission] = {}
    for entry in session.scalars(chosen):
        first.setdefault((entry.person, entry.entry_sha), entry)
    return list(first.values())


def _competing(contest_id: int, place: ContestProblemInfo) -> Select[Submission]:
    return select(Submission).where(
        text(COMPETES), Submission.contest == contest_id, Submission.device == place.device, Submission.replays.is_(None),
        Submission.version.in_(problems.gate_sets(place.version_id))).order_by(Submission.score_us, Submission.id)


def _check_none_open(session: Session, contest: ContestInfo, place: ContestProblemInfo) -> None:
    known = open_change(session, contest.id, place.version_id)
    if known is not None:
        raise RequestError(f"The change {known} of {place.problem} is still open. `derby contest gate apply {known}` or "
                           f"`derby contest gate withdraw {known}` first.")


def _contest_of(session: Session, change_id: int, now: datetime) -> ContestInfo:
    """The change's contest, locked: nobody sends into it until the transaction ends."""
    contest_id = _row(session, change_id).contest
    contests.hold(session, contest_id)
    return contests.by_id(session, contest_id, now)


def _row(session: Session, change_id: int) -> GateChange:
    row = session.get(GateChange, change_id)
    if row is None:
        raise NotFound(f"There is no change of gates {change_id}.")
    return row


def _open(session: Session, change_id: int) -> GateChange:
    row = session.scalars(select(GateChange).where(GateChange.id == change_id).with_for_update()
                          .execution_options(populate_existing=True)).one()
    for at, what in ((row.applied_at, "applied"), (row.withdrawn_at, "withdrawn")):
        if at is not None:
            raise RequestError(f"The change {change_id} was {what} on {at:%Y-%m-%d at %H:%M} UTC.")
    return row

