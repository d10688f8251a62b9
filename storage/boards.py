"""Boards: the best entry of each person on one problem version and device class."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, Subquery, func, select, text
from sqlalchemy.orm import Session

from kernelderby.core.devices import device as device_class
from kernelderby.core.scoring import Estimate, Ratio, dueled_ranks, sign_of
from kernelderby.core.verdict import State
from kernelderby.storage import duels, people, problems
from kernelderby.storage.base import COMPETES
from kernelderby.storage.models import Board, DuelRow, Person, ProblemVersion, Submission, Token

HEAD_TO_HEAD = frozenset({"gpu"})     # the kinds of class where a crown moves by a duel alone


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """A person's best entry."""

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
    agent: str | None = None     # the person's agent that sent it

    @property
    def who(self) -> str:
        """Whose entry it is, as a door shows it."""
        return people.shown(self.person, self.agent)


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


def board(session: Session, problem_name: str, device: str, contest: int | None = None) -> BoardView:
    """The board of a problem's current version. Raises NotFound."""
    info = problems.get(session, problem_name)
    place = problems.board_version(session, info.version_id)
    rows = _ranked(session, place, device, contest, info.min_effect)
    people, total = _counts(session, place, device, contest)
    holder = session.scalar(_boards(place, device, contest).with_only_columns(Board.leader))
    return BoardView(
        problem=info.name, title=info.title, device=device, version=info.version, gate_set=info.gate_set, open=info.open,
        closes_at=info.closes_at, leader=holder, rows=rows, people=people, submissions=total,
    )


def rank_of(session: Session, submission: Submission) -> tuple[int, int] | None:
    """The rank interval of a submission. None: it does not compete, or another entry of its person stands on the board."""
    if not submission.competes:
        return None
    place = problems.board_version(session, submission.version)
    best = _best(place, submission.device, submission.contest)
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
    place = problems.board_version(session, submission.version)
    contest, device = submission.contest, submission.device
    found = session.scalar(_boards(place, device, contest).with_for_update())
    if found is None:
        found = Board(version=place, device=device, contest=contest)
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
    entries = _entries(board.version, board.device, board.contest)
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


def _ranked(session: Session, place: int, device: str, contest: int | None, min_effect: float) -> list[BoardRow]:
    best = _best(place, device, contest)
    found = session.execute(
        select(Submission, Person.name, Token.name, ProblemVersion.gate_set)
        .join(best, best.c.id == Submission.id)
        .join(Person, Person.id == Submission.person)
        .join(ProblemVersion, ProblemVersion.id == Submission.version)
        .outerjoin(Token, (Token.id == Submission.token) & Token.agent)
        .where(best.c.place == 1)
        .order_by(Submission.score_us, Submission.id)
    ).all()
    estimates = {row.id: _estimate(row.score_us, row.score_low_us, row.score_high_us) for row, *_ in found}
    bound = max((row.bound_share for row, *_ in found), default=0.0)
    ranks = _ranks(session, estimates, select(best.c.id).where(best.c.place == 1), min_effect, bound)
    return [
        BoardRow(rank=ranks[row.id], person_id=row.person, person=person, agent=agent, submission=row.id, score_us=own.score_us,
                 ci_us=(own.low_us, own.high_us), speedup=row.speedup, language=row.language, gate_set=gate_set, at=row.created_at)
        for (row, person, agent, gate_set), own in zip(found, estimates.values(), strict=True)
    ]


def _ranks(
    session: Session, estimates: dict[int, Estimate], best: Select[int], min_effect: float, bound: float
) -> dict[int, tuple[int, int]]:
    """By the intervals of the runs; a duel on record decides its pair. `bound`: of the entries' runners the weakest certificate's."""
    places = {number: place for place, number in enumerate(estimates)}
    said: dict[tuple[int, int], Ratio] = {(places[a], places[b]): ratio for (a, b), ratio in duels.between(session, best).items()}
    return dict(zip(estimates, dueled_ranks(list(estimates.values()), said, min_effect, bound), strict=True))


def _boards(place: int, device: str, contest: int | None) -> Select[Board]:
    return select(Board).where(Board.version == place, Board.device == device, Board.contest.is_not_distinct_from(contest))


def _best(place: int, device: str, contest: int | None) -> Subquery:
    """Entries of a board; `place` 1 is its person's best."""
    order = func.row_number().over(partition_by=Submission.person, order_by=(Submission.score_us, Submission.id))
    return _entries(place, device, contest).add_columns(
        Submission.person, Submission.score_us, Submission.score_low_us, Submission.score_high_us, Submission.bound_share,
        order.label("place")
    ).subquery()


def _entries(place: int, device: str, contest: int | None) -> Select[int]:
    return select(Submission.id).where(
        text(COMPETES), Submission.version.in_(_versions(place)), Submission.device == device,
        Submission.contest.is_not_distinct_from(contest),
    )


def _versions(place: int) -> Select[int]:
    """Every gate set of one version: they share a board."""
    first = select(ProblemVersion.problem, ProblemVersion.hash).where(ProblemVersion.id == place).subquery()
    return select(ProblemVersion.id).join(first, (ProblemVersion.problem == first.c.problem) & (ProblemVersion.hash == first.c.hash))


def _counts(session: Session, place: int, device: str, contest: int | None) -> tuple[int, int]:
    people, total = session.execute(
        select(func.count(Submission.person.distinct()), func.count()).where(
            Submission.version.in_(_versions(place)), Submission.device == device, Submission.contest.is_not_distinct_from(contest))
    ).one()
    return people, total


def _estimate(score: float | None, low: float | None, high: float | None) -> Estimate:
    score = score or 0.0
    return Estimate(score_us=score, low_us=low or score, high_us=high or score)
