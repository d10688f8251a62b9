"""A judge that does what the source says, for tests of the worker around it."""

import time
from collections.abc import Callable
from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.duel import Duel, DuelCase, with_result
from kernelderby.core.errors import ProblemBroken, RefereeLost, SandboxUnavailable
from kernelderby.core.problem_folder import Problem
from kernelderby.core.verdict import Outcome, Verdict
from kernelderby.judge.job import Job

Report = Callable[[str, dict[str, Any]], None]


class FakeJudge:
    """Sources: accept, quick (half a second), wait (until cancelled), hang (whatever happens), broken, lost, lost_box, unable, bug, and
    sick, after which the machine has a fault."""

    def __init__(self, is_unable: bool = False) -> None:
        self.is_unable = is_unable
        self.jobs: list[Job] = []
        self.duels: list[tuple[Job, Job]] = []
        self.prepared: list[str] = []
        self.fault: str | None = None

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
        self.fault = "The GPU is gone." if word == "sick" else None
        return _PLAYS[word](job, cancelled)

    def duel(self, first: Job, second: Job, report: Report, cancelled: Callable[[], bool]) -> Duel:
        """The second word of a source: a number of µs, `void`, `lost`, or `wait`."""
        self.duels.append((first, second))
        words = [job.source.decode().split()[1] for job in (first, second)]
        duel = Duel(problem=first.problem.name, version=first.problem.version, device=first.device.name)
        if "lost" in words:
            raise RefereeLost
        while "wait" in words and not cancelled():
            time.sleep(0.01)
        if not all(word.isdigit() for word in words):
            return duel.model_copy(update={"void": "It was disturbed."})
        a_us, b_us = ([[float(word)], [float(word)]] for word in words)
        return with_result(duel.model_copy(update={"cases": [DuelCase(name="tiny", a_us=a_us, b_us=b_us)]}))


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
    "accept": _accept, "sick": _accept,
    "quick": _quick, "wait": _wait, "hang": _hang, "broken": _raise(ProblemBroken("The reference fails.")),
    "lost": _raise(RefereeLost()), "lost_box": _raise(RefereeLost(box_alive=True)),
    "bug": _raise(ValueError("oops")), "unable": _raise(SandboxUnavailable()),
}
