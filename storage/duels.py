"""Duels: asked for by people, or by a board before its crown moves; claimed under a lease, ended by one result."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Select, func, or_, select, text
from sqlalchemy.orm import Session, aliased, defer

from kernelderby.core.duel import Duel
from kernelderby.core.errors import NotFound
from kernelderby.core.scoring import Ratio
from kernelderby.core.verdict import State
from kernelderby.storage.base import DUEL_OPEN
from kernelderby.storage.models import Attempt, DuelRow, ProblemRow, ProblemVersion, Submission

MAX_LOSSES = 3                     # attempts lost or void before the duel ends as void
CROWN_WAIT = timedelta(days=1)     # between a person's duels with one leader for its crown, and before a void one is played anew
_WITHOUT_BLOCKS = defer(DuelRow.result)     # every call's time of every block


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two entries."""

    submission: int
    file_name: str
    source_sha: str
    solo_us: Mapping[str, float]     # its own judging's times by case, by its runner's factor


@dataclass(frozen=True, kw_only=True)
class DuelClaim:
    """A duel that is ours until its lease ends."""

    id: int
    attempt: int             # the fencing number
    problem: str
    version: str
    gate_set: str
    archive: str             # artifact key of the problem
    a: Side
    b: Side
    is_hopeless: bool        # it was lost as often as it may be: end it as void


@dataclass(frozen=True, kw_only=True)
class DuelView:
    """A duel as its readers see it."""

    id: int
    a: int                   # submissions
    b: int
    device: str
    person: int | None       # who asked
    is_for_crown: bool       # a board asked, before a takes b's place at its head
    state: State             # queued, running, done
    created_at: datetime
    finished_at: datetime | None
    result: Duel | None      # None until done


def ask(session: Session, a: int, b: int, person: int, now: datetime) -> int:
    """A person's duel, queued; its number."""
    return _insert(session, a, b, now, person=person)


def challenge(session: Session, board: int, challenger: Submission, holder: Submission) -> DuelRow | None:
    """A board's duel, queued, before the challenger takes the crown. None: its person had one with this leader, CROWN_WAIT ago or less."""
    a, now = aliased(Submission), _now()
    met = session.scalar(
        _for_crown_of(holder, a).where(DuelRow.board == board, DuelRow.created_at > now - CROWN_WAIT, a.person == challenger.person))
    return None if met else session.get_one(DuelRow, _insert(session, challenger.id, holder.id, now, board=board))


def view(session: Session, duel_id: int) -> DuelView:
    """One duel. Raises NotFound."""
    row = session.get(DuelRow, duel_id)
    if row is None:
        raise NotFound(f"There is no duel {duel_id}.")
    return DuelView(id=row.id, a=row.a, b=row.b, device=row.device, person=row.person, is_for_crown=row.board is not None,
                    state=State(row.state), created_at=row.created_at, finished_at=row.finished_at,
                    result=Duel.model_validate(row.result) if row.result and row.state == State.DONE else None)


def asked_since(session: Session, person: int, submission: int, since: datetime) -> int:
    """How many duels a person asked for since a time in which that submission takes part."""
    return session.scalar(select(func.count()).select_from(DuelRow).where(
        DuelRow.person == person, DuelRow.created_at > since, or_(DuelRow.a == submission, DuelRow.b == submission))) or 0


def for_crown(session: Session, challenger: Submission, holder: Submission) -> DuelRow | None:
    """The newest duel a board asked for between these two entries, whichever of their submissions played it; no void one of long ago."""
    a = aliased(Submission)
    is_void = DuelRow.result["void"].as_string().is_not(None)
    return session.scalar(
        _for_crown_of(holder, a)
        .where(a.version == challenger.version, a.entry_sha == challenger.entry_sha,
               or_(DuelRow.state != State.DONE, DuelRow.finished_at > _now() - CROWN_WAIT, ~is_void))
        .order_by(DuelRow.id.desc()).limit(1)
    )


def between(session: Session, entries: Select[int]) -> dict[tuple[int, int], Ratio]:
    """The newest decided duel of each pair among these submissions: the first one's score over the second one's."""
    rows = session.scalars(
        select(DuelRow).options(_WITHOUT_BLOCKS)
        .where(DuelRow.ratio.is_not(None), DuelRow.a != DuelRow.b, DuelRow.a.in_(entries), DuelRow.b.in_(entries)).order_by(DuelRow.id)
    )
    found: dict[tuple[int, int], Ratio] = {}
    for row in rows:
        found.pop((row.b, row.a), None)
        if ratio := ratio_of(row):
            found[row.a, row.b] = ratio
    return found


def ratio_of(row: DuelRow) -> Ratio | None:
    """a's score over b's; None for a duel that was not decided."""
    if row.ratio is None or row.ratio_low is None or row.ratio_high is None:
        return None
    return Ratio(ratio=row.ratio, low=row.ratio_low, high=row.ratio_high)


def claim(session: Session, device: str, lease_s: float, now: datetime, *, is_for_crown: bool) -> DuelClaim | None:
    """The oldest duel that waits, or whose worker was not heard from any more. None: there is none."""
    row = session.scalar(
        select(DuelRow).where(text(DUEL_OPEN), DuelRow.device == device, or_(DuelRow.state == State.QUEUED, DuelRow.lease_until < now),
                              DuelRow.board.is_not(None) if is_for_crown else DuelRow.board.is_(None))
        .order_by(DuelRow.id).limit(1).with_for_update(skip_locked=True)
    )
    if row is None:
        return None
    row.losses += row.state == State.RUNNING      # its worker went away
    row.state, row.attempt, row.lease_until = State.RUNNING, row.attempt + 1, now + timedelta(seconds=lease_s)
    session.flush()
    version, problem = session.execute(
        select(ProblemVersion, ProblemRow).join(ProblemRow, ProblemRow.id == ProblemVersion.problem)
        .join(Submission, Submission.version == ProblemVersion.id).where(Submission.id == row.a)
    ).one()
    return DuelClaim(id=row.id, attempt=row.attempt, problem=problem.name, version=version.hash, gate_set=version.gate_set,
                     archive=version.archive, a=_side(session, row.a), b=_side(session, row.b), is_hopeless=row.losses >= MAX_LOSSES)


def renew(session: Session, duel_id: int, attempt: int, until: datetime) -> bool:
    """Keep the lease until then. False: it is another's now."""
    row = _ours(session, duel_id, attempt)
    if row is not None:
        row.lease_until = until
    return row is not None


def release(session: Session, duel_id: int, attempt: int) -> bool:
    """Give the duel back without counting the attempt. False: it is another's now."""
    row = _ours(session, duel_id, attempt)
    if row is not None:
        row.state, row.lease_until = State.QUEUED, None
    return row is not None


def finish(session: Session, duel_id: int, attempt: int, duel: Duel) -> int | None:
    """End the duel; a void one is played again, MAX_LOSSES times in all. The board whose crown it was about, once it is over."""
    row = _ours(session, duel_id, attempt)
    if row is None:
        return None
    row.losses += duel.void is not None
    row.lease_until = None
    if duel.void is not None and row.losses < MAX_LOSSES:
        row.state = State.QUEUED
        return None
    row.state, row.finished_at, row.result = State.DONE, _now(), duel.model_dump(mode="json")
    if duel.is_decided and duel.ratio is not None and duel.ratio_ci is not None:
        row.ratio, (row.ratio_low, row.ratio_high) = duel.ratio, duel.ratio_ci
    session.flush()
    return row.board


def void(claim: DuelClaim, device: str, reason: str) -> Duel:
    """The result of an attempt that came to nothing by our own fault."""
    return Duel(problem=claim.problem, version=claim.version, device=device, void=reason)


def _insert(session: Session, a: int, b: int, now: datetime, **asked: Any) -> int:
    row = DuelRow(a=a, b=b, device=session.get_one(Submission, a).device, state=State.QUEUED, attempt=0, losses=0, created_at=now, **asked)
    session.add(row)
    session.flush()
    return row.id


def _for_crown_of(holder: Submission, a: type[Submission]) -> Select[DuelRow]:
    """The duels that boards asked for with that entry; `a` stands for those who challenged it."""
    b = aliased(Submission)
    return (select(DuelRow).options(_WITHOUT_BLOCKS).join(a, a.id == DuelRow.a).join(b, b.id == DuelRow.b)
            .where(DuelRow.board.is_not(None), DuelRow.device == holder.device, b.entry_sha == holder.entry_sha))


def _ours(session: Session, duel_id: int, attempt: int) -> DuelRow | None:
    return session.scalar(
        select(DuelRow).where(DuelRow.id == duel_id, DuelRow.attempt == attempt, DuelRow.state == State.RUNNING)
        .with_for_update().execution_options(populate_existing=True)
    )


def _side(session: Session, submission_id: int) -> Side:
    row = session.get_one(Submission, submission_id)
    attempt = session.get(Attempt, (row.id, row.attempt))
    verdict: Mapping[str, Any] = (attempt and attempt.verdict) or {"cases": [], "environment": {}}
    factor = float(verdict["environment"].get("factor", 1.0))
    return Side(submission=row.id, file_name=row.file_name, source_sha=row.source_sha,
                solo_us={case["name"]: case["time_us"] * factor for case in verdict["cases"] if case.get("time_us")})


def _now() -> datetime:
    return datetime.now(UTC)
