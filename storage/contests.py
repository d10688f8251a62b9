"""Contests: their rules, problems and stages."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from kernelderby.core.contest import ContestRules, ModeQuota, Stage, check_change, check_rules, stage_of
from kernelderby.core.devices import device as device_class
from kernelderby.core.errors import NotFound, RequestError
from kernelderby.core.problem import NAME, NAME_RULE
from kernelderby.core.text import one_line
from kernelderby.core.verdict import Mode, State
from kernelderby.storage import problems
from kernelderby.storage.contest_models import Contest, ContestProblem, Registration
from kernelderby.storage.models import ProblemRow, ProblemVersion, Submission
from kernelderby.storage.people import PersonInfo


@dataclass(frozen=True, kw_only=True)
class ContestInfo:
    """A contest at a time."""

    id: int
    name: str
    rules: ContestRules
    stage: Stage                  # at the time asked for
    revealed_at: datetime | None
    made_by: int | None           # people.id

    @property
    def started(self) -> bool:
        """Whether its problems are no secret any more."""
        return self.stage is not Stage.COMING

    @property
    def takes_entries(self) -> bool:
        """Whether it may be submitted to."""
        return self.stage in (Stage.OPEN, Stage.FROZEN)

    @property
    def shown_until(self) -> datetime | None:
        """Contestants see the boards as they were then. None: as they are."""
        hides = self.stage is Stage.FROZEN or self.stage is Stage.ENDED
        return self.rules.freezes_at if hides else None


@dataclass(frozen=True, kw_only=True)
class ContestProblemInfo:
    """One board of a contest."""

    problem: str
    title: str
    version_id: int
    version: str                  # hash without the gate set
    gate_set: str
    device: str
    position: int                 # counts from 0


def get(session: Session, name: str, now: datetime) -> ContestInfo:
    """The contest by name, at a time. Raises NotFound."""
    row = session.scalar(select(Contest).where(Contest.name == one_line(name, 80)))
    if row is None:
        raise NotFound(f"There is no contest {one_line(name, 80)!r}. `derby contest list` shows those there are.")
    return _info(row, now)


def by_id(session: Session, contest_id: int, now: datetime) -> ContestInfo:
    """The contest by number, at a time. Raises NotFound."""
    row = session.get(Contest, contest_id)
    if row is None:
        raise NotFound(f"There is no contest {contest_id}.")
    return _info(row, now)


def listing(session: Session, now: datetime) -> list[ContestInfo]:
    """Every contest, the one that starts last first."""
    return [_info(row, now) for row in session.scalars(select(Contest).order_by(Contest.starts_at.desc(), Contest.id.desc()))]


def create(session: Session, name: str, rules: ContestRules, made_by: int, now: datetime) -> ContestInfo:
    """A new contest without problems. Raises RequestError for a name that is taken or none, and for rules that contradict each other."""
    if not NAME.fullmatch(name):
        raise RequestError(f"A contest cannot be called {one_line(name, 40)!r}: {NAME_RULE}.")
    check_rules(rules)
    if rules.ends_at <= now:
        raise RequestError("The contest would have ended already. Choose an end that is to come.")
    row = Contest(name=name, made_by=made_by, created_at=now, **_columns(rules))
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:      # made at the same moment
        raise RequestError(f"There is a contest {name!r} already. Choose another name.") from None
    return _info(row, now)


def change(session: Session, contest_id: int, rules: ContestRules, now: datetime) -> ContestInfo:
    """Give it other rules. After the start only freeze and end may move: later, or to now. Raises NotFound, RequestError."""
    row = _locked(session, contest_id)
    check_change(_info(row, now).rules, rules, _info(row, now).stage, now)
    for name, value in _columns(rules).items():
        setattr(row, name, value)
    session.flush()
    return _info(row, now)


def freeze(session: Session, contest_id: int, now: datetime) -> ContestInfo:
    """From now on contestants see the boards as they are now. Raises NotFound, RequestError."""
    known = by_id(session, contest_id, now)
    if known.stage is not Stage.OPEN:
        raise RequestError(f"The contest is {known.stage}; only an open one can be frozen.")
    return change(session, contest_id, replace(known.rules, freezes_at=now), now)


def end(session: Session, contest_id: int, now: datetime) -> ContestInfo:
    """It takes no entries from now on; one that never froze stays so. Raises NotFound, RequestError."""
    known = by_id(session, contest_id, now)
    if not known.takes_entries:
        raise RequestError(f"The contest is {known.stage}; only one that takes entries can be ended.")
    freezes_at = known.rules.freezes_at if known.stage is Stage.FROZEN else None
    return change(session, contest_id, replace(known.rules, ends_at=now, freezes_at=freezes_at), now)


def reveal(session: Session, contest_id: int, now: datetime) -> ContestInfo:
    """Make final order and seeds public. Raises NotFound; RequestError before its end and while anything of it is still to be judged."""
    row = _locked(session, contest_id)
    stage = _info(row, now).stage
    if stage is not Stage.ENDED:
        raise RequestError(f"The contest is {stage}; it can be revealed once, after its end.")
    waiting = session.scalar(select(func.count()).where(Submission.contest == contest_id, Submission.state != State.DONE)) or 0
    if waiting:
        raise RequestError(f"{waiting} of its runs are still to be judged. Wait for them, or cancel them with `derby cancel`.")
    row.revealed_at = now
    session.flush()
    return _info(row, now)


def set_problems(session: Session, contest_id: int, places: Sequence[tuple[int, str]]) -> list[ContestProblemInfo]:
    """Its boards, in order, each a problem version and a device class it has cases for. Raises NotFound, RequestError."""
    named = [(_check_place(session, version_id, device_class(device).name), device_class(device).name) for version_id, device in places]
    if len(set(named)) < len(named):
        raise RequestError("A problem is named twice on one device class. Name each once.")
    session.execute(delete(ContestProblem).where(ContestProblem.contest == contest_id))
    session.add_all(ContestProblem(contest=contest_id, version=version, device=device_class(device).name, position=position)
                    for position, (version, device) in enumerate(places))
    session.flush()
    return problems_of(session, contest_id)


def problems_of(session: Session, contest_id: int) -> list[ContestProblemInfo]:
    """Its boards, in their order."""
    found = session.execute(_places().where(ContestProblem.contest == contest_id).order_by(ContestProblem.position))
    return [
        ContestProblemInfo(problem=problem.name, title=problem.title, version_id=version.id, version=version.hash,
                           gate_set=version.gate_set, device=place.device, position=place.position)
        for place, version, problem in found
    ]


def visible_problems(session: Session, contest_id: int, reader: PersonInfo | None, now: datetime) -> list[ContestProblemInfo]:
    """Its boards that a reader may know of: before the start those whose problem is no secret."""
    hidden = set[int]() if reader is not None and reader.is_organizer else hidden_problems(session, now)
    names = set(session.scalars(select(ProblemRow.name).where(ProblemRow.id.in_(hidden))))
    return [place for place in problems_of(session, contest_id) if place.problem not in names]


def version_of(session: Session, problem: str, version: str | None) -> int:
    """problem_versions.id of a problem by name: its current version, or the newest gate set of the one with that hash. Raises NotFound."""
    info = problems.get(session, problem)
    if version is None or version == info.version:
        return info.version_id
    found = session.scalar(select(func.max(ProblemVersion.id)).where(ProblemVersion.problem == info.id, ProblemVersion.hash == version))
    if found is None:
        raise NotFound(f"The problem {info.name!r} has no version {one_line(version, 20)!r}. Its current one is {info.version}.")
    return problems.newest_gate_set(session, found)


def place(session: Session, contest: ContestInfo, problem: str, device: str) -> ContestProblemInfo:
    """One board of it. Raises NotFound with those it has, but none before its start."""
    boards = problems_of(session, contest.id)
    found = next((b for b in boards if b.problem == problem and b.device == device_class(device).name), None)
    if found is None:
        known = ", ".join(f"{b.problem}@{b.device}" for b in boards) if contest.started else "told at its start"
        raise NotFound(f"The contest {contest.name!r} has no problem {one_line(problem, 80)!r} on {device_class(device).name}. "
                       f"It has: {known or 'none'}.")
    return found


def entrants(session: Session, contest_id: int) -> int:
    """How many people are registered."""
    return session.scalar(select(func.count()).select_from(Registration).where(
        Registration.contest == contest_id, Registration.withdrawn_at.is_(None))) or 0


def hidden_problems(session: Session, now: datetime) -> set[int]:
    """problems.id of those that only organizers may see yet: without an open practice board, and never played in a contest that began.

    Of these the ones of a coming contest, and those that were never open.
    """
    closed = set(session.scalars(select(ProblemRow.id).where(ProblemRow.id.not_in(_practised(now)))))
    if not closed:
        return set()
    begun = _problems(session, Contest.starts_at <= now)
    coming = {problem for problem, _ in session.execute(_played().where(Contest.starts_at > now))} & closed
    return (coming | set(session.scalars(_secret()))) - begun


def open_practice(session: Session, contest_id: int, now: datetime) -> list[str]:
    """Open the practice boards of its problems, by name; its own boards stay as they are. Raises NotFound; RequestError before its end."""
    stage = by_id(session, contest_id, now).stage
    if stage not in (Stage.ENDED, Stage.REVEALED):
        raise RequestError(f"The contest is {stage}; practice on its problems opens after its end.")
    names = list(dict.fromkeys(board.problem for board in problems_of(session, contest_id)))
    for name in names:
        problems.set_open(session, name, True)
    return names


def hold(session: Session, contest_id: int) -> None:
    """Let nobody send into it, change its gates or start a final heat until the transaction ends."""
    session.execute(select(Contest.id).where(Contest.id == contest_id).with_for_update(key_share=True))


def _check_place(session: Session, version_id: int, device: str) -> int:
    """The number of the version's problem."""
    version = session.get(ProblemVersion, version_id)
    if version is None:
        raise NotFound(f"There is no problem version {version_id}.")
    if device not in version.devices:
        raise RequestError(f"That problem has no board for {device} on this server. It has: {', '.join(version.devices) or 'none'}. "
                           "`derby problem add` opens more.")
    return version.problem


def _places() -> Select[ContestProblem, ProblemVersion, ProblemRow]:
    return (select(ContestProblem, ProblemVersion, ProblemRow).join(ProblemVersion, ProblemVersion.id == ContestProblem.version)
            .join(ProblemRow, ProblemRow.id == ProblemVersion.problem))


def _played() -> Select[int, str]:
    """Problem and version of each board of any contest."""
    return (select(ProblemVersion.problem, ProblemVersion.hash).join(ContestProblem, ContestProblem.version == ProblemVersion.id)
            .join(Contest, Contest.id == ContestProblem.contest))


def _problems(session: Session, which: ColumnElement[bool]) -> set[int]:
    """Problems whose current version is on a board of such contests; another version may be a secret still."""
    now_on = aliased(ProblemVersion)
    current = (_played().join(ProblemRow, ProblemRow.id == ProblemVersion.problem).join(now_on, now_on.id == ProblemRow.current)
               .where(which, now_on.hash == ProblemVersion.hash))
    return {problem for problem, _ in session.execute(current)}


def _secret() -> Select[int]:
    return select(ProblemRow.id).join(ProblemVersion, ProblemVersion.id == ProblemRow.current).where(problems.never_opened())


def _practised(now: datetime) -> Select[int]:
    """Problems whose practice boards take submissions."""
    return (select(ProblemRow.id).join(ProblemVersion, ProblemVersion.id == ProblemRow.current)
            .where(ProblemVersion.open, or_(ProblemVersion.closes_at.is_(None), ProblemVersion.closes_at > now)))


def _locked(session: Session, contest_id: int) -> Contest:
    row = session.scalar(select(Contest).where(Contest.id == contest_id).with_for_update().execution_options(populate_existing=True))
    if row is None:
        raise NotFound(f"There is no contest {contest_id}.")
    return row


def _columns(rules: ContestRules) -> dict[str, Any]:
    return asdict(rules) | {"quotas": {mode.value: asdict(quota) for mode, quota in rules.quotas.items()}}


def _info(row: Contest, now: datetime) -> ContestInfo:
    rules = ContestRules(
        title=row.title, starts_at=row.starts_at, ends_at=row.ends_at, freezes_at=row.freezes_at, by_team=row.by_team,
        by_invitation=row.by_invitation, sources=row.sources, gpu_seconds=row.gpu_seconds, finalists=row.finalists,
        final_runs=row.final_runs, quotas={Mode(mode): ModeQuota(**quota) for mode, quota in row.quotas.items()},
    )
    return ContestInfo(id=row.id, name=row.name, rules=rules, revealed_at=row.revealed_at, made_by=row.made_by,
                       stage=stage_of(row.starts_at, row.freezes_at, row.ends_at, row.revealed_at, now))
