"""The steps of a submission's life, as readers see them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from kernelderby.core.verdict import State
from kernelderby.storage.models import EventRow


@dataclass(frozen=True, kw_only=True)
class Event:
    """One step. `seq` starts at 1 and has no gaps within its submission."""

    seq: int
    at: datetime
    kind: str                 # state build check time log verdict
    data: dict[str, Any]


def after(session: Session, submission_id: int, seq: int, limit: int = 500) -> list[Event]:
    """The events of a submission after `seq`, in order, at most `limit`."""
    rows = session.scalars(
        select(EventRow).where(EventRow.submission == submission_id, EventRow.seq > seq).order_by(EventRow.seq).limit(limit)
    )
    return [Event(seq=r.seq, at=r.at, kind=r.kind, data=r.data) for r in rows]


def judged_again(session: Session, submission_id: int) -> str | None:
    """Why it went back to the queue after its last verdict but one, as when gates changed. None: it was judged once."""
    before = aliased(EventRow)
    steps = session.scalars(
        select(EventRow.data).join(before, (before.submission == EventRow.submission) & (before.seq == EventRow.seq - 1))
        .where(EventRow.submission == submission_id, EventRow.kind == "state", before.kind == "verdict").order_by(EventRow.seq.desc()))
    return next((str(data["reason"]) for data in steps if data.get("state") == State.QUEUED and data.get("reason")), None)
