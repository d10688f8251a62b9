"""What fails on our side: a referee is replaced and proves itself, a box that cannot be ended stops the judge."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kernelderby.core.devices import CPU
from kernelderby.core.errors import BoxStuck, DerbyError, ProblemBroken, RunnerUnhealthy
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Mode, Verdict
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge, open_judge
from kernelderby.judge.sandbox.base import Box, Death
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from tests.judge.hostile import HONEST

TINY = Path(__file__).parent / "tiny"
FAILS_ONCE = """
import os, pathlib
_calls, _right = pathlib.Path(__file__).with_name("calls"), reference

def reference(data, rows=None):
    with _calls.open("a") as file:
        file.write(f"{os.getpid()}\\n")
    pids = _calls.read_text().split()
    if len(pids) == 1:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return {name: AFTERWARDS * value for name, value in _right(data, rows).items()}
"""


def failing_once(folder: Path, afterwards: float) -> Problem:
    """The tiny problem with a reference that fails at its first call, and tells later the truth times a factor."""
    shutil.copytree(TINY, folder / "tiny")
    problem = folder / "tiny/problems/warmup/double"
    with (problem / "reference.py").open("a") as file:
        file.write(FAILS_ONCE.replace("AFTERWARDS", str(afterwards)))
    return load_problem(problem)


def judged(judge: Judge, problem: Problem, mode: Mode = Mode.TEST) -> Verdict:
    job = Job(submission=7, attempt=1, problem=problem, device=CPU, mode=mode, file_name="kernel.py", source=HONEST.encode(),
              seed=bytes(range(32)))
    return judge.judge(job, lambda kind, data: None, lambda: False)


@pytest.fixture
def judge() -> Iterator[Judge]:
    with open_judge(Settings(), "bubblewrap") as judge:
        yield judge


def test_a_referee_that_failed_is_replaced_and_the_fresh_one_proves_itself_before_it_judges(judge: Judge, tmp_path: Path) -> None:
    problem = failing_once(tmp_path, afterwards=1.0)
    with pytest.raises(ProblemBroken, match="illegal memory access"):
        judged(judge, problem)

    verdict = judged(judge, problem)

    assert verdict.accepted
    first, *later = (problem.folder / "calls").read_text().split()
    assert set(later) != {first} and len(set(later)) == 1
    assert len(later) == 1 + len(verdict.cases)      # the proof, then a call of each case


def test_a_fresh_referee_that_computes_wrong_judges_nobody(judge: Judge, tmp_path: Path) -> None:
    problem = failing_once(tmp_path, afterwards=1.5)
    with pytest.raises(ProblemBroken):
        judged(judge, problem)

    for _ in range(2):
        with pytest.raises(DerbyError, match="finds the problem's own baseline wrong"):
            judged(judge, problem)


class StuckBox:
    """A box of which a process seems to hang in the kernel when it is ended."""

    def __init__(self, box: Box) -> None:
        self._box = box

    def __getattr__(self, name: str) -> Any:
        return getattr(self._box, name)

    def end(self) -> Death:
        return replace(self._box.end(), gone=False)


class StuckSandbox(Bubblewrap):
    """Its boxes cannot be ended."""

    def start(self, device: str) -> Box:
        return cast(Box, StuckBox(super().start(device)))


@pytest.mark.parametrize(("mode", "is_known"), [(Mode.TEST, True), (Mode.RANKED, False)], ids=["verdict known", "hidden cases to come"])
def test_a_box_that_cannot_be_ended_stops_the_judge_once_a_verdict_that_is_known_is_out(mode: Mode, is_known: bool, tmp_path: Path) -> None:
    problem = load_problem(TINY / "problems/warmup/double")
    with Judge(StuckSandbox(), 1, tmp_path) as judge:
        if is_known:
            assert judged(judge, problem, mode).accepted
        else:
            with pytest.raises(RunnerUnhealthy, match="did not end in time"):
                judged(judge, problem, mode)

        assert judge.fault == BoxStuck().message
        with pytest.raises(RunnerUnhealthy, match="start the worker again"):
            judged(judge, problem, mode)


def test_a_box_knows_its_processes() -> None:
    box = Bubblewrap().launch(["/bin/sh", "-c", "sleep 60"], {})
    pids: Sequence[int] = box.pids()

    assert box.pid in pids
    assert box.end().gone
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
