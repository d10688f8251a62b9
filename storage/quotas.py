"""What may still be sent into a contest: by mode, of a person or their team, by count and by GPU-seconds; and the contest's hard cap.

Nothing of it comes back: not by a cancel, nor by leaving. Our own failures cost nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from kernelderby.core.contest import ModeQuota
from kernelderby.core.errors import NotAllowed, QuotaSpent
from kernelderby.core.verdict import Mode, Outcome, State
from kernelderby.storage import registrations
from kernelderby.storage.contest_models import Contest, Registration
from kernelderby.storage.contests import ContestInfo
from kernelderby.storage.models import LedgerRow, Submission

UNKNOWN_S = 60.0                 # what a run may need where none of its kind has ended: the usual limit of a problem
LEAST_S, MOST_S = 1.0, 300.0     # bounds of what is kept for a run that waits: one slow run must not shut the others out
NEVER = "A contest's quota is for the whole contest and does not come back."
LATER_S = 60                     # what is kept for runs that wait may be free once they are judged

Conditions = Sequence[ColumnElement[bool]]


@dataclass(frozen=True, kw_only=True)
class Use:
    """A limit and what went of it."""

    limit: ModeQuota
    runs: int                # sent, but for what our failures ended
    waiting: int             # of these, not judged yet
    seconds: float           # of devices, by finished attempts
    reserved: float          # seconds kept for those that wait

    @property
    def runs_left(self) -> int | None:
        """None: no limit."""
        return None if self.limit.runs is None else max(0, self.limit.runs - self.runs)

    @property
    def seconds_left(self) -> float | None:
        """Without what is kept for those that wait. None: no limit."""
        return None if self.limit.gpu_seconds is None else round(max(0.0, self.limit.gpu_seconds - self.seconds - self.reserved), 3)


@dataclass(frozen=True, kw_only=True)
class Left:
    """What may still be sent in a mode. None: no limit."""

    runs: int | None
    gpu_seconds: float | None


def lock(session: Session, contest_name: str, person_id: int) -> None:
    """Let nobody else send into that contest until the transaction ends, nor move this person's place. Take the person's lock first."""
    contest = session.scalar(select(Contest.id).where(Contest.name == contest_name).with_for_update(key_share=True))
    session.execute(select(Registration.person).where(Registration.contest == contest, Registration.person == person_id).with_for_update())


def admit(session: Session, contest: ContestInfo, person_id: int, mode: Mode) -> int | None:
    """The team that someone sends for (None: for themself), if they may send one more now.

    Under `lock` it holds for requests at once. What is over may exceed a limit of GPU-seconds by one run, no more: what waits is
    reckoned with. Raises NotAllowed for who has no place, QuotaSpent.
    """
    place = registrations.registration(session, contest.id, person_id)
    if place is None:
        raise NotAllowed(f"You are not registered in the contest {contest.name!r}. `derby contest register {contest.name}` registers you.")
    if contest.rules.by_team and place.team is None:
        raise NotAllowed(f"In the contest {contest.name!r} teams compete, and you have entered for none. "
                         f"Choose yours: `derby contest register {contest.name} --team TEAM`.")
    whose = f"of the team {place.team_name!r}" if contest.rules.by_team else "of yours"
    _check_mode(use(session, contest, person_id, place.team, mode), mode, whose, contest.name)
    _check_cap(cap(session, contest), contest.name)
    return place.team


def use(session: Session, contest: ContestInfo, person_id: int, team: int | None, mode: Mode) -> Use:
    """What went of a person's, or in a contest by team of their team's, quota in a mode."""
    own = Submission.team == team if contest.rules.by_team else Submission.person == person_id
    return _use(session, contest.rules.quotas.get(mode, ModeQuota()), (*_of(contest), own, Submission.mode == mode), contest)


def cap(session: Session, contest: ContestInfo) -> Use:
    """What went of all that a contest may cost."""
    return _use(session, ModeQuota(gpu_seconds=contest.rules.gpu_seconds), _of(contest), contest)


def left(session: Session, contest: ContestInfo, person_id: int, team: int | None, mode: Mode) -> Left:
    """What may still be sent in a mode, by the tighter of one's own quota and the contest's cap."""
    own = use(session, contest, person_id, team, mode)
    seconds = [s for s in (own.seconds_left, cap(session, contest).seconds_left if contest.rules.gpu_seconds else None) if s is not None]
    return Left(runs=own.runs_left, gpu_seconds=min(seconds, default=None))


def _check_mode(spent: Use, mode: Mode, whose: str, contest: str) -> None:
    runs, seconds = spent.limit.runs, spent.limit.gpu_seconds
    if runs is not None and spent.runs >= runs:
        raise QuotaSpent(f"All {runs} {mode} runs {whose} in the contest {contest!r} are used{_still(spent)}. {NEVER}", retry_after_s=None)
    if seconds is not None and spent.seconds >= seconds:
        raise QuotaSpent(f"The {mode} GPU-seconds {whose} in the contest {contest!r} are spent: {spent.seconds:,.1f} of {seconds:,.1f}. "
                         f"{NEVER}", retry_after_s=None)
    if seconds is not None and spent.seconds + spent.reserved >= seconds:
        raise QuotaSpent(f"Of {seconds:,.1f} {mode} GPU-seconds {whose} in the contest {contest!r} {spent.seconds:,.1f} are spent, and the "
                         f"{spent.waiting} runs that wait may need the rest. Try again when they are judged.", retry_after_s=LATER_S)


def _check_cap(spent: Use, contest: str) -> None:
    seconds = spent.limit.gpu_seconds
    if seconds is None or spent.seconds + spent.reserved < seconds:
        return
    if spent.seconds >= seconds:
        raise QuotaSpent(f"The contest {contest!r} has spent the {seconds:,.1f} GPU-seconds it has for everyone. {NEVER} "
                         "Its organizers know what comes next.", retry_after_s=None)
    raise QuotaSpent(f"Of the {seconds:,.1f} GPU-seconds that the contest {contest!r} has for everyone {spent.seconds:,.1f} are spent, and "
                     f"the {spent.waiting} runs that wait may need the rest. Try again when they are judged.", retry_after_s=LATER_S)


def _still(spent: Use) -> str:
    return f", {spent.waiting} of them not judged yet" if spent.waiting else ""


def _use(session: Session, limit: ModeQuota, which: Conditions, contest: ContestInfo) -> Use:
    counted = or_(Submission.outcome.is_(None), Submission.outcome != Outcome.JUDGE_ERROR)
    runs = session.scalar(select(func.count()).select_from(Submission).where(*which, counted)) or 0
    seconds = session.scalar(
        select(func.sum(LedgerRow.seconds)).select_from(Submission).join(LedgerRow, LedgerRow.submission == Submission.id).where(*which))
    waiting = _waiting(session, which)
    return Use(limit=limit, runs=runs, waiting=sum(waiting.values()), seconds=round(seconds or 0.0, 3),
               reserved=_reserved(session, waiting, contest) if limit.gpu_seconds is not None else 0.0)


def _waiting(session: Session, which: Conditions) -> dict[tuple[str, str], int]:
    """How many runs are still to be paid for, by mode and device class; one that is judged again was paid for."""
    paid = select(LedgerRow.attempt).where(LedgerRow.submission == Submission.id, LedgerRow.seconds > 0).exists()
    rows = session.execute(select(Submission.mode, Submission.device, func.count()).where(*which, Submission.state != State.DONE, ~paid)
                           .group_by(Submission.mode, Submission.device))
    return {(mode, device): count for mode, device, count in rows}


def _reserved(session: Session, waiting: dict[tuple[str, str], int], contest: ContestInfo) -> float:
    """Seconds for runs that wait: each as long as the longest of its kind so far in this contest, within bounds."""
    if not waiting:
        return 0.0
    rows = session.execute(
        select(Submission.mode, Submission.device, func.max(LedgerRow.seconds)).join(LedgerRow, LedgerRow.submission == Submission.id)
        .where(*_of(contest), LedgerRow.seconds > 0).group_by(Submission.mode, Submission.device))
    longest = {(mode, device): seconds for mode, device, seconds in rows}
    return sum(count * min(max(longest.get(kind, UNKNOWN_S), LEAST_S), MOST_S) for kind, count in waiting.items())


def _of(contest: ContestInfo) -> tuple[Any, ...]:
    """Entries of a contest; the organizers' own runs cost nobody's quota."""
    return (Submission.contest == contest.id, Submission.replays.is_(None))
