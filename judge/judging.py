"""Judging one entry: a referee decides, a box runs the entry, and this lends the one to the other."""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import RefereeLost, SetupError
from kernelderby.core.problem import hidden_specs, public_cases
from kernelderby.core.problem_folder import Problem
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Flag, Mode, Verdict
from kernelderby.judge.box.wire import Closed, Late, sealed_file
from kernelderby.judge.referees import RefereeProcess, Referees, failure
from kernelderby.judge.sandbox.base import Box, BoxLimits, Sandbox
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.pool import Pool
from kernelderby.judge.sandbox.unsandboxed import Unsandboxed

log = logging.getLogger(__name__)

Report = Callable[[str, dict[str, Any]], None]

_LOOK_S = 0.05              # how often a judging looks whether it was cancelled
_GPU_HOST_BYTES = 6 << 30    # of host memory: libraries, the context, Triton's compiler
_GPU_THREADS = 512
_OWN_WORK_S = 120.0         # of the referee, beside what the entry may take


@dataclass(frozen=True, kw_only=True)
class Job:
    """All that one judging needs."""

    submission: int | None      # None: judged here, without a server
    attempt: int
    problem: Problem
    device: DeviceClass
    mode: Mode
    file_name: str
    source: bytes
    seed: bytes                 # 32 bytes that nobody can guess


class Judge:
    """Owns the warm boxes and the referees. For one thread."""

    def __init__(self, sandbox: Sandbox, warm_boxes: int) -> None:
        self._sandbox = sandbox
        self._warm_boxes = warm_boxes
        self._pools: dict[str, Pool] = {}            # boxes for entries, by class
        self._house_pools: dict[str, Pool] = {}      # the next referee's house box
        self._referees = Referees()

    def judge(self, job: Job, report: Report, cancelled: Callable[[], bool]) -> Verdict:
        """The verdict on whatever the entry does. `report` is told of each step as kind and data.

        Raises DerbyError for what is ours: ProblemBroken, SandboxUnavailable, RefereeLost (with `box_alive`).
        """
        started = time.monotonic()
        referee = self._ready(job)
        waited_s = time.monotonic() - started
        run = _Run(job, referee, self._pool(job.device), self._house_pool(job.device), report, cancelled)
        try:
            verdict = run.play()
        except BaseException:
            self._referees.discard(referee)
            raise
        finally:
            run.end_boxes()
        return self._completed(verdict, job, referee, waited_s, time.monotonic() - started)

    def prepare(self, problem: Problem, device: DeviceClass) -> None:
        """Start boxes and the problem's referee ahead, so that the first judging need not wait. Raises as `judge` does."""
        self._pool(device).refill()
        if not self._referees.has(problem, device):
            self._house_pool(device).refill()
        self._referees.get(problem, device)

    def inspect(self, problem: Problem, device: DeviceClass, seed: bytes) -> list[dict[str, Any]]:
        """What the referee finds in a problem's own Python: rows of `{"what", "ok", "message"}`. Raises as `judge` does."""
        return self._referees.get(problem, device).inspect(seed)

    def idle(self) -> None:
        """Start the boxes that are missing. Call it when no run is going on."""
        for pool in self._pools.values():
            pool.refill()

    def close(self) -> None:
        """End every referee and every box."""
        self._referees.close()
        for pool in (*self._pools.values(), *self._house_pools.values()):
            pool.close()
        self._pools, self._house_pools = {}, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _pool(self, device: DeviceClass) -> Pool:
        if device.name not in self._pools:
            self._pools[device.name] = Pool(self._sandbox, device.name, self._warm_boxes)
        return self._pools[device.name]

    def _house_pool(self, device: DeviceClass) -> Pool:
        if device.name not in self._house_pools:
            self._house_pools[device.name] = Pool(self._sandbox, device.name, 1)
        return self._house_pools[device.name]

    def _ready(self, job: Job) -> RefereeProcess:
        """The referee; where none was warm, boxes start beside it. Nothing else starts while calls are timed."""
        if job.mode is Mode.TEST:
            return self._referees.get(job.problem, job.device)
        self.prepare(job.problem, job.device)
        self._pool(job.device).settle()
        self._house_pool(job.device).settle()
        return self._referees.get(job.problem, job.device)

    def _completed(self, verdict: Verdict, job: Job, referee: RefereeProcess, waited_s: float, total_s: float) -> Verdict:
        can = self._sandbox.capabilities()
        environment = {**referee.environment, "sandbox": can.name, "memory_limit": can.memory_limit, "process_limit": can.process_limit,
                       "freeze": can.freeze, "own_uid": can.own_uid}
        flags = [*verdict.flags, *([Flag.NO_SANDBOX] if can.name == Unsandboxed.name else [])]
        stages = {**verdict.stages_s, "box": round(verdict.stages_s["box"] + waited_s, 3), "total": round(total_s, 3)}
        return verdict.model_copy(update={"submission": job.submission, "attempt": job.attempt, "environment": environment, "flags": flags,
                                          "stages_s": stages})


def open_judge(settings: Settings, sandbox_name: str) -> Judge:
    """A judge with the sandbox of that name. Raises SetupError for one that is not known."""
    return Judge(sandbox_of(sandbox_name), settings.warm_boxes)


def sandbox_of(name: str) -> Sandbox:
    """The sandbox of that name: bubblewrap or none. Raises SetupError for another."""
    sandboxes: dict[str, Callable[[], Sandbox]] = {"bubblewrap": Bubblewrap, "none": Unsandboxed}
    if name not in sandboxes:
        raise SetupError(f"There is no sandbox {name[:40]!r}. Known: {', '.join(sandboxes)}.")
    return sandboxes[name]()


class _Run:
    """One judging: what the referee asks for, and the boxes it was lent."""

    def __init__(self, job: Job, referee: RefereeProcess, pool: Pool, house_pool: Pool, report: Report,
                 cancelled: Callable[[], bool]) -> None:
        self._job, self._referee, self._report, self._cancelled = job, referee, report, cancelled
        self._pool, self._house_pool = pool, house_pool
        self._lent: dict[int, Box] = {}
        self._is_told = False      # of the cancellation
        self._verdict: Verdict | None = None

    def play(self) -> Verdict:
        """Serve the referee until it says the verdict."""
        try:
            self._send_job()
            deadline = time.monotonic() + _longest_s(self._job)
            while self._verdict is None:
                self._look(deadline)
        except Closed:
            raise RefereeLost(box_alive=bool(self._lent)) from None
        return self._verdict

    def end_boxes(self) -> None:
        """End what the referee has not given back; its house box stays with it."""
        for box in self._lent.values():
            box.end()
        self._lent = {}

    def _send_job(self) -> None:
        job = self._job
        fd = sealed_file(job.source)
        try:
            told = {"submission": job.submission, "attempt": job.attempt, "mode": job.mode, "file_name": job.file_name,
                    "seed": job.seed.hex()}
            self._referee.channel.send({"op": "judge", "job": told}, [fd])
        finally:
            os.close(fd)

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
        self._referee.channel.send({"op": "box", "box": box.id, "freezer": box.freezer()}, [box.wire.fileno(), box.log_fd])

    def _end_box(self, message: dict[str, Any]) -> None:
        box = self._lent.pop(message["box"], None) or self._referee.take_back(message["box"])
        self._referee.channel.send({"op": "death", **asdict(box.end())})

    def _event(self, message: dict[str, Any]) -> None:
        self._report(message["kind"], message["data"])

    def _end(self, message: dict[str, Any]) -> None:
        self._verdict = Verdict.model_validate(message["verdict"])

    def _failed(self, message: dict[str, Any]) -> None:
        raise failure(message)


_HEARD: dict[str, Callable[[_Run, dict[str, Any]], None]] = {
    "take_box": _Run._take_box, "end_box": _Run._end_box, "event": _Run._event, "verdict": _Run._end, "failed": _Run._failed,
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
