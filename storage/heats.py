"""The final heat of a contest's board: equal fresh runs of the best entries, round robin, all on one runner; and the order they give."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from kernelderby.core.contest import Stage
from kernelderby.core.errors import RequestError
from kernelderby.core.scoring import Estimate, estimate, rank_intervals
from kernelderby.core.verdict import Outcome, State
from kernelderby.storage import boards, contests, gates, people, problems, replays
from kernelderby.storage.boards import BoardRow
from kernelderby.storage.contest_models import Contest, Heat, Team
from kernelderby.storage.contests import ContestInfo, ContestProblemInfo
from kernelderby.storage.models import Attempt, Person, ProblemVersion, Runner, Submission, Token

GONE = timedelta(minutes=10)     # a runner that was not heard from for so long may be replaced
MOST = 100                       # finalists of a board, those who tie with the last included

Cases = tuple[tuple[tuple[float, ...], ...], ...]      # blocks of each case, each the times of its calls in µs


@dataclass(frozen=True, kw_only=True)
class Finalist:
    """An entry in a final heat."""

    submission: int
    person: str
    agent: str | None
    team: str | None               # whose row it is, in a contest by teams
    runs: int                      # that ended in an accepted verdict
    failed: list[str]              # how the others ended
    score: Estimate | None         # over all blocks of these runs; None: there are none yet
    rank: tuple[int, int] | None   # among those with a score

    @property
    def who(self) -> str:
        """Whose entry it is, as a door shows it."""
        return self.team if self.team and not self.agent else people.shown(self.person, self.agent)


@dataclass(frozen=True, kw_only=True)
class HeatView:
    """A final heat, the fastest first."""

    id: int
    problem: str
    version: str
    gate_set: str
    device: str
    runner: str | None             # None: no run was claimed yet
    runs: int                      # of each finalist
    waiting: int                   # runs that are still to end
    created_at: datetime
    finalists: list[Finalist]


def start(session: Session, contest: ContestInfo, place: ContestProblemInfo, by: int, now: datetime) -> HeatView:
    """Queue the final heat of a board. Raises RequestError before the end, while something is to be judged, and for a second one."""
    _check_ready(session, contest, place)
    known = _newest(session, contest.id, place)
    if known is not None:
        raise RequestError(f"The final heat of {place.problem} on {place.device} was started: `derby contest final show {contest.name}`. "
                           "Where its runner is gone, or finalists or gates are others since: --again.")
    return _queue(session, contest, place, by, now)


def start_again(session: Session, contest: ContestInfo, place: ContestProblemInfo, by: int, now: datetime) -> HeatView:
    """Play a board's final heat from the start, on another runner; the old one's runs no longer count.

    Raises RequestError where the old one still goes on or is sound, so that nobody plays on until the order suits.
    """
    _check_ready(session, contest, place)
    known = _newest(session, contest.id, place)
    if known is not None:
        _check_replaceable(session, contest, place, known, now)
        replays.end_all(session, Submission.heat == known.id, "The final heat was started again.")
    return _queue(session, contest, place, by, now)


def of_board(session: Session, contest_id: int, place: ContestProblemInfo) -> HeatView | None:
    """A board's newest heat."""
    known = _newest(session, contest_id, place)
    return _view(session, known, place) if known else None


def finalists(session: Session, contest: ContestInfo, place: ContestProblemInfo) -> list[BoardRow]:
    """The first k, and whoever the clock cannot tell from a place among them."""
    rows = boards.board(session, place.problem, place.device, contest.id).rows
    return [row for row in rows if row.rank[0] <= contest.rules.finalists]


def _check_ready(session: Session, contest: ContestInfo, place: ContestProblemInfo) -> None:
    contests.hold(session, contest.id)
    if contest.stage is not Stage.ENDED:
        raise RequestError(f"The contest is {contest.stage}; final heats are played between its end and the reveal.")
    waiting = session.scalar(select(func.count()).where(
        Submission.contest == contest.id, Submission.device == place.device, Submission.state != State.DONE, Submission.replays.is_(None),
        Submission.version.in_(problems.gate_sets(place.version_id)))) or 0
    if waiting:
        raise RequestError(f"{waiting} submissions to {place.problem} on {place.device} are still to be judged. Wait for them.")
    change = gates.open_change(session, contest.id, place.version_id)
    if change is not None:
        raise RequestError(f"The change of gates {change} is neither applied nor withdrawn. Decide on it first: "
                           f"`derby contest gate show {change}`.")


def _check_replaceable(session: Session, contest: ContestInfo, place: ContestProblemInfo, heat: Heat, now: datetime) -> None:
    runs = [run for run, _ in replays.played(session, Submission.heat == heat.id)]
    waiting = [run for run in runs if run.state != State.DONE]
    if waiting and not _is_gone(session, heat, waiting, now):
        where = heat.runner or "the first runner that comes"
        raise RequestError(f"The final heat of {place.problem} on {place.device} goes on, on {where}. It can be started again once "
                           f"that was not heard from for {GONE.seconds // 60} minutes.")
    is_sound = all(replays.says_something(run) for run in runs)
    same = {run.replays for run in runs} == {row.submission for row in finalists(session, contest, place)}
    if not waiting and is_sound and same and heat.version == place.version_id:
        raise RequestError(f"The final heat of {place.problem} on {place.device} is complete: `derby contest final show {contest.name}`. "
                           "It is played again only where a run failed, or where finalists or gates are others since.")


def _is_gone(session: Session, heat: Heat, waiting: Sequence[Submission], now: datetime) -> bool:
    if heat.runner is None or any(run.lease_until is not None and run.lease_until > now - GONE for run in waiting):
        return False
    seen_at = session.scalar(select(Runner.seen_at).where(Runner.name == heat.runner))      # no row: it said that it ends
    return seen_at is None or seen_at < now - GONE


def _queue(session: Session, contest: ContestInfo, place: ContestProblemInfo, by: int, now: datetime) -> HeatView:
    chosen = finalists(session, contest, place)
    if not chosen:
        raise RequestError(f"The board of {place.problem} on {place.device} is empty: there is nobody to run.")
    if len(chosen) > MOST:
        raise RequestError(f"{len(chosen)} entries tie for the final of {place.problem} on {place.device}; {MOST} may run.")
    heat = Heat(contest=contest.id, version=place.version_id, device=place.device, runner=None, runs=contest.rules.final_runs,
                made_by=by, created_at=now)
    session.add(heat)
    session.flush()
    entries = [session.get_one(Submission, row.submission) for row in chosen]
    for _ in range(heat.runs):                       # round robin: what warms or cools meanwhile does so for all
        for entry in entries:
            replays.add(session, entry, by, place.version_id, now, heat=heat.id)
    return _view(session, heat, place)


def _newest(session: Session, contest_id: int, place: ContestProblemInfo) -> Heat | None:
    return session.scalar(
        select(Heat).where(Heat.contest == contest_id, Heat.device == place.device, Heat.version.in_(problems.gate_sets(place.version_id)))
        .order_by(Heat.id.desc()).limit(1))


def _view(session: Session, heat: Heat, place: ContestProblemInfo) -> HeatView:
    version = session.get_one(ProblemVersion, heat.version)
    runs = replays.played(session, Submission.heat == heat.id)
    return HeatView(id=heat.id, problem=place.problem, version=version.hash, gate_set=version.gate_set, device=heat.device,
                    runner=heat.runner, runs=heat.runs, waiting=sum(run.state != State.DONE for run, _ in runs),
                    created_at=heat.created_at, finalists=_order(session, runs, version.min_effect))


def _order(session: Session, runs: Sequence[replays.Played], min_effect: float) -> list[Finalist]:
    """By the pooled estimates; who has none comes last."""
    by_entry: dict[int, list[replays.Played]] = {}
    for run, attempt in runs:
        by_entry.setdefault(run.replays or 0, []).append((run, attempt))
    scores = {number: _pooled(played) for number, played in by_entry.items()}
    scored = {number: score for number, score in scores.items() if score is not None}
    bound = max((run.bound_share for run, _ in runs), default=0.0)
    ranks = dict(zip(scored, rank_intervals(list(scored.values()), min_effect, bound), strict=True))
    names = _names(session, list(by_entry))
    found = [Finalist(submission=number, **names[number], runs=len(_accepted(played)), failed=_failed(played), score=scores[number],
                      rank=ranks.get(number)) for number, played in by_entry.items()]
    return sorted(found, key=lambda f: (f.score is None, f.score.score_us if f.score else 0.0, f.submission))


def _pooled(played: Sequence[replays.Played]) -> Estimate | None:
    """Over all blocks of an entry's accepted runs: they are of one runner, so no factor is needed."""
    receipts = [blocks for attempt in _accepted(played) if (blocks := (attempt.verdict or {}).get("receipt", {}).get("blocks_us"))]
    if not receipts or any(set(one) != set(receipts[0]) for one in receipts):
        return None
    return _estimate(tuple(tuple(tuple(block) for one in receipts for block in one[case]) for case in sorted(receipts[0])))


@lru_cache(maxsize=128)
def _estimate(cases: Cases) -> Estimate:
    """Kept, since its thousand draws take seconds for a large heat and every look at the order needs them."""
    return estimate(cases)


def _accepted(played: Sequence[replays.Played]) -> list[Attempt]:
    return [attempt for run, attempt in played if run.outcome == Outcome.ACCEPTED and attempt is not None]


def _failed(played: Sequence[replays.Played]) -> list[str]:
    return [str(run.outcome) for run, _ in played if run.state == State.DONE and run.outcome != Outcome.ACCEPTED]


def _names(session: Session, entries: Sequence[int]) -> Mapping[int, dict[str, Any]]:
    found = session.execute(
        select(Submission.id, Person.name, Token.name, Team.name, Contest.by_team).join(Person, Person.id == Submission.person)
        .join(Contest, Contest.id == Submission.contest).outerjoin(Token, (Token.id == Submission.token) & Token.agent)
        .outerjoin(Team, Team.id == Submission.team).where(Submission.id.in_(entries)))
    return {number: {"person": person, "agent": agent, "team": team if by_team else None} for number, person, agent, team, by_team in found}
