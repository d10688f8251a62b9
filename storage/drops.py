"""What someone is told whose entry falls by a change of its contest's gates."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelderby.core.text import clean_text
from kernelderby.core.verdict import Outcome, Verdict
from kernelderby.storage.contest_models import GateChange, Notice
from kernelderby.storage.models import Attempt, Submission

KIND = "drop"                                              # of the notice, which its person and organizers alone read
_SAYS_NOTHING = (Outcome.ACCEPTED, Outcome.JUDGE_ERROR, Outcome.CANCELLED)


def tell(session: Session, row: Submission, verdict: Verdict, now: datetime) -> None:
    """Tell the person of a run that ended with this verdict why it fell and how to appeal, where it stood before its gates changed."""
    if row.contest is None or row.replays is not None or verdict.outcome in _SAYS_NOTHING:
        return
    change = session.scalar(
        select(GateChange).where(GateChange.contest == row.contest, GateChange.version == row.version, GateChange.applied_at.is_not(None))
        .order_by(GateChange.id.desc()).limit(1))
    if change is None or not _stood_before(session, row, change):
        return
    text = (f"Submission {row.id} ({verdict.problem} on {row.device}) is not accepted any more. The gates of this board changed: "
            f"{change.reason.rstrip('.')}. It was judged again by them: {_said(verdict)}. If you hold that this is wrong, appeal: "
            f"derby contest appeal {row.id} TEXT")
    session.add(Notice(contest=row.contest, person=row.person, kind=KIND, text=clean_text(text), at=now, public=False))


def _stood_before(session: Session, row: Submission, change: GateChange) -> bool:
    accepted = select(Attempt.attempt).where(Attempt.submission == row.id, Attempt.attempt < row.attempt,
                                             Attempt.outcome == Outcome.ACCEPTED, Attempt.started_at < change.applied_at)
    return session.scalar(accepted.limit(1)) is not None


def _said(verdict: Verdict) -> str:
    gate = f" at the gate {verdict.gate}" if verdict.gate else ""
    return f"{verdict.outcome}{gate}{': ' if verdict.message else ''}{(verdict.message or '').rstrip('.')}"
