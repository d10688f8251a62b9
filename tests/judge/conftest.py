"""A problem small enough to be judged in a moment, and a judge with real boxes and real referees."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import Settings
from kernelderby.judge.judging import Judge, open_judge


@pytest.fixture(scope="module")
def tiny() -> Problem:
    return load_problem(Path(__file__).parent / "tiny/problems/warmup/double")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with open_judge(Settings(), "bubblewrap") as judge:
        yield judge
