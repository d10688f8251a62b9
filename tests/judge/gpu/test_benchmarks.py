"""What the GPU's benchmark concludes from its figures: nothing where they tell nothing apart, or are too few."""

from typing import Any

import pytest

from benchmarks.gpu import resolution
from benchmarks.gpu.goals import print_goals
from benchmarks.gpu.l2_persistence import concluded

HOT, COLD = 3000.0, 5400.0
CHAINS = {"hot": HOT, "cold": COLD, "own sweep": HOT, "other switch": HOT, "other switch, own sweep": HOT, "other sweep": COLD,
          "other reset": HOT, "other reset, own sweep": COLD}


@pytest.mark.parametrize(("changed", "said"), [
    ({}, "another context's reset acts on"),
    ({"other reset, own sweep": HOT}, "another context's reset does not act on"),
    ({"other switch, own sweep": COLD}, "a mere switch to another context already frees"),
    ({}, "another's read sweep of 256 MiB evicts"),
    ({"other sweep": HOT}, "another's read sweep of 256 MiB does not evict"),
])
def test_the_chain_tells_whose_reset_and_whose_sweep_free_persisting_lines(changed: dict[str, float], said: str) -> None:
    assert said in concluded(CHAINS | changed)["answer"]


def test_a_chain_that_does_not_tell_the_cache_from_memory_answers_nothing() -> None:
    found = concluded(CHAINS | {"hot": COLD / 1.4})

    assert found["answer"] is None
    assert found["failed"].startswith("not measured")


def half(kind: str, count: int, *, right: int) -> dict[str, Any]:
    """That half of a resolution: so many duels, of which the first are right."""
    good = {"same": (0.99, 1.01), "apart": (0.985, 0.995)}[kind]
    duels = [{"swapped": bool(number % 2), "faster": None if kind == "same" else "ab"[number % 2],
              "ratio_ci": good if number < right else (1.01, 1.02)} | ({} if number < right else {"faster": "ba"[number % 2]})
             for number in range(count)]
    return {kind: duels} | resolution.shares({kind: duels})


@pytest.mark.parametrize(("count", "right", "holds"), [(40, 40, True), (40, 38, True), (40, 30, False), (39, 39, True), (37, 37, None)])
def test_of_forty_duels_those_not_played_count_as_wrong(count: int, right: int, holds: bool | None) -> None:
    apart, same = print_goals({"resolution": half("apart", count, right=right)})

    assert (apart["holds"], same["holds"]) == (holds, None)
    assert f"n = {count}" in apart["figure"]


def test_runs_of_one_kind_add_up() -> None:
    found = resolution.merged(half("apart", 30, right=30), half("apart", 12, right=9))

    assert (found["decided"], found["right_sign"]) == ([42, 0], 39 / 42)


def test_halves_that_were_played_apart_make_one_table() -> None:
    found = resolution.merged(half("same", 40, right=40), half("apart", 40, right=40))

    assert [row["holds"] for row in print_goals({"resolution": found})] == [True, True]
