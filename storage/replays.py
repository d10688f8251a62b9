"""Organizers' own runs of entries, under other gates or in a final heat. They compete nowhere and cost their person no quota."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Select, select, text
from sqlalchemy.orm import Session

from kernelderby.core.verdict import Mode, Outcome, State
from kernelderby.storage import claims
from kernelderby.storage.base import COMPETES
from kernelderby.storage.models import Attempt, Submission

DOOR = "replay"
NOT_JUDGED = (Outcome.JUDGE_ERROR, Outcome.CANCELLED, Outcome.UNSTABLE)     # ends that say nothing about an entry

Played = tuple[Submission, Attempt | None]                                  # a run with its present attempt


def add(session: Session, entry: Submission, by: int, version: int, now: datetime, **purpose: int) -> int:
    """A ranked run of an entry by an organizer, queued, under that version row; its number. `purpose`: `gate_change` or `heat`."""
    row = Submission(
        person=by, contest=entry.contest, version=version, device=entry.device, mode=Mode.RANKED, state=State.QUEUED,
        file_name=entry.file_name, source_sha=entry.source_sha, licence=entry.licence, ai_use=entry.ai_use, door=DOOR,
        language=entry.language, created_at=now, queued_at=now, attempt=0, losses=0, box_losses=0, last_seq=0, cancel_requested=False,
        competes=False, entry_sha=entry.entry_sha, replays=entry.id, **purpose)
    session.add(row)
    session.flush()
    claims.requeue(session, row, "")
    return row.id


def played(session: Session, which: ColumnElement[bool]) -> Sequence[Played]:
    """The runs of a gate change or heat, in their order."""
    present = (Attempt.submission == Submission.id) & (Attempt.attempt == Submission.attempt)
    found = session.execute(select(Submission, Attempt).outerjoin(Attempt, present)
                            .where(which, Submission.replays.is_not(None)).order_by(Submission.id))
    return [(row, attempt) for row, attempt in found]


def twins(these: ColumnElement[bool]) -> Select[int]:
    """These entries, and whatever else of the same person competes on the same class with the same source; submissions.id."""
    one = select(Submission.person, Submission.entry_sha, Submission.device).where(these).distinct().subquery()
    return select(Submission.id).join(one, (Submission.person == one.c.person) & (Submission.entry_sha == one.c.entry_sha)
                                      & (Submission.device == one.c.device)).where(text(COMPETES))


def says_something(row: Submission) -> bool:
    """Whether the run ended in a way that tells about its entry."""
    return row.state == State.DONE and row.outcome not in NOT_JUDGED


def end_all(session: Session, which: ColumnElement[bool], why: str) -> None:
    """End those that wait, and ask those that run to end."""
    waiting = select(Submission).where(which, Submission.replays.is_not(None), Submission.state != State.DONE).order_by(Submission.id)
    for row in session.scalars(waiting.with_for_update().execution_options(populate_existing=True)).all():
        if row.state == State.QUEUED:
            claims.end_cancelled(session, row, why)
        else:
            row.cancel_requested = True
    session.flush()
