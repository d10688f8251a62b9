"""The problems on offer, and the versions they had."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Row, Select, func, select, update
from sqlalchemy.orm import Session

from kernelderby.core.errors import NotFound
from kernelderby.core.problem_folder import Problem
from kernelderby.core.text import one_line
from kernelderby.storage.contest_models import GateChange
from kernelderby.storage.models import Board, ProblemRow, ProblemVersion
from kernelderby.storage.upsert import upsert


@dataclass(frozen=True, kw_only=True)
class ProblemInfo:
    """A problem with its current version."""

    id: int
    name: str
    title: str
    family: str
    version_id: int
    version: str                  # hash without the gate set
    gate_set: str
    archive: str                  # its key in the artifact store
    devices: tuple[str, ...]      # classes with a practice board
    open: bool                    # whether the practice boards take submissions
    closes_at: datetime | None
    min_effect: float             # gaps below this share are ties


def add(session: Session, problem: Problem, archive_key: str, devices: Sequence[str]) -> ProblemInfo:
    """Make this the current version of the problem by its name, with boards for `devices` beside those that this version has already."""
    now = datetime.now(UTC)
    position = session.scalar(select(func.count()).select_from(ProblemRow)) or 0
    upsert(session, ProblemRow,
           {"name": problem.name, "title": problem.spec.title, "family": problem.spec.family, "position": position},
           ["name"], {"title": problem.spec.title, "family": problem.spec.family})
    row = session.scalars(select(ProblemRow).where(ProblemRow.name == problem.name).with_for_update()).one()
    devices = list(dict.fromkeys([*_boards_of(session, row.id, problem.version), *devices]))
    upsert(session, ProblemVersion,
           {"problem": row.id, "hash": problem.version, "gate_set": problem.gate_set, "archive": archive_key,
            "devices": devices, "min_effect": problem.spec.min_effect, "created_at": now, "open": True},
           ["problem", "hash", "gate_set"], {"archive": archive_key, "devices": devices})
    row.current = session.scalars(
        select(ProblemVersion.id).where(ProblemVersion.problem == row.id, ProblemVersion.hash == problem.version,
                                        ProblemVersion.gate_set == problem.gate_set)
    ).one()
    session.flush()
    _open_boards(session, board_version(session, row.current), devices)
    return get(session, problem.name)


def listing(session: Session) -> list[ProblemInfo]:
    """Every problem with its current version, in the order they were added."""
    return [_info(row) for row in session.execute(_current().order_by(ProblemRow.position, ProblemRow.id))]


def get(session: Session, name: str) -> ProblemInfo:
    """The problem by name. Raises NotFound with the names of those that are open."""
    row = session.execute(_current().where(ProblemRow.name == one_line(name, 80))).first()
    if row is None:
        raise unknown(name, [info.name for info in listing(session) if info.open])     # a closed one may be a secret still
    return _info(row)


def unknown(name: str, known: Sequence[str]) -> NotFound:
    """The error for a problem that there is not."""
    return NotFound(f"There is no problem {one_line(name, 80)!r}. Known: {', '.join(known) or 'none'}.")


def set_open(session: Session, name: str, is_open: bool, closes_at: datetime | None = None) -> ProblemInfo:
    """Open or close the practice boards of a problem's current version, with an optional deadline. Raises NotFound."""
    info = get(session, name)
    session.execute(update(ProblemVersion).where(ProblemVersion.id == info.version_id).values(open=is_open, closes_at=closes_at))
    return get(session, name)


def keep_secret(session: Session, name: str) -> ProblemInfo:
    """Close the practice boards of a problem at the moment it was added: organizers alone know of it. Raises NotFound."""
    info = get(session, name)
    session.execute(update(ProblemVersion).where(ProblemVersion.id == info.version_id)
                    .values(open=False, closes_at=ProblemVersion.created_at))
    return get(session, name)


def never_opened() -> ColumnElement[bool]:
    """Holds for versions that `keep_secret` closed, until their boards open."""
    return ~ProblemVersion.open & (ProblemVersion.closes_at == ProblemVersion.created_at)


def board_version(session: Session, version_id: int) -> int:
    """The version row whose board a version's entries stand on: the first with the same hash, whatever its gate set."""
    version = session.get_one(ProblemVersion, version_id)
    first = session.scalar(
        select(func.min(ProblemVersion.id)).where(ProblemVersion.problem == version.problem, ProblemVersion.hash == version.hash)
    )
    return first or version_id


def newest_gate_set(session: Session, version_id: int) -> int:
    """The version row with the same hash whose gate set is the newest, but for those that are only tried."""
    version = session.get_one(ProblemVersion, version_id)
    current = session.scalar(
        select(ProblemVersion.id).join(ProblemRow, ProblemRow.current == ProblemVersion.id)
        .where(ProblemVersion.problem == version.problem, ProblemVersion.hash == version.hash)
    )
    tried = select(GateChange.version).where(GateChange.applied_at.is_(None))
    newest = select(func.max(ProblemVersion.id)).where(ProblemVersion.id.in_(gate_sets(version_id)), ProblemVersion.id.not_in(tried))
    return current or session.scalar(newest) or version_id


def gate_sets(version_id: int) -> Select[int]:
    """The version rows with the same hash, whatever their gate sets: they share a board."""
    one = select(ProblemVersion.problem, ProblemVersion.hash).where(ProblemVersion.id == version_id).subquery()
    return select(ProblemVersion.id).join(one, (ProblemVersion.problem == one.c.problem) & (ProblemVersion.hash == one.c.hash))


def add_gate_set(session: Session, version_id: int, problem: Problem, archive_key: str) -> int:
    """A version row beside that one, of the same hash with other gates; what is current stays so. Its number."""
    known = session.get_one(ProblemVersion, version_id)
    upsert(session, ProblemVersion,
           {"problem": known.problem, "hash": known.hash, "gate_set": problem.gate_set, "archive": archive_key, "devices": known.devices,
            "min_effect": problem.spec.min_effect, "created_at": datetime.now(UTC), "open": True},
           ["problem", "hash", "gate_set"], {"gate_set": problem.gate_set})
    return session.scalars(select(ProblemVersion.id).where(
        ProblemVersion.problem == known.problem, ProblemVersion.hash == known.hash, ProblemVersion.gate_set == problem.gate_set)).one()


def archive_of(session: Session, version_id: int) -> str:
    """The artifact key of a version row."""
    return session.get_one(ProblemVersion, version_id).archive


def _boards_of(session: Session, problem: int, version: str) -> list[str]:
    """The classes a version is played on, whatever its gate set."""
    known = session.scalars(select(ProblemVersion.devices).where(ProblemVersion.problem == problem, ProblemVersion.hash == version)
                            .order_by(ProblemVersion.id))
    return [device for devices in known for device in devices]


def _open_boards(session: Session, version_id: int, devices: Sequence[str]) -> None:
    open_now = set(session.scalars(select(Board.device).where(Board.version == version_id, Board.contest.is_(None))))
    session.add_all(Board(version=version_id, device=d) for d in devices if d not in open_now)
    session.flush()


def _current() -> Select[ProblemRow, ProblemVersion]:
    return select(ProblemRow, ProblemVersion).join(ProblemVersion, ProblemVersion.id == ProblemRow.current)


def _info(row: Row[ProblemRow, ProblemVersion]) -> ProblemInfo:
    problem, version = row
    return ProblemInfo(
        id=problem.id, name=problem.name, title=problem.title, family=problem.family, version_id=version.id, version=version.hash,
        gate_set=version.gate_set, archive=version.archive, devices=tuple(version.devices), open=version.open, closes_at=version.closes_at,
        min_effect=version.min_effect,
    )
