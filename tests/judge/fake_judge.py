"""A judge that does what the source says, for tests of the worker around it."""

import time
from collections.abc import Callable
from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import ProblemBroken, RefereeLost, SandboxUnavailable
from kernelderby.core.problem_folder import Problem
from kernelderby.core.verdict import Outcome, Verdict
from kernelderby.judge.judging import Job

Report = Callable[[str, dict[str, Any]], None]


class FakeJudge:
    """Sources: accept, quick (half a second), wait (until cancelled), hang (whatever happens), broken, lost, lost_box, unable, bug."""

    def __init__(self, is_unable: bool = False) -> None:
        self.is_unable = is_unable
        self.jobs: list[Job] = []
        self.prepared: list[str] = []

    def __enter__(self) -> "FakeJudge":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def prepare(self, problem: Problem, device: DeviceClass) -> None:
        if self.is_unable:
            raise SandboxUnavailable
        self.prepared.append(problem.name)

    def idle(self) -> None:
        pass

    def judge(self, job: Job, report: Report, cancelled: Callable[[], bool]) -> Verdict:
        self.jobs.append(job)
        word = job.source.decode().split()[0]
        report("check", {"case": "tiny", "done": 1, "of": 1})
        return _PLAYS[word](job, cancelled)


def _accept(job: Job, cancelled: Callable[[], bool]) -> Verdict:
    return _verdict(job, Outcome.ACCEPTED)


def _quick(job: Job, cancelled: Callable[[], bool]) -> Verdict:
    time.sleep(0.5)
    return _verdict(job, Outcome.ACCEPTED)


def _wait(job: Job, cancelled: Callable[[], bool]) -> Verdict:
    while not cancelled():
        time.sleep(0.01)
    return _verdict(job, Outcome.CANCELLED)


def _hang(job: Job, cancelled: Callable[[], bool]) -> Verdict:
    time.sleep(3600)
    raise AssertionError


def _raise(error: Exception) -> Callable[[Job, Callable[[], bool]], Verdict]:
    def play(job: Job, cancelled: Callable[[], bool]) -> Verdict:
        raise error
    return play


def _verdict(job: Job, outcome: Outcome) -> Verdict:
    score = 10.0 if outcome is Outcome.ACCEPTED else None
    return Verdict(problem=job.problem.name, version=job.problem.version, device=job.device.name, mode=job.mode, outcome=outcome,
                   score_us=score, score_ci_us=(9.0, 11.0) if score else None, stages_s={"box": 0.01})


_PLAYS = {
    "accept": _accept, "quick": _quick, "wait": _wait, "hang": _hang, "broken": _raise(ProblemBroken("The reference fails.")),
    "lost": _raise(RefereeLost()), "lost_box": _raise(RefereeLost(box_alive=True)),
    "bug": _raise(ValueError("oops")), "unable": _raise(SandboxUnavailable()),
}
