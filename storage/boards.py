"""Boards: the best entry of each person, team or agent on one problem version and device class, in practice or in a contest."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, Subquery, case, func, literal, select, text
from sqlalchemy.orm import Session

from kernelderby.core.devices import device as device_class
from kernelderby.core.errors import NotFound
from kernelderby.core.scoring import Estimate, Ratio, dueled_ranks, sign_of
from kernelderby.core.text import one_line
from kernelderby.core.verdict import State
from kernelderby.storage import duels, people, problems
from kernelderby.storage.base import COMPETES
from kernelderby.storage.contest_models import Contest, ContestProblem, Team
from kernelderby.storage.models import Board, DuelRow, Person, ProblemRow, ProblemVersion, Submission, Token

HEAD_TO_HEAD = frozenset({"gpu"})     # the kinds of class where a crown moves by a duel alone


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """The best entry of a person, of a person's agent, or of a team."""

    rank: tuple[int, int]        # [1 + entries significantly faster, n − entries significantly slower]
    person_id: int
    person: str
    submission: int
    score_us: float
    ci_us: tuple[float, float]
    speedup: float | None        # over the honest baseline
    language: str                # triton, torch, cuda
    gate_set: str                # it was judged by
    at: datetime                 # when it was sent
    agent: str | None = None     # the person's agent that sent it, and whose row this is
    team: str | None = None      # whose row it is, in a contest by teams

    @property
    def who(self) -> str:
        """Whose entry it is, as a door shows it."""
        return self.team if self.team and not self.agent else people.shown(self.person, self.agent)


@dataclass(frozen=True, kw_only=True)
class BoardView:
    """One board, fastest first; equal scores keep the earlier one ahead."""

    problem: str
    title: str
    device: str
    version: str
    gate_set: str
    open: bool
    closes_at: datetime | None
    leader: int | None           # submission
    rows: list[BoardRow]
    people: int                  # who sent anything to this board, in any mode
    submissions: int             # all of them


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Which board, and until when entries count."""

    version: int                 # problem_versions.id, the first with its hash
    device: str
    contest: int | None = None
    by_team: bool = False
    as_of: datetime | None = None
    without: frozenset[int] = frozenset()      # submissions that are thought away


def board(
    session: Session, problem_name: str, device: str, contest: int | None = None, as_of: datetime | None = None,
    without: frozenset[int] = frozenset()
) -> BoardView:
    """The board of a problem's current version, or of a contest's. Raises NotFound.

    `as_of`: only entries sent before that time, as contestants see a frozen board. `without`: a contest's as it were without these.
    """
    if contest is not None:
        return _of_contest(session, problem_name, device, contest, as_of, without)
    info = problems.get(session, problem_name)
    place = _Place(version=problems.board_version(session, info.version_id), device=device, as_of=as_of)
    told = {"problem": info.name, "title": info.title, "version": info.version, "gate_set": info.gate_set}
    return _view(session, place, info.min_effect, open=info.open, closes_at=info.closes_at, **told)


def rank_of(session: Session, submission: Submission) -> tuple[int, int] | None:
    """The rank interval of a submission; in a frozen contest among what was sent before the freeze.

    None: it does not compete, came after the freeze, or another entry of its person, team or agent stands on the board.
    """
    if not submission.competes:
        return None
    best = _best(_place_of(session, submission))
    entries = session.execute(
        select(best.c.id, best.c.score_us, best.c.score_low_us, best.c.score_high_us, best.c.bound_share).where(best.c.place == 1)).all()
    numbers = [number for number, *_ in entries]
    if submission.id not in numbers:
        return None
    min_effect = session.get_one(ProblemVersion, submission.version).min_effect
    estimates = {number: _estimate(*score) for number, *score, _ in entries}
    bound = max(share for *_, share in entries)
    return _ranks(session, estimates, select(best.c.id).where(best.c.place == 1), min_effect, bound)[submission.id]


def follow(session: Session, submission: Submission) -> None:
    """Bring the leader of a submission's board up to date; where crowns move by duels, ask for the duel it takes."""
    place = _Place(version=problems.board_version(session, submission.version), device=submission.device, contest=submission.contest)
    found = session.scalar(_boards(place).with_for_update())
    if found is None:
        found = Board(version=place.version, device=place.device, contest=place.contest)
        session.add(found)
        session.flush()
    # read under the board's lock: of two runs that end at once, the later one sees the other
    if _lost_to(session, found.leader, submission):
        found.leader = submission.id
    found.leader = _leader(session, found)
    session.flush()


def settle(session: Session, board_id: int) -> None:
    """Bring a board's leader up to date after a duel for its crown."""
    found = session.scalar(select(Board).where(Board.id == board_id).with_for_update().execution_options(populate_existing=True))
    assert found is not None, "a duel names its board"
    found.leader = _leader(session, found)
    session.flush()


def _lost_to(session: Session, leader: int | None, back: Submission) -> bool:
    """Whether the leader lost a duel for the crown to an entry that is judged again: it leads since that one was away."""
    holder = session.get(Submission, leader) if leader and back.competes else None
    duel = duels.for_crown(session, holder, back) if holder else None
    return holder is not None and _said(session, duel, holder, back) > 0


def _leader(session: Session, board: Board) -> int | None:
    """The fastest entry. Where a duel decides, the present leader stays until one that has the better score also wins the duel."""
    entries = _entries(_Place(version=board.version, device=board.device, contest=board.contest))
    fastest = session.scalar(entries.order_by(Submission.score_us, Submission.id).limit(1))
    holder = session.scalar(entries.with_only_columns(Submission).where(Submission.id == board.leader)) if board.leader else None
    if holder is None or device_class(board.device).kind not in HEAD_TO_HEAD:
        return fastest
    better = entries.with_only_columns(Submission).where(Submission.score_us < holder.score_us).order_by(Submission.score_us, Submission.id)
    for challenger in session.scalars(better):
        if challenger.entry_sha == holder.entry_sha:
            continue
        duel = duels.for_crown(session, challenger, holder) or duels.challenge(session, board.id, challenger, holder)
        if duel is not None and duel.state != State.DONE:
            return holder.id
        if _said(session, duel, challenger, holder) < 0:
            board.leader = challenger.id
            return _leader(session, board)
    return holder.id


def _said(session: Session, duel: DuelRow | None, a: Submission, b: Submission) -> int:
    """What their duel shows: -1 a is significantly faster, 1 b is, 0 neither."""
    ratio = duels.ratio_of(duel) if duel else None
    if ratio is None:
        return 0
    return sign_of(ratio, session.get_one(ProblemVersion, a.version).min_effect, max(a.bound_share, b.bound_share))


def _of_contest(
    session: Session, problem: str, device: str, contest: int, as_of: datetime | None, without: frozenset[int]
) -> BoardView:
    found = session.execute(
        select(Contest, ProblemRow, ProblemVersion).join(ContestProblem, ContestProblem.contest == Contest.id)
        .join(ProblemVersion, ProblemVersion.id == ContestProblem.version).join(ProblemRow, ProblemRow.id == ProblemVersion.problem)
        .where(Contest.id == contest, ContestProblem.device == device, ProblemRow.name == problem)
    ).first()
    if found is None:
        raise NotFound(f"That contest has no board of {one_line(problem, 80)!r} on {device}.")
    row, named, version = found
    place = _Place(version=problems.board_version(session, version.id), device=device, contest=contest, by_team=row.by_team, as_of=as_of,
                   without=without)
    told = {"problem": named.name, "title": named.title, "version": version.hash, "gate_set": version.gate_set}
    return _view(session, place, version.min_effect, open=row.revealed_at is None, closes_at=row.ends_at, **told)


def _view(session: Session, place: _Place, min_effect: float, **told: Any) -> BoardView:
    rows = _ranked(session, place, min_effect)
    people, total = _counts(session, place)
    holder = session.scalar(_boards(place).with_only_columns(Board.leader))
    if place.as_of is not None and holder not in {row.submission for row in rows}:     # it came after the freeze
        holder = rows[0].submission if rows else None
    return BoardView(device=place.device, leader=holder, rows=rows, people=people, submissions=total, **told)


def _place_of(session: Session, submission: Submission) -> _Place:
    """The board of a submission, in a frozen contest as contestants see it."""
    contest = session.get(Contest, submission.contest) if submission.contest else None
    frozen = contest.freezes_at if contest is not None and contest.revealed_at is None else None
    return _Place(
        version=problems.board_version(session, submission.version), device=submission.device, contest=submission.contest,
        by_team=contest is not None and contest.by_team, as_of=frozen)


def _ranked(session: Session, place: _Place, min_effect: float) -> list[BoardRow]:
    best = _best(place)
    found = session.execute(
        select(Submission, Person.name, Token.name, Team.name, ProblemVersion.gate_set)
        .join(best, best.c.id == Submission.id)
        .join(Person, Person.id == Submission.person)
        .join(ProblemVersion, ProblemVersion.id == Submission.version)
        .outerjoin(Token, (Token.id == Submission.token) & Token.agent)
        .outerjoin(Team, (Team.id == Submission.team) & literal(place.by_team))
        .where(best.c.place == 1)
        .order_by(Submission.score_us, Submission.id)
    ).all()
    estimates = {row.id: _estimate(row.score_us, row.score_low_us, row.score_high_us) for row, *_ in found}
    bound = max((row.bound_share for row, *_ in found), default=0.0)
    ranks = _ranks(session, estimates, select(best.c.id).where(best.c.place == 1), min_effect, bound)
    return [
        BoardRow(rank=ranks[row.id], person_id=row.person, person=person, agent=agent, team=team, submission=row.id, score_us=own.score_us,
                 ci_us=(own.low_us, own.high_us), speedup=row.speedup, language=row.language, gate_set=gate_set, at=row.created_at)
        for (row, person, agent, team, gate_set), own in zip(found, estimates.values(), strict=True)
    ]


def _ranks(
    session: Session, estimates: dict[int, Estimate], best: Select[int], min_effect: float, bound: float
) -> dict[int, tuple[int, int]]:
    """By the intervals of the runs; a duel on record decides its pair. `bound`: of the entries' runners the weakest certificate's."""
    places = {number: place for place, number in enumerate(estimates)}
    said: dict[tuple[int, int], Ratio] = {(places[a], places[b]): ratio for (a, b), ratio in duels.between(session, best).items()}
    return dict(zip(estimates, dueled_ranks(list(estimates.values()), said, min_effect, bound), strict=True))


def _boards(place: _Place) -> Select[Board]:
    return select(Board).where(Board.version == place.version, Board.device == place.device,
                               Board.contest.is_not_distinct_from(place.contest))


def _best(place: _Place) -> Subquery:
    """Entries of a board; `place` 1 is the best of its person, team or agent."""
    person = case((Submission.team.is_(None), Submission.person)) if place.by_team else Submission.person
    team = Submission.team if place.by_team else literal(None)
    order = func.row_number().over(partition_by=(team, person, Token.id), order_by=(Submission.score_us, Submission.id))
    return _entries(place).outerjoin(Token, (Token.id == Submission.token) & Token.agent).add_columns(
        Submission.person, Submission.score_us, Submission.score_low_us, Submission.score_high_us, Submission.bound_share,
        order.label("place")
    ).subquery()


def _entries(place: _Place) -> Select[int]:
    """The entries that compete there; an organizers' run of one never does."""
    found = select(Submission.id).where(
        text(COMPETES), Submission.version.in_(_versions(place.version)), Submission.device == place.device,
        Submission.contest.is_not_distinct_from(place.contest), Submission.replays.is_(None),
    )
    if place.without:
        found = found.where(Submission.id.not_in(place.without))
    return found if place.as_of is None else found.where(Submission.created_at < place.as_of)


def _versions(place: int) -> Select[int]:
    """Every gate set of one version: they share a board."""
    first = select(ProblemVersion.problem, ProblemVersion.hash).where(ProblemVersion.id == place).subquery()
    return select(ProblemVersion.id).join(first, (ProblemVersion.problem == first.c.problem) & (ProblemVersion.hash == first.c.hash))


def _counts(session: Session, place: _Place) -> tuple[int, int]:
    sent = select(func.count(Submission.person.distinct()), func.count()).where(
        Submission.version.in_(_versions(place.version)), Submission.device == place.device,
        Submission.contest.is_not_distinct_from(place.contest), Submission.replays.is_(None))
    people, total = session.execute(sent if place.as_of is None else sent.where(Submission.created_at < place.as_of)).one()
    return people, total


def _estimate(score: float | None, low: float | None, high: float | None) -> Estimate:
    score = score or 0.0
    return Estimate(score_us=score, low_us=low or score, high_us=high or score)
