"""The fair share: whose turn it is on a device class, and how much each person has had. Organizers' runs stand in nobody's turn."""

from datetime import UTC, datetime

from sqlalchemy import Row, Select, func, or_, select, text, update
from sqlalchemy.orm import Session

from kernelderby.storage.base import QUEUED, REPLAYS_QUEUED, WAITING
from kernelderby.storage.contest_models import Heat
from kernelderby.storage.models import ProblemRow, ProblemVersion, Submission, Turn
from kernelderby.storage.upsert import upsert

Taken = Row[Submission, ProblemVersion, ProblemRow]

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)   # a newcomer is served first
_TRIES = 8                                  # of a claim, when the counts in `turns` turn out to be stale


def take_next(session: Session, device: str, runner: str, now: datetime) -> Taken | None:
    """The submission whose turn it is, locked, its person marked as served. None: nothing waits.

    An organizers' run goes before what was queued after it, and behind all else: it delays nobody who came first, and its time comes.
    """
    for _ in range(_TRIES):
        replay, turn = _oldest_replay(session, device, runner), _next_person(session, device)
        taken = _oldest(session, device, turn.person) if turn else None
        if replay and (turn is None or (taken is not None and replay.queued_at < taken[0].queued_at)):
            if (won := _replay(session, replay.id, runner)) is not None:
                return won
            continue
        if turn is None:
            return None
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
    own = _queued().where(Submission.device == device, Submission.person == person, Submission.replays.is_(None))
    return session.execute(own.order_by(Submission.id).limit(1).with_for_update(of=Submission, skip_locked=True)).first()


def _oldest_replay(session: Session, device: str, runner: str) -> Row[int, datetime] | None:
    """Not locked: of two runners that both see the first run of a heat, none may go on with the second."""
    ours = select(Heat.id).where(or_(Heat.runner.is_(None), Heat.runner == runner))
    return session.execute(
        select(Submission.id, Submission.queued_at)
        .where(text(REPLAYS_QUEUED), Submission.device == device,
               or_(Submission.heat.is_(None), Submission.heat.in_(ours)))
        .order_by(Submission.id).limit(1)
    ).first()


def _replay(session: Session, number: int, runner: str) -> Taken | None:
    """That organizers' run, locked, its heat bound to this runner. None: another runner was faster."""
    taken = session.execute(_queued().where(Submission.id == number).with_for_update(of=Submission)).first()
    if taken is None or taken[0].heat is None:
        return taken
    heat = session.scalars(
        select(Heat).where(Heat.id == taken[0].heat).with_for_update().execution_options(populate_existing=True)).one()
    heat.runner = heat.runner or runner
    return taken if heat.runner == runner else None


def _queued() -> Select[Submission, ProblemVersion, ProblemRow]:
    return (select(Submission, ProblemVersion, ProblemRow)
            .join(ProblemVersion, ProblemVersion.id == Submission.version).join(ProblemRow, ProblemRow.id == ProblemVersion.problem)
            .where(text(QUEUED)).execution_options(populate_existing=True))


def _count(session: Session, device: str, person: int) -> int:
    return session.scalar(
        select(func.count()).select_from(Submission).where(
            text(QUEUED), Submission.device == device, Submission.person == person, Submission.replays.is_(None))
    ) or 0
