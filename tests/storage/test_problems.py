"""Problems: added once, found by name, with one board for each version whatever its gate set."""

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from kernelderby.core.errors import NotFound
from kernelderby.storage import problems
from kernelderby.storage.models import Board, ProblemVersion
from tests.small_world import NOON, World, add_problem, small_problem


def test_adding_the_same_problem_again_changes_nothing(world: World, tmp_path: Path) -> None:
    again = add_problem(world.database, world.artifacts, small_problem(tmp_path))
    assert again == world.problem
    with world.database.read() as session:
        assert session.scalar(select(func.count()).select_from(ProblemVersion)) == 1
        assert session.scalar(select(func.count()).select_from(Board)) == 1


def test_another_version_becomes_current_and_has_its_own_board(world: World, tmp_path: Path) -> None:
    changed = add_problem(world.database, world.artifacts, small_problem(tmp_path, n=16))
    assert changed.version != world.problem.version and changed.id == world.problem.id
    with world.database.read() as session:
        assert problems.get(session, "doubling") == changed
        assert problems.board_version(session, changed.version_id) == changed.version_id


def test_another_gate_set_shares_the_board(world: World, tmp_path: Path) -> None:
    changed = add_problem(world.database, world.artifacts, small_problem(tmp_path, budget=0.5))
    assert (changed.version, changed.gate_set == world.problem.gate_set) == (world.problem.version, False)
    with world.database.read() as session:
        assert problems.board_version(session, changed.version_id) == world.problem.version_id
        assert problems.newest_gate_set(session, world.problem.version_id) == changed.version_id


def test_problems_are_listed_in_the_order_they_were_added(world: World, tmp_path: Path) -> None:
    add_problem(world.database, world.artifacts, small_problem(tmp_path, name="another"), ("cpu", "h100"))
    with world.database.read() as session:
        assert [(p.name, p.devices) for p in problems.listing(session)] == [("doubling", ("cpu",)), ("another", ("cpu", "h100"))]


@pytest.mark.parametrize("name", ["", "none", "a\0b", "\ud800", "x" * 9999])
def test_an_unknown_name_is_not_found_and_the_known_ones_are_said(world: World, name: str) -> None:
    with world.database.read() as session, pytest.raises(NotFound, match="Known: doubling"):
        problems.get(session, name)


def test_a_board_is_closed_and_gets_a_deadline(world: World) -> None:
    with world.database.begin() as session:
        closed = problems.set_open(session, "doubling", False, NOON)
        assert (closed.open, closed.closes_at) == (False, NOON)
        assert problems.set_open(session, "doubling", True, NOON + timedelta(days=1)).open


def test_adding_a_problem_for_another_class_keeps_the_boards_that_are_open(world: World, tmp_path: Path) -> None:
    added = [add_problem(world.database, world.artifacts, small_problem(tmp_path, budget=budget), devices).devices
             for budget, devices in ((0.001, ("h200",)), (0.001, ("cpu",)), (0.5, ("h100",)))]

    assert added == [("cpu", "h200"), ("cpu", "h200"), ("cpu", "h200", "h100")], "a gate set more is no other problem"
