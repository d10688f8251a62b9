"""What attempts cost, and what is left of an agent's budget. A row is written with the attempt's end, in its transaction."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from kernelderby.core.verdict import Outcome, Verdict
from kernelderby.storage.models import LedgerRow, Submission, Token

_DEVICE_STAGES = ("box", "load", "check", "time")     # while a device is held; a build needs none


@dataclass(frozen=True, kw_only=True)
class Budget:
    """An agent's budget over the life of its token. A limit of None: there is none."""

    runs: int | None
    gpu_seconds: float | None
    runs_spent: int              # submissions of every mode, those that wait included; not those that our failure ended
    seconds_spent: float         # of devices, by finished attempts


def charge(session: Session, row: Submission, verdict: Verdict, now: datetime) -> None:
    """Write down an attempt that ended in a verdict. Our own failure costs nothing, nor does being judged again."""
    seconds = sum(verdict.stages_s.get(stage, 0.0) for stage in _DEVICE_STAGES)
    free = verdict.outcome is Outcome.JUDGE_ERROR or _was_charged(session, row.id)
    _write(session, row, 0.0 if free else seconds, now)


def write_off(session: Session, row: Submission, now: datetime) -> None:
    """Write down an attempt that was lost or given back: it costs nothing."""
    _write(session, row, 0.0, now)


def budget(session: Session, token_id: int) -> Budget:
    """What a token may spend and has spent."""
    token = session.get_one(Token, token_id)
    runs = session.scalar(select(func.count()).select_from(Submission).where(
        Submission.token == token_id, or_(Submission.outcome.is_(None), Submission.outcome != Outcome.JUDGE_ERROR)))
    seconds = session.scalar(select(func.sum(LedgerRow.seconds)).where(LedgerRow.token == token_id))
    return Budget(runs=token.runs, gpu_seconds=token.gpu_seconds, runs_spent=runs or 0, seconds_spent=round(seconds or 0.0, 3))


def _was_charged(session: Session, submission_id: int) -> bool:
    return session.scalar(select(LedgerRow.attempt).where(
        LedgerRow.submission == submission_id, LedgerRow.seconds > 0).limit(1)) is not None


def _write(session: Session, row: Submission, seconds: float, now: datetime) -> None:
    session.add(LedgerRow(submission=row.id, attempt=row.attempt, person=row.person, token=row.token, device=row.device, mode=row.mode,
                          seconds=seconds, at=now))
