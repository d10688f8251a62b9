"""The judge on a real GPU, in real boxes: what a program does is seen for what it is."""

from pathlib import Path

import pytest

from benchmarks.gpu.gallery import HONEST
from kernelderby.core.problem_folder import Problem
from kernelderby.core.verdict import Outcome
from kernelderby.judge.judging import Judge
from tests.judge.gpu.addition import addition, judged

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
OUTCOMES = {
    "returns": Outcome.ACCEPTED, "synchronises": Outcome.ACCEPTED, "wrong": Outcome.WRONG_VALUES, "null": Outcome.WRONG_VALUES,
    "crash_at_once": Outcome.ILLEGAL_MEMORY, "crash_in_a_call": Outcome.ILLEGAL_MEMORY, "endless": Outcome.TIMEOUT,
}


@pytest.fixture(scope="session")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """One case of about 90 µs on Hopper."""
    return addition(tmp_path_factory.mktemp("problems"), 67_108_864)


@pytest.mark.parametrize("name", OUTCOMES)
def test_what_a_program_does_is_seen_for_what_it_is(name: str, judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, (HERE / f"programs/{name}.py").read_text())

    assert verdict.outcome is OUTCOMES[name], verdict.message


def test_an_honest_kernel_is_timed_armed_and_in_agreement_with_its_own_events(judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, HONEST)

    case = verdict.cases[0]
    assert case.armed is True and case.calls == 100
    assert case.time_us is not None and case.claimed_us is not None
    assert abs(case.time_us - (case.claimed_us - 1.3)) <= 0.01 * case.time_us + 1      # a pair of events shows 1.3 µs around nothing
    assert case.speed_of_light is not None and 0.5 < case.speed_of_light <= 1.05 and verdict.bound == "memory"


def test_an_entry_that_waits_for_the_gpu_is_timed_unarmed(judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, (HERE / "programs/synchronises.py").read_text())

    assert verdict.cases[0].armed is False
