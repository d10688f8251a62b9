"""One judge for a module's tests: the real one, with its sandbox."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelderby.core.devices import CPU
from kernelderby.core.problem_folder import Problem
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Mode, Verdict
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge, open_judge


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """A judge that keeps two boxes warm."""
    data: Path = tmp_path_factory.mktemp("judge")
    with open_judge(Settings(data=data), "bubblewrap") as opened:
        yield opened


def judged(judge: Judge, path: Path, problem: Problem, mode: Mode) -> Verdict:
    """The verdict on a file, by the same draws each time."""
    source = path.read_bytes()
    job = Job(submission=None, attempt=1, problem=problem, device=CPU, mode=mode, file_name=path.name, source=source,
              seed=hashlib.sha256(source).digest())
    verdict = judge.judge(job, lambda kind, data: None, lambda: False)
    judge.idle()
    return verdict
