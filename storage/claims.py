"""The run of a submission: claimed under a lease, reported under a fencing number, ended by one verdict or given back.

Every write names the attempt it belongs to. Once another attempt exists, or the run has ended, it writes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from kernelderby.core.verdict import Flag, Mode, Outcome, State, Verdict
from kernelderby.storage import boards, drops, factors, ledger, pooling, turns
from kernelderby.storage.base import LEASED
from kernelderby.storage.contest_models import Contest
from kernelderby.storage.models import Attempt, EventRow, Person, ProblemRow, ProblemVersion, Submission

MAX_LOSSES = 3           # lost attempts before the verdict is judge_error
MAX_BOX_LOSSES = 2       # of these, with the contestant's box alive, before they count as its own fault
_AT_WORK = (State.BUILDING, State.RUNNING)
_NEVER_RANKS = {Flag.LIBRARY, Flag.NO_SANDBOX}
_PRACTICE_ALONE = {Flag.UNCERTIFIED}     # no contest is decided on a runner without a certificate


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A run that is ours until its lease ends."""

    id: int                  # of the submission
    attempt: int             # the fencing number
    problem: str
    version: str
    gate_set: str
    archive: str             # artifact key of the problem
    device: str
    mode: Mode
    file_name: str
    source_sha: str
    queued_s: float          # how long it waited
    contest: int | None = None     # whose secret its seed comes from; None: practice


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a run's owner must know while it works."""

    ours: bool               # False: fenced out; stop, and write nothing
    cancelled: bool          # its person wants it to end


def claim(session: Session, device: str, runner: str, lease_s: float, now: datetime) -> Claim | None:
    """The next run of a device class: the oldest of the person served least lately, or an organizers'. None: nothing waits."""
    taken = turns.take_next(session, device, runner, now)
    if taken is None:
        return None
    row, version, problem = taken
    row.state, row.attempt, row.claimed_at, row.lease_until = State.BUILDING, row.attempt + 1, now, now + timedelta(seconds=lease_s)
    session.add(Attempt(submission=row.id, attempt=row.attempt, runner=runner, started_at=now))
    _event(session, row, "state", {"state": State.BUILDING, "attempt": row.attempt, "runner": runner})
    session.flush()
    return Claim(
        id=row.id, attempt=row.attempt, problem=problem.name, version=version.hash, gate_set=version.gate_set, archive=version.archive,
        device=row.device, mode=Mode(row.mode), file_name=row.file_name, source_sha=row.source_sha,
        queued_s=max(0.0, (now - row.queued_at).total_seconds()), contest=row.contest,
    )


def standing(session: Session, submission_id: int, attempt: int) -> Standing:
    """Whether a run is still ours, and whether it should go on. Only reads."""
    found = session.execute(
        select(Submission.attempt, Submission.state, Submission.cancel_requested).where(Submission.id == submission_id)
    ).first()
    ours = found is not None and found[0] == attempt and found[1] in _AT_WORK
    return Standing(ours=ours, cancelled=bool(found and found[2]))


def renew(session: Session, submission_id: int, attempt: int, until: datetime) -> bool:
    """Keep the lease until then. False: fenced out, or its person cancelled it."""
    kept = session.scalar(
        update(Submission).where(*_fence(submission_id, attempt)).values(lease_until=until).returning(Submission.cancel_requested)
    )
    return kept is False


def add_events(session: Session, submission_id: int, attempt: int, steps: Sequence[tuple[str, dict[str, Any]]]) -> int | None:
    """Steps of the run, in order; the last one's `seq`, or None when fenced out."""
    row = _ours(session, submission_id, attempt)
    if row is None:
        return None
    for kind, data in steps:
        if kind == "state" and data.get("state") in _AT_WORK:
            row.state = State(data["state"])
        _event(session, row, kind, data)
    session.flush()
    return row.last_seq


def finish(session: Session, submission_id: int, attempt: int, verdict: Verdict) -> bool:
    """End the run with its verdict: row, attempt, event and board in one. False: fenced out, nothing was written."""
    _hold_contest(session, submission_id)
    row = _ours(session, submission_id, attempt)
    if row is None:
        return False
    _end(session, row, verdict)
    return True


def release(session: Session, submission_id: int, attempt: int, reason: str) -> bool:
    """Give the run back to the queue without counting it as lost, as when a worker is told to stop. False: fenced out."""
    row = _ours(session, submission_id, attempt)
    if row is None:
        return False
    _end_or_requeue(session, row, reason)
    return True


def lose(session: Session, submission_id: int, attempt: int, box_alive: bool, reason: str) -> bool:
    """The attempt came to nothing: back to the queue, or ended where that happened too often. False: fenced out.

    `box_alive`: the contestant's box was lent at that time, so its code may be the cause.
    """
    row = _ours(session, submission_id, attempt)
    if row is None:
        return False
    row.losses += 1
    row.box_losses += box_alive
    if row.box_losses >= MAX_BOX_LOSSES:
        _end(session, row, _verdict(session, row, Outcome.RUNTIME_ERROR, f"The run ended twice while your code ran: {reason}"))
    elif row.losses >= MAX_LOSSES:
        _end(session, row, _verdict(session, row, Outcome.JUDGE_ERROR, f"Our fault, {row.losses} times: {reason} Nothing is wrong with "
                                                                       "your entry; the organizer can judge it again."))
    else:
        _end_or_requeue(session, row, reason)
    return True


def expire(session: Session, now: datetime) -> list[tuple[int, int]]:
    """Lose every run whose lease ran out; (submission, attempt) of each."""
    late = session.scalars(
        select(Submission).where(text(LEASED), Submission.lease_until < now).with_for_update(skip_locked=True)
    ).all()
    lost = [(row.id, row.attempt) for row in late]
    for row in late:
        lose(session, row.id, row.attempt, row.state == State.RUNNING, "The runner was not heard from any more.")
    return lost


def end_cancelled(session: Session, row: Submission, message: str) -> None:
    """End a submission that nobody works on as cancelled, under a new fencing number where it waits in the queue."""
    if row.state == State.QUEUED:
        _count(session, row, -1)
        row.attempt += 1
        session.add(Attempt(submission=row.id, attempt=row.attempt, runner="", started_at=_now()))
        session.flush()
    _end(session, row, _verdict(session, row, Outcome.CANCELLED, message))


def competes(session: Session, row: Submission, outcome: str | None, flags: Iterable[str]) -> bool:
    """Whether a run with that outcome and these marks puts its entry on the board: ranked, accepted, by someone who is not banned."""
    if outcome != Outcome.ACCEPTED or row.mode != Mode.RANKED or row.replays is not None:
        return False
    if (_NEVER_RANKS if row.contest is None else _NEVER_RANKS | _PRACTICE_ALONE).intersection(flags):
        return False
    return session.scalar(select(Person.banned_at).where(Person.id == row.person)) is None


def requeue(session: Session, row: Submission, reason: str) -> None:
    """Put a submission (back) into the queue; its place is that of its number."""
    row.state, row.lease_until, row.queued_at = State.QUEUED, None, _now()
    _count(session, row, 1)
    _event(session, row, "state", {"state": State.QUEUED, "reason": reason} if reason else {"state": State.QUEUED})
    session.flush()


def take_back(session: Session, row: Submission, reason: str) -> None:
    """Put a run that somebody works on back into the queue; they are fenced out, and it does not count as lost."""
    _end_or_requeue(session, row, reason)


def _hold_contest(session: Session, submission_id: int) -> None:
    """A change of its contest's gates waits for the end of this, or this for the change: the contest is locked before its runs."""
    session.execute(select(Contest.id).join(Submission, Submission.contest == Contest.id).where(Submission.id == submission_id)
                    .with_for_update(read=True, of=Contest))


def _count(session: Session, row: Submission, count: int) -> None:
    """Count a submission in or out of its person's turn, in which organizers' runs do not stand."""
    if row.replays is None:
        turns.add_waiting(session, row.person, row.device, count)


def _fence(submission_id: int, attempt: int) -> tuple[Any, ...]:
    return (Submission.id == submission_id, Submission.attempt == attempt, Submission.state.in_(_AT_WORK))


def _ours(session: Session, submission_id: int, attempt: int) -> Submission | None:
    return session.scalar(
        select(Submission).where(*_fence(submission_id, attempt)).with_for_update().execution_options(populate_existing=True)
    )


def _end_or_requeue(session: Session, row: Submission, reason: str) -> None:
    if row.cancel_requested:
        _end(session, row, _verdict(session, row, Outcome.CANCELLED, "Cancelled."))
    else:
        now = _now()
        session.get_one(Attempt, (row.id, row.attempt)).finished_at = now
        ledger.write_off(session, row, now)
        requeue(session, row, reason)


def _end(session: Session, row: Submission, verdict: Verdict) -> None:
    now = _now()
    row.state, row.finished_at, row.lease_until, row.outcome = State.DONE, now, None, verdict.outcome
    row.speedup, row.bound_share = verdict.speedup, float(verdict.environment.get("bound_share", 0.0))
    row.competes = verdict.score_us is not None and competes(session, row, verdict.outcome, verdict.flags)
    pooling.score(session, row, verdict)
    rank = boards.rank_of(session, row)
    final = verdict.model_copy(update={"submission": row.id, "attempt": row.attempt, "state": State.DONE, "rank": rank})
    attempt = session.get_one(Attempt, (row.id, row.attempt))
    attempt.finished_at, attempt.outcome, attempt.gate = now, final.outcome, final.gate
    attempt.verdict = final.model_dump(mode="json")
    _event(session, row, "state", {"state": State.DONE})
    _event(session, row, "verdict", attempt.verdict)
    if row.replays is None:
        turns.add_seconds(session, row.person, row.device, final.stages_s.get("total", 0.0))
    ledger.charge(session, row, final, now)
    if row.competes:
        factors.keep(session, verdict, now)
        boards.follow(session, row)
    drops.tell(session, row, final, now)
    session.flush()


def _verdict(session: Session, row: Submission, outcome: Outcome, message: str) -> Verdict:
    problem, version = session.execute(
        select(ProblemRow.name, ProblemVersion.hash).join(ProblemVersion, ProblemVersion.problem == ProblemRow.id)
        .where(ProblemVersion.id == row.version)
    ).one()
    return Verdict(problem=problem, version=version, device=row.device, mode=Mode(row.mode), outcome=outcome, message=message)


def _event(session: Session, row: Submission, kind: str, data: dict[str, Any]) -> None:
    row.last_seq += 1
    session.add(EventRow(submission=row.id, seq=row.last_seq, at=_now(), kind=kind, data=data))


def _now() -> datetime:
    return datetime.now(UTC)
