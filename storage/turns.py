"""The fair share: whose turn it is on a device class, and how much each person has had."""

from datetime import UTC, datetime

from sqlalchemy import Row, func, select, text, update
from sqlalchemy.orm import Session

from kernelderby.storage.base import QUEUED, WAITING
from kernelderby.storage.models import ProblemRow, ProblemVersion, Submission, Turn
from kernelderby.storage.upsert import upsert

Taken = Row[Submission, ProblemVersion, ProblemRow]

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)   # a newcomer is served first
_TRIES = 8                                  # of a claim, when the counts in `turns` turn out to be stale


def take_next(session: Session, device: str, now: datetime) -> Taken | None:
    """The submission whose turn it is, locked, its person marked as served. None: nothing waits."""
    for _ in range(_TRIES):
        turn = _next_person(session, device)
        if turn is None:
            return None
        taken = _oldest(session, device, turn.person)
        turn.served_at = now
        turn.queued = turn.queued - 1 if taken is not None else _count(session, device, turn.person)
        if taken is not None:
            return taken
        session.flush()
    return None


def add_waiting(session: Session, person: int, device: str, count: int) -> None:
    """Count submissions of a person in or out of the queue."""
    session.flush()
    upsert(session, Turn, {"person": person, "device": device, "served_at": _NEVER, "queued": max(0, count), "gpu_seconds": 0.0},
           ["person", "device"], {"queued": Turn.queued + count})


def add_seconds(session: Session, person: int, device: str, seconds: float) -> None:
    """Add to the time a person has had on a device class."""
    session.execute(
        update(Turn).where(Turn.person == person, Turn.device == device).values(gpu_seconds=Turn.gpu_seconds + seconds)
        .execution_options(synchronize_session=False)
    )


def _next_person(session: Session, device: str) -> Turn | None:
    """Passing over those whom another worker is serving; if all are, wait for one of them."""
    waiting = (
        select(Turn).where(text(WAITING), Turn.device == device).order_by(Turn.served_at, Turn.person).limit(1)
        .execution_options(populate_existing=True)
    )
    return session.scalar(waiting.with_for_update(skip_locked=True)) or session.scalar(waiting.with_for_update())


def _oldest(session: Session, device: str, person: int) -> Taken | None:
    return session.execute(
        select(Submission, ProblemVersion, ProblemRow)
        .join(ProblemVersion, ProblemVersion.id == Submission.version)
        .join(ProblemRow, ProblemRow.id == ProblemVersion.problem)
        .where(text(QUEUED), Submission.device == device, Submission.person == person)
        .order_by(Submission.id).limit(1)
        .with_for_update(of=Submission, skip_locked=True)
        .execution_options(populate_existing=True)
    ).first()


def _count(session: Session, device: str, person: int) -> int:
    return session.scalar(
        select(func.count()).select_from(Submission).where(text(QUEUED), Submission.device == device, Submission.person == person)
    ) or 0
