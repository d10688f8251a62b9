"""Duels with real boxes and a real referee, on a CPU."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.devices import CPU
from kernelderby.core.duel import PLANS, Duel
from kernelderby.core.problem_folder import Problem
from kernelderby.core.verdict import Gate, Mode, Outcome
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge
from tests.judge.hostile import HONEST

TINY = Path(__file__).parent / "tiny"
PLAN = PLANS["cpu"]
FAST, SLOW = (f"import time\n{HONEST}\n    time.sleep({seconds})\n" for seconds in (0.003, 0.03))
WRONG = f"{HONEST}\n    data.y.zero_()\n"
LOADS_BADLY = "raise ValueError('not today')\n"


def dueled(judge: Judge, problem: Problem, a: str, b: str, told: list[tuple[str, dict[str, Any]]] | None = None) -> Duel:
    first = Job(submission=None, attempt=1, problem=problem, device=CPU, mode=Mode.RANKED, file_name="a.py", source=a.encode(),
                seed=bytes(range(32)))
    steps = told if told is not None else []
    return judge.duel(first, replace(first, file_name="b.py", source=b.encode()), lambda kind, data: steps.append((kind, data)),
                      lambda: False)


def test_the_slower_entry_loses_on_either_side(judge: Judge, tiny: Problem) -> None:
    told: list[tuple[str, dict[str, Any]]] = []
    duel = dueled(judge, tiny, SLOW, FAST, told)
    other = dueled(judge, tiny, FAST, SLOW)

    assert (duel.faster, other.faster) == ("b", "a"), (duel, other)
    assert duel.ratio and other.ratio and duel.ratio > 2 and other.ratio < 0.5
    assert duel.ratio_ci and duel.ratio_ci[0] <= duel.ratio <= duel.ratio_ci[1]
    assert [case.name for case in duel.cases] == ["wide", "tall"]
    assert all(len(case.a_us) == len(case.b_us) == PLAN.boxes * PLAN.pairs for case in duel.cases)
    assert [data["block"] for kind, data in told if kind == "time"] == list(range(1, PLAN.boxes + 1))
    assert (duel.problem, duel.version, duel.device, duel.environment["sandbox"]) == ("double", tiny.version, "cpu", "bubblewrap")


@pytest.mark.parametrize(("a", "b", "side", "outcome", "gate"), [
    (WRONG, HONEST, "a", Outcome.WRONG_VALUES, Gate.RIGHT), (HONEST, WRONG, "b", Outcome.WRONG_VALUES, Gate.RIGHT),
    (HONEST, LOADS_BADLY, "b", Outcome.RUNTIME_ERROR, None), (LOADS_BADLY, HONEST, "a", Outcome.RUNTIME_ERROR, None),
], ids=["a is wrong", "b is wrong", "b does not load", "a does not load"])
def test_what_an_entry_does_wrong_ends_the_duel_and_names_it(
    judge: Judge, tiny: Problem, a: str, b: str, side: str, outcome: Outcome, gate: Gate | None
) -> None:
    duel = dueled(judge, tiny, a, b)

    assert duel.fallen and (duel.fallen.entry, duel.fallen.outcome) == (side, outcome)
    assert duel.fallen.message
    assert (duel.ratio, duel.faster, duel.is_decided) == (None, None, False)


def test_a_cancelled_duel_is_void_and_leaves_a_judge_that_works(judge: Judge, tiny: Problem) -> None:
    job = Job(submission=None, attempt=1, problem=tiny, device=CPU, mode=Mode.RANKED, file_name="k.py", source=HONEST.encode(),
              seed=bytes(32))
    told: list[str] = []

    duel = judge.duel(job, job, lambda kind, data: told.append(kind), lambda: bool(told))

    assert duel.void and "cancelled" in duel.void
    assert judge.judge(job, lambda kind, data: None, lambda: False).accepted
