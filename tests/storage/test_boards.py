"""Boards: each person's best, ranks that admit ties, a leader that follows."""

from pathlib import Path

import pytest
from sqlalchemy import select

from kernelderby.core.errors import NotFound
from kernelderby.core.verdict import Flag, Mode, Outcome
from kernelderby.storage import boards, submissions
from kernelderby.storage.boards import BoardView
from kernelderby.storage.models import Board
from tests.small_world import World, add_problem, small_problem


def board(world: World) -> BoardView:
    with world.database.read() as session:
        return boards.board(session, "doubling", "cpu")


def leader(world: World) -> int | None:
    with world.database.read() as session:
        return session.scalar(select(Board.leader).where(Board.device == "cpu"))


def test_an_empty_board_is_a_board(world: World) -> None:
    empty = board(world)
    assert (empty.rows, empty.leader, empty.people, empty.submissions) == ([], None, 0, 0)
    with world.database.read() as session, pytest.raises(NotFound):
        boards.board(session, "nothing", "cpu")


def test_a_board_shows_the_best_entry_of_each_person(world: World) -> None:
    world.judged("ada", 20.0)
    best = world.judged("ada", 10.0, spread=0.01, speedup=2.0)
    bob = world.judged("bob", 15.0)
    shown = board(world)
    assert [(r.person, r.submission, r.score_us, r.rank) for r in shown.rows] == [("ada", best, 10.0, (1, 1)), ("bob", bob, 15.0, (2, 2))]
    assert shown.rows[0].ci_us == pytest.approx((9.9, 10.1))
    assert (shown.rows[0].speedup, shown.leader, shown.people, shown.submissions) == (2.0, best, 2, 3)
    assert leader(world) == best


def test_entries_that_cannot_be_told_apart_share_a_rank(world: World) -> None:
    first = world.judged("ada", 10.0, spread=0.05)
    second = world.judged("bob", 9.9, spread=0.05)
    world.judged("cyd", 30.0, spread=0.01)
    assert [(r.submission, r.rank) for r in board(world).rows][:2] == [(second, (1, 2)), (first, (1, 2))]
    assert board(world).rows[2].rank == (3, 3)


def test_equal_scores_keep_the_earlier_one_ahead(world: World) -> None:
    first = world.judged("ada", 10.0)
    world.judged("bob", 10.0)
    assert board(world).leader == first == leader(world)


@pytest.mark.parametrize("said", [
    {"outcome": Outcome.WRONG_VALUES}, {"flags": [Flag.LIBRARY]}, {"flags": [Flag.NO_SANDBOX]}, {"score_us": None, "score_ci_us": None},
], ids=str)
def test_what_does_not_compete_is_not_on_the_board(world: World, said: dict[str, object]) -> None:
    world.send()
    world.finish(world.take(), **{"score_us": 1.0, "score_ci_us": (1.0, 1.0), **said})
    assert board(world).rows == []
    assert leader(world) is None


@pytest.mark.parametrize(("in_contest", "flags", "entries"), [(False, [Flag.UNCERTIFIED], 1), (True, [Flag.UNCERTIFIED], 0), (True, [], 1)])
def test_a_runner_without_a_certificate_counts_for_practice_alone(
        world: World, in_contest: bool, flags: list[Flag], entries: int) -> None:
    contest = world.contest().id if in_contest else None
    world.send("ada", contest=contest)
    world.finish(world.take(), score_us=100.0, score_ci_us=(99.0, 101.0), flags=flags)

    with world.database.read() as session:
        assert len(boards.board(session, world.problem.name, "cpu", contest).rows) == entries


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.BENCHMARK])
def test_only_ranked_entries_are_on_the_board(world: World, mode: Mode) -> None:
    submission = world.send(mode=mode)
    world.finish(world.take(), score_us=1.0, score_ci_us=(1.0, 1.0), mode=mode)
    assert board(world).rows == []
    with world.database.read() as session:
        verdict = submissions.view(session, submission).verdict
    assert verdict is not None and verdict.rank is None


def test_a_verdict_holds_the_rank_its_entry_had(world: World) -> None:
    world.judged("ada", 10.0)
    slower = world.judged("bob", 20.0)
    with world.database.read() as session:
        verdict = submissions.view(session, slower).verdict
    assert verdict is not None and verdict.rank == (2, 2)


def test_an_entry_slower_than_another_of_its_person_has_no_rank(world: World) -> None:
    world.judged("ada", 10.0)
    slower = world.judged("ada", 20.0)
    with world.database.read() as session:
        verdict = submissions.view(session, slower).verdict
    assert verdict is not None and verdict.accepted and verdict.rank is None


def test_entries_of_one_version_stay_together_when_its_gates_change(world: World, tmp_path: Path) -> None:
    old = world.judged("ada", 10.0)
    world.problem = add_problem(world.database, world.artifacts, small_problem(tmp_path, budget=0.5))
    new = world.judged("bob", 5.0)
    rows = board(world).rows
    assert [r.submission for r in rows] == [new, old]
    assert rows[0].gate_set != rows[1].gate_set
    assert leader(world) == new


def test_a_new_version_starts_an_empty_board(world: World, tmp_path: Path) -> None:
    world.judged("ada", 10.0)
    world.problem = add_problem(world.database, world.artifacts, small_problem(tmp_path, n=16))
    assert board(world).rows == []


def test_a_rejudged_leader_leaves_the_board_until_it_is_judged(world: World) -> None:
    second = world.judged("bob", 20.0)
    first = world.judged("ada", 10.0)
    with world.database.begin() as session:
        submissions.rejudge(session, first)
    assert leader(world) == second
    world.finish(world.take(), score_us=11.0, score_ci_us=(11.0, 11.0))
    assert leader(world) == first
