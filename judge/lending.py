"""One run from the worker's side: the referee asks for boxes, is lent them, gives them back, and at last says the verdict."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from kernelderby.core.duel import PLANS, Duel
from kernelderby.core.errors import BoxStuck, RefereeLost, RunnerUnhealthy
from kernelderby.core.problem import hidden_specs, public_cases
from kernelderby.core.runner import RunnerFacts
from kernelderby.core.verdict import Verdict
from kernelderby.judge.box.wire import Closed, Late, sealed_files
from kernelderby.judge.job import Job, Report
from kernelderby.judge.referees import RefereeProcess, failure
from kernelderby.judge.sandbox.base import Box, BoxLimits, Death
from kernelderby.judge.sandbox.pool import Boxes, Pool

_LOOK_S = 0.05              # how often a judging looks whether it was cancelled
_GPU_HOST_BYTES = 6 << 30    # of host memory: libraries, the context, Triton's compiler
_GPU_THREADS = 512
_OWN_WORK_S = 120.0         # of the referee, beside what the entry may take


class Run:
    """One judging: what the referee asks for, and the boxes it was lent."""

    def __init__(self, job: Job, referee: RefereeProcess, pool: Boxes, house_pool: Pool, report: Report,
                 cancelled: Callable[[], bool], runner: RunnerFacts) -> None:
        self._job, self._referee, self._report, self._cancelled = job, referee, report, cancelled
        self._pool, self._house_pool, self._runner = pool, house_pool, runner
        self._lent: dict[int, Box] = {}
        self._is_told = False      # of the cancellation
        self.fault: str | None = None                 # what is not as it was on this machine
        self._said: dict[str, Any] | None = None      # the referee's last word

    def play(self) -> Verdict:
        """Serve the referee until it says the verdict."""
        return Verdict.model_validate(self._played("judge", {"job": self._told(self._job)}, [self._job])["verdict"])

    def play_against(self, rival: Job) -> Duel:
        """Serve the referee until it says which of the two is faster."""
        jobs = [self._job, rival]
        return Duel.model_validate(self._played("duel", {"jobs": [self._told(job) for job in jobs]}, jobs)["duel"])

    def end_boxes(self) -> None:
        """End what the referee has not given back; its house box stays with it."""
        for box in self._lent.values():
            self._ended(box)
        self._lent = {}

    def _played(self, op: str, question: dict[str, Any], jobs: Sequence[Job]) -> dict[str, Any]:
        """Ask the referee, and serve it until it answers."""
        boxes = PLANS[jobs[0].device.kind].boxes if len(jobs) > 1 else 1
        deadline = time.monotonic() + boxes * sum(map(_longest_s, jobs))
        try:
            self._ask(op, question, jobs)
            while self._said is None:
                self._look(deadline)
        except Closed:
            raise RefereeLost(box_alive=bool(self._lent)) from None
        return self._said

    def _ask(self, op: str, question: dict[str, Any], jobs: Sequence[Job]) -> None:
        """The question, with the source of each job in turn."""
        with sealed_files(*(content for job in jobs for content in (job.source, b"".join(job.artifacts.values())))) as fds:
            self._referee.channel.send({"op": op, **question}, fds)

    def _told(self, job: Job) -> dict[str, Any]:
        return {"submission": job.submission, "attempt": job.attempt, "mode": job.mode, "file_name": job.file_name, "seed": job.seed.hex(),
                "runner": self._runner.as_json(),
                "artifacts": [{"key": key, "size": len(library)} for key, library in job.artifacts.items()]}

    def _look(self, deadline: float) -> None:
        if not self._is_told and self._cancelled():
            self._is_told = True
            self._referee.channel.send({"op": "cancel"})
        try:
            message, _ = self._referee.channel.receive(_LOOK_S)
        except Late:
            if time.monotonic() > deadline:
                raise RefereeLost("The referee took longer than a run can take.", box_alive=bool(self._lent)) from None
            return
        _HEARD[message["op"]](self, message)

    def _take_box(self, message: dict[str, Any]) -> None:
        box = (self._house_pool if message["trusted"] else self._pool).take()
        if message["trusted"]:
            self._referee.house.append(box)
        else:
            self._lent[box.id] = box
            box.limit(_limits(self._job))
        self._referee.channel.send({"op": "box", "box": box.id, "freezer": box.freezer(), "pids": box.pids()},
                                   [box.wire.fileno(), box.log_fd])

    def _end_box(self, message: dict[str, Any]) -> None:
        box = self._lent.pop(message["box"], None) or self._referee.take_back(message["box"])
        self._referee.channel.send({"op": "death", **asdict(self._ended(box))})

    def _ended(self, box: Box) -> Death:
        death = box.end()
        if not death.gone:
            self.fault = BoxStuck().message
        return death

    def _event(self, message: dict[str, Any]) -> None:
        self._report(message["kind"], message["data"])

    def _end(self, message: dict[str, Any]) -> None:
        self._said = message
        self.fault = self.fault or message["fault"]

    def _failed(self, message: dict[str, Any]) -> None:
        error = failure(message)
        if isinstance(error, RunnerUnhealthy):
            self.fault = error.message
        raise error


_HEARD: dict[str, Callable[[Run, dict[str, Any]], None]] = {
    "take_box": Run._take_box, "end_box": Run._end_box, "event": Run._event, "verdict": Run._end, "duel": Run._end,
    "failed": Run._failed,
}


def _limits(job: Job) -> BoxLimits:
    """What the problem allows; on a GPU, what the context and a compiler take comes on top."""
    memory = job.problem.spec.limits.memory_mb * 1024 * 1024
    if job.device.arch is None:
        return BoxLimits(memory_bytes=memory)
    return BoxLimits(memory_bytes=memory + _GPU_HOST_BYTES, processes=_GPU_THREADS)


def _longest_s(job: Job) -> float:
    """More than any run may take: the entry's own limits for loading and each case, and as much again for our work on it."""
    spec = job.problem.spec
    parts = 3 + len(public_cases(spec, job.device)) + len(hidden_specs(spec, job.device))
    return _OWN_WORK_S + 2 * parts * spec.limits.time_s
