"""Final heats: equal fresh runs, round robin, on one runner; the order is of these runs alone."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kernelderby.core.errors import RequestError
from kernelderby.core.verdict import Outcome
from kernelderby.storage import boards, claims, contests, heats, runners, submissions
from kernelderby.storage.claims import Claim
from kernelderby.storage.database import Database
from kernelderby.storage.heats import HeatView
from tests.contest_world import HOUR, ContestWorld, scored

ENDED = 2 * HOUR


@pytest.fixture
def held(database: Database, tmp_path: Path) -> ContestWorld:
    return ContestWorld.make(database, tmp_path, finalists=2, final_runs=3)


def start(held: ContestWorld, later: timedelta = ENDED) -> HeatView:
    with held.world.database.begin() as session:
        return heats.start(session, held.info(later), held.place(), held.boss, datetime.now(UTC))


def again(held: ContestWorld, wait: timedelta = timedelta()) -> HeatView:
    with held.world.database.begin() as session:
        return heats.start_again(session, held.info(ENDED), held.place(), held.boss, datetime.now(UTC) + wait)


def order(held: ContestWorld) -> HeatView:
    with held.world.database.read() as session:
        found = heats.of_board(session, held.number, held.place())
    assert found is not None
    return found


def test_finalists_run_equally_often_in_turn_and_their_fresh_runs_alone_decide(held: ContestWorld) -> None:
    first, second, third = held.entry("ada", 10.0), held.entry("bob", 20.0), held.entry("cyd", 30.0)
    before = held.board()
    begun = start(held)
    assert (begun.runs, begun.waiting, begun.runner, [f.submission for f in begun.finalists]) == (3, 6, None, [first, second])

    done = held.run_all(scores={first: 21.0, second: 19.0})

    assert [held.world.view(c.id).replays for c in done] == [first, second] * 3 and third not in {c.id for c in done}
    final = order(held)
    told = [(f.rank, f.submission, f.runs, round(f.score.score_us, 3) if f.score else None) for f in final.finalists]
    assert told == [((1, 1), second, 3, 19.0), ((2, 2), first, 3, 21.0)]
    assert (final.waiting, final.runner) == (0, "runner")
    assert held.board() == before, "the board stays as it was"


def test_who_cannot_be_told_from_the_last_finalist_runs_too(held: ContestWorld) -> None:
    names = [held.entry(name, score, score_ci_us=(score * 0.97, score * 1.03)) for name, score in
             (("ada", 10.0), ("bob", 20.0), ("cyd", 20.1), ("dan", 40.0))]

    assert {f.submission for f in start(held).finalists} == set(names[:3])


def test_of_two_runners_that_race_for_a_heat_one_plays_it_all(held: ContestWorld) -> None:
    held.entry("ada", 10.0), held.entry("bob", 20.0)
    start(held)
    barrier = threading.Barrier(2)

    def race(runner: str) -> Claim | None:
        barrier.wait()
        return held.claim_by(runner)

    with ThreadPoolExecutor(2) as pool:
        won = dict(zip("ab", pool.map(race, "ab"), strict=True))

    winner, loser = ("a", "b") if won["a"] else ("b", "a")
    first = won[winner]
    assert first is not None and won[loser] is None and order(held).runner == winner
    assert held.claim_by(loser) is None
    second = held.claim_by(winner)
    assert second is not None and second.id == first.id + 1, "round robin from the first run on"


def test_a_bound_heat_keeps_no_other_run_waiting(held: ContestWorld) -> None:
    held.entry("ada", 10.0)
    start(held)
    assert held.claim_by("a") is not None
    practice = held.world.send("bob")

    found = held.claim_by("b")
    assert found is not None and found.id == practice


def test_a_heat_is_started_again_only_once_its_runner_is_gone(held: ContestWorld) -> None:
    entry = held.entry("ada", 10.0)
    old = start(held)
    with pytest.raises(RequestError, match="was started"):
        start(held)
    with pytest.raises(RequestError, match="goes on, on the first runner that comes"):
        again(held)
    claim = held.claim_by("a")
    assert claim is not None
    with held.world.database.begin() as session:
        runners.seen(session, "a", "cpu", {}, datetime.now(UTC))
    with pytest.raises(RequestError, match="goes on, on a"):
        again(held, timedelta(minutes=9))

    new = again(held, timedelta(minutes=11))

    assert new.id != old.id and order(held).id == new.id
    with held.world.database.begin() as session:
        assert claims.standing(session, claim.id, 1).cancelled
    played = [c for _ in range(3) if (c := held.claim_by("b"))]
    assert len(played) == 3 and held.claim_by("b") is None and {held.world.view(c.id).replays for c in played} == {entry}


def test_a_complete_heat_is_played_again_only_where_a_run_failed_or_finalists_changed(held: ContestWorld) -> None:
    first, second = held.entry("ada", 10.0), held.entry("bob", 20.0)
    start(held)
    held.run_all()
    with pytest.raises(RequestError, match="is complete"):
        again(held)

    with held.world.database.begin() as session:
        submissions.rejudge(session, second)
    held.run_all(caught={second})

    assert [f.submission for f in again(held).finalists] == [first]


def test_a_run_that_fails_is_told_and_does_not_count(held: ContestWorld) -> None:
    first, second = held.entry("ada", 10.0), held.entry("bob", 20.0)
    start(held)
    for number in range(6):
        claim = held.world.take()
        held.world.finish(claim, **(scored(9.0) if number % 2 else {"outcome": Outcome.UNSTABLE}))

    told = [(f.rank, f.submission, f.runs, f.failed) for f in order(held).finalists]
    assert told == [((1, 1), second, 3, []), (None, first, 0, ["unstable"] * 3)]
    assert again(held).waiting == 6


NOT_NOW = [("while it goes on", timedelta(), "is open"), ("before its end", -2 * HOUR, "is coming")]


@pytest.mark.parametrize(("later", "said"), [case[1:] for case in NOT_NOW], ids=[case[0] for case in NOT_NOW])
def test_there_is_no_final_before_the_end(held: ContestWorld, later: timedelta, said: str) -> None:
    held.entry("ada", 10.0)
    with pytest.raises(RequestError, match=said):
        start(held, later)


def test_what_must_be_settled_before_a_final(held: ContestWorld) -> None:
    with pytest.raises(RequestError, match="is empty"):
        start(held)
    waiting = held.world.send("ada", contest=held.number)
    with pytest.raises(RequestError, match="1 submissions .* still to be judged"):
        start(held)
    held.world.finish(held.world.take(), **scored(10.0))
    change = held.propose()
    with pytest.raises(RequestError, match=f"gates {change.id} is neither"):
        start(held)
    assert waiting in held.board()


def test_a_contest_is_revealed_once_its_final_is_played(held: ContestWorld) -> None:
    held.entry("ada", 10.0)
    start(held)
    late = datetime.now(UTC) + ENDED
    with pytest.raises(RequestError, match="3 of its runs"), held.world.database.begin() as session:
        contests.reveal(session, held.number, late)
    held.run_all()
    with held.world.database.begin() as session:
        assert contests.reveal(session, held.number, late).revealed_at == late
        assert len(boards.board(session, "doubling", "cpu", held.number).rows) == 1
