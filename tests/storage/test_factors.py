"""Factors: an entry's place on a board does not hang on the host that judged it."""

import logging
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from kernelderby.core.verdict import CaseResult, Flag, Outcome
from kernelderby.storage import boards, claims, factors, submissions
from kernelderby.storage.claims import Claim
from kernelderby.storage.database import Database, connect, migrate
from kernelderby.storage.models import Baseline
from tests.small_world import World, add_problem, small_problem

GPU = "h200"
FAST, SLOW = "GPU-fast", "GPU-slow"


@pytest.fixture
def world(database: Database, tmp_path: Path) -> World:
    return World.make(database, tmp_path, ("cpu", GPU))


def end(world: World, claim: Claim, runner: str, score_us: float, baseline_us: float | None = 100.0, device: str = GPU,
        **said: Any) -> None:
    """End a run as its worker does: with the factor in the verdict."""
    case = CaseResult(name="tiny", outcome=Outcome.ACCEPTED, time_us=score_us, baseline_us=baseline_us)
    verdict = world.verdict(**{"score_us": score_us, "score_ci_us": (score_us, score_us), "device": device, "cases": [case],
                               "environment": {"gpu_uuid": runner}, **said})
    with world.database.begin() as session:
        assert claims.finish(session, claim.id, claim.attempt, factors.rated(session, verdict, datetime.now(UTC)))


def judged(world: World, name: str, runner: str, score_us: float, baseline_us: float | None = 100.0, device: str = GPU,
           **said: Any) -> int:
    """An entry of its own, judged on a runner."""
    number = world.send(name, device=device, source=f"# {name} {runner} {score_us}".encode())
    end(world, world.take(device), runner, score_us, baseline_us, device, **said)
    return number


def known(world: World, slower: float = 1.0, runs: int = factors.FEW) -> None:
    """Two runners that have judged so often, the first one first."""
    for runner, baseline_us in ((FAST, 100.0), (SLOW, 100.0 * slower)):
        for _ in range(runs):
            judged(world, "house", runner, 9 * baseline_us, baseline_us)


def factor(world: World, runner: str, device: str = GPU, now: datetime | None = None) -> float:
    with world.database.read() as session:
        return factors.factor(session, world.problem.version, device, runner, now or datetime.now(UTC))


def said_factor(world: World, submission: int) -> float | None:
    verdict = world.view(submission).verdict
    assert verdict is not None
    return verdict.environment.get("factor")


def ranks(world: World) -> dict[str, tuple[int, int]]:
    with world.database.read() as session:
        return {row.person: row.rank for row in boards.board(session, world.problem.name, GPU).rows}


def scores(world: World) -> dict[str, float]:
    with world.database.read() as session:
        return {row.person: row.score_us for row in boards.board(session, world.problem.name, GPU).rows}


@pytest.mark.parametrize("slower", [0.85, 0.95, 1.0, 1.04, 1.2])
def test_two_runners_of_unequal_speed_rank_one_kernel_equally(world: World, slower: float) -> None:
    known(world, slower)
    judged(world, "ada", FAST, 50.0)
    late = judged(world, "bob", SLOW, 50.0 * slower, 100.0 * slower)

    assert scores(world)["bob"] == pytest.approx(scores(world)["ada"], rel=0.01)
    assert ranks(world)["ada"] == ranks(world)["bob"] == (1, 2)
    verdict = world.view(late).verdict
    assert verdict is not None and verdict.score_us == 50.0 * slower, "what was measured stays as it was"
    assert verdict.environment["factor"] == pytest.approx(1 / slower, abs=1e-6)


def test_what_an_entry_did_to_its_own_baseline_does_not_help_it(world: World) -> None:
    known(world)
    assert said_factor(world, judged(world, "ada", SLOW, 50.0, baseline_us=120.0)) == 1.0
    assert factor(world, SLOW) == 1.0, "nor does one run move a median"


def test_the_only_runner_has_no_factor(world: World) -> None:
    for baseline_us in (100.0, 110.0, 120.0, 130.0):
        assert said_factor(world, judged(world, "ada", FAST, 50.0, baseline_us)) == 1.0


@pytest.mark.parametrize(("of_fast", "of_slow", "found"), [(3, 2, 1.0), (2, 3, 1.0), (3, 3, 1 / 1.1), (0, 3, 1.0)])
def test_few_runs_of_either_runner_are_no_ground_for_a_factor(world: World, of_fast: int, of_slow: int, found: float) -> None:
    for runner, runs, baseline_us in ((FAST, of_fast, 100.0), (SLOW, of_slow, 110.0)):
        for _ in range(runs):
            judged(world, "house", runner, 900.0, baseline_us)
    assert factor(world, SLOW) == pytest.approx(found, abs=1e-6)
    assert factor(world, FAST) == factor(world, "GPU-new") == 1.0


@pytest.mark.parametrize(("slower", "is_alike"), [(0.79, False), (0.81, True), (1.24, True), (1.26, False)])
def test_a_runner_that_is_no_match_for_its_class_is_told_and_left_alone(
        world: World, caplog: pytest.LogCaptureFixture, slower: float, is_alike: bool) -> None:
    known(world, slower)
    caplog.clear()
    with caplog.at_level(logging.WARNING, factors.__name__):
        found = factor(world, SLOW)
    assert found == (pytest.approx(1 / slower, abs=1e-6) if is_alike else 1.0)
    told = [(vars(record)["runner"], vars(record)["reference"]) for record in caplog.records]
    assert told == ([] if is_alike else [(SLOW, FAST)])


def test_a_rejudged_entry_has_the_factor_of_the_runner_that_judged_it_again(world: World) -> None:
    known(world, 1.1)
    number = judged(world, "ada", FAST, 50.0)
    assert said_factor(world, number) == 1.0
    with world.database.begin() as session:
        submissions.rejudge(session, number)
    end(world, world.take(GPU), SLOW, 55.0, 110.0)
    assert said_factor(world, number) == pytest.approx(1 / 1.1, abs=1e-6)
    assert scores(world)["ada"] == pytest.approx(50.0, rel=0.01)


def test_the_median_is_over_the_newest_runs_alone(world: World) -> None:
    known(world, runs=factors.ROLLING)
    for _ in range(factors.ROLLING // 2 - 1):
        judged(world, "house", SLOW, 900.0, 110.0)
    assert factor(world, SLOW) == 1.0
    for _ in range(2):
        judged(world, "house", SLOW, 900.0, 110.0)
    assert factor(world, SLOW) == pytest.approx(1 / 1.1, abs=1e-6)
    with world.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Baseline)) == 2 * factors.ROLLING + 1, "and no more of them are kept"


def test_the_reference_is_the_first_runner_that_was_seen_lately(world: World) -> None:
    known(world, 1.1)
    with world.database.begin() as session:
        for row in session.scalars(select(Baseline).where(Baseline.runner == FAST)):
            row.at -= factors.LATELY
    assert factor(world, SLOW) == 1.0, "the first one is gone, and this one stands in its place"
    for _ in range(factors.FEW):
        judged(world, "house", FAST, 900.0, 100.0)
    assert factor(world, SLOW) == pytest.approx(1 / 1.1, abs=1e-6), "it is back"
    assert factor(world, SLOW, now=datetime.now(UTC) + factors.LATELY + timedelta(minutes=1)) == 1.0


def test_gate_sets_share_a_reference_and_versions_do_not(world: World, tmp_path: Path) -> None:
    known(world, 1.1)
    first = world.problem.version
    world.problem = add_problem(world.database, world.artifacts, small_problem(tmp_path, budget=0.5), ("cpu", GPU))
    assert world.problem.version == first and factor(world, SLOW) == pytest.approx(1 / 1.1, abs=1e-6)
    world.problem = add_problem(world.database, world.artifacts, small_problem(tmp_path, n=16), ("cpu", GPU))
    assert world.problem.version != first and factor(world, SLOW) == 1.0


@pytest.mark.parametrize("said", [
    {"flags": [Flag.NO_SANDBOX]}, {"baseline_us": None}, {"environment": {"gpu_uuid": None}}, {"outcome": Outcome.WRONG_VALUES},
    {"device": "cpu"},
], ids=str)
def test_only_a_run_that_competes_on_a_known_gpu_says_anything_of_it(world: World, said: dict[str, Any]) -> None:
    judged(world, "ada", FAST, 50.0, **said)
    with world.database.read() as session:
        assert session.scalar(select(func.count()).select_from(Baseline)) == 0


@settings(max_examples=12, deadline=None)
@given(
    faster=st.floats(0.9, 1.1),
    entries=st.lists(st.tuples(st.sampled_from([FAST, SLOW]), st.integers(20, 60), st.floats(0.98, 1.02)), min_size=1, max_size=6),
)
def test_ranks_stay_as_they_are_when_a_runner_gets_faster_or_slower_as_a_whole(
        faster: float, entries: list[tuple[str, int, float]]) -> None:
    assert _ranks_with({SLOW: 1.0}, entries) == _ranks_with({SLOW: faster}, entries)
    assert _ranks_with({FAST: 1.0}, entries) == _ranks_with({FAST: faster}, entries)


def _ranks_with(scales: dict[str, float], entries: list[tuple[str, int, float]]) -> dict[str, tuple[int, int]]:
    """Of entries given by runner, score and how far their baseline strayed, where all times of a runner are scaled."""
    database = connect("sqlite://")
    migrate(database)
    with tempfile.TemporaryDirectory() as folder:
        world = World.make(database, Path(folder), ("cpu", GPU))
        for runner in (FAST, SLOW):
            for _ in range(factors.FEW):
                judged(world, "house", runner, 900 * scales.get(runner, 1.0), 100 * scales.get(runner, 1.0))
        for place, (runner, score_us, strayed) in enumerate(entries):
            scale = scales.get(runner, 1.0)
            judged(world, f"person {place}", runner, score_us * scale, 100 * strayed * scale)
        found = ranks(world)
    database.close()
    return {person: rank for person, rank in found.items() if person != "house"}
