"""Duels on a real GPU: by turns, in fresh boxes."""

import os

import pytest

from benchmarks.gpu.gallery import HONEST
from kernelderby.core.devices import device
from kernelderby.core.duel import PLANS, Duel
from kernelderby.core.problem_folder import Problem
from kernelderby.core.verdict import Mode, Outcome
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge
from tests.judge.gpu.addition import addition

pytestmark = pytest.mark.gpu

SLOWER = f"{HONEST}    torch.cuda._sleep(8000)\n"       # about 4 µs of 90
WAITS = f"{HONEST}    torch.cuda.synchronize()\n"
WRONG = f"{HONEST}    data.c.zero_()\n"


@pytest.fixture(scope="session")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """One case of about 90 µs on Hopper."""
    return addition(tmp_path_factory.mktemp("problems"), 67_108_864)


def dueled(judge: Judge, problem: Problem, gpu: str, *sources: str) -> Duel:
    first, second = (Job(submission=None, attempt=1, problem=problem, device=device(gpu), mode=Mode.RANKED, file_name="submission.py",
                         source=source.encode(), seed=os.urandom(32)) for source in sources)
    return judge.duel(first, second, lambda kind, data: None, lambda: False)


@pytest.mark.parametrize("sides", ["ab", "ba"])
def test_an_entry_that_is_4_per_cent_slower_loses_on_either_side(sides: str, judge: Judge, problem: Problem, gpu: str) -> None:
    duel = dueled(judge, problem, gpu, *({"a": HONEST, "b": SLOWER}[side] for side in sides))

    assert duel.faster == "ab"[sides.index("a")], (duel.ratio, duel.ratio_ci, duel.void, duel.fallen)
    assert len(duel.cases[0].a_us) == PLANS["gpu"].boxes * PLANS["gpu"].pairs


def test_an_entry_against_itself_is_within_one_per_cent(judge: Judge, problem: Problem, gpu: str) -> None:
    duel = dueled(judge, problem, gpu, HONEST, HONEST)

    assert duel.ratio is not None and abs(duel.ratio - 1) < 0.01, (duel.ratio_ci, duel.void, duel.fallen)


def test_an_entry_that_waits_for_the_gpu_plays_unarmed_against_one_that_does_not(judge: Judge, problem: Problem, gpu: str) -> None:
    duel = dueled(judge, problem, gpu, HONEST, WAITS)

    assert duel.is_decided and duel.ratio is not None and duel.ratio < 1.05, (duel.void, duel.fallen)


def test_a_wrong_value_ends_the_duel_and_names_the_entry(judge: Judge, problem: Problem, gpu: str) -> None:
    duel = dueled(judge, problem, gpu, HONEST, WRONG)

    assert duel.fallen and (duel.fallen.entry, duel.fallen.outcome) == ("b", Outcome.WRONG_VALUES)
