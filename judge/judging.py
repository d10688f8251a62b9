"""Judging one entry: a referee decides, a box runs the entry, and this lends the one to the other."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kernelderby.core.devices import DeviceClass
from kernelderby.core.duel import PLANS, Duel, Side
from kernelderby.core.errors import BoxStuck, DerbyError, RefereeLost, RunnerUnhealthy, SetupError
from kernelderby.core.problem import hidden_specs, public_cases
from kernelderby.core.problem_folder import Problem
from kernelderby.core.runner import UNKNOWN_RUNNER, RunnerFacts
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Flag, Mode, Verdict
from kernelderby.judge.box.wire import Closed, Late, sealed_file
from kernelderby.judge.build.builder import Build, Builder, needs_build
from kernelderby.judge.build.stage import step_of, unbuilt_duel, verdict_without_run
from kernelderby.judge.referees import RefereeProcess, Referees, failure
from kernelderby.judge.sandbox.base import Box, BoxLimits, Death, Sandbox
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.pool import Batches, Boxes, Pool
from kernelderby.judge.sandbox.unsandboxed import Unsandboxed

log = logging.getLogger(__name__)

Report = Callable[[str, dict[str, Any]], None]

_BOXES_AHEAD = 8           # of a duel, started together
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
    artifacts: Mapping[str, bytes] = field(default_factory=dict)      # the libraries of its build, by key; the judge adds them


class Judge:
    """Owns the warm boxes and the referees. For one thread."""

    def __init__(self, sandbox: Sandbox, warm_boxes: int, builds: Path, runner: RunnerFacts = UNKNOWN_RUNNER, gpu: int = 0) -> None:
        """`builds`: the folder that keeps what was compiled."""
        self._sandbox = sandbox
        self._builder = Builder(sandbox, builds)
        self._runner = runner
        self._warm_boxes = warm_boxes
        self._pools: dict[str, Pool] = {}            # boxes for entries, by class
        self._house_pools: dict[str, Pool] = {}      # the next referee's house box
        self._referees = Referees(gpu)
        self.fault: str | None = None                # why this machine judges nothing more, and what to do

    def judge(self, job: Job, report: Report, cancelled: Callable[[], bool]) -> Verdict:
        """The verdict on whatever the entry does. `report` is told of each step as kind and data.

        Raises DerbyError for what is ours: ProblemBroken, SandboxUnavailable, RefereeLost (with `box_alive`).
        """
        started = time.monotonic()
        build = self._built(job, report, cancelled)
        if build.finding:
            verdict = verdict_without_run(build, job.problem, job.device, job.mode, job.source)
            return self._completed(verdict, job, build, {}, 0.0, time.monotonic() - started)
        referee = self._ready(job)
        waited_s = time.monotonic() - started - build.seconds
        job = replace(job, artifacts=build.artifacts)
        run = _Run(job, referee, self._pool(job.device), self._house_pool(job.device), report, cancelled, self._runner)
        with self._cleaned_up(run, referee):
            verdict = run.play()
        return self._completed(verdict, job, build, referee.environment, waited_s, time.monotonic() - started)

    def duel(self, first: Job, second: Job, report: Report, cancelled: Callable[[], bool]) -> Duel:
        """Two entries of one problem and class against each other, here and now: `first` is a, `second` is b.

        What an entry does wrong ends the duel and is told in it. Raises as `judge` does.
        """
        jobs: dict[Side, Job] = {"a": first, "b": second}
        for side, job in jobs.items():
            build = self._built(job, report, cancelled)
            if build.finding:
                return unbuilt_duel(build, side, job.problem, job.device)
            jobs[side] = replace(job, artifacts=build.artifacts)
        first, second = jobs.values()
        referee = self._ready(first)
        boxes = Batches(self._pool(first.device), _BOXES_AHEAD, 2 * PLANS[first.device.kind].boxes)
        run = _Run(first, referee, boxes, self._house_pool(first.device), report, cancelled, self._runner)
        with self._cleaned_up(run, referee):
            duel = run.play_against(second)
        environment = {**referee.environment, "sandbox": self._sandbox.capabilities().name, "factor": self._runner.factor}
        return duel.model_copy(update={"environment": environment})

    def prepare(self, problem: Problem, device: DeviceClass) -> None:
        """Start boxes and the problem's referee ahead, so that the first judging need not wait. Raises as `judge` does."""
        self._pool(device).refill()
        if not self._referees.has(problem, device):
            self._house_pool(device).refill()
        self._referees.get(problem, device)

    def inspect(self, problem: Problem, device: DeviceClass, seed: bytes) -> list[dict[str, Any]]:
        """What the referee finds in a problem's own Python: rows of `{"what", "ok", "message"}`. Raises as `judge` does."""
        referee = self._referees.get(problem, device)
        try:
            return referee.inspect(seed)
        except DerbyError:
            self._referees.discard(referee)
            raise

    def idle(self) -> None:
        """Start the boxes that are missing. Call it when no run is going on."""
        for pool in self._pools.values():
            pool.refill()
        self._builder.idle()

    def close(self) -> None:
        """End every referee and every box."""
        self._referees.close()
        self._builder.close()
        for pool in (*self._pools.values(), *self._house_pools.values()):
            pool.close()
        self._pools, self._house_pools = {}, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def _cleaned_up(self, run: "_Run", referee: RefereeProcess) -> Iterator[None]:
        """Around a run: afterwards no box is left, a referee that failed is gone, and a device that is not as it was is known."""
        try:
            yield
        except BaseException:
            run.end_boxes()      # first: what they share with the referee must not be freed while they live
            if not self._referees.discard(referee):
                run.fault = run.fault or BoxStuck().message
            raise
        finally:
            run.end_boxes()
            self.fault = self.fault or run.fault

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
        if self.fault:
            raise RunnerUnhealthy(self.fault)
        if job.mode is Mode.TEST:
            return self._referees.get(job.problem, job.device)
        self.prepare(job.problem, job.device)
        self._pool(job.device).settle()
        self._house_pool(job.device).settle()
        return self._referees.get(job.problem, job.device)

    def _built(self, job: Job, report: Report, cancelled: Callable[[], bool]) -> Build:
        if not needs_build(job.source, job.file_name):
            return Build()
        report("build", {"message": "Compiling"})
        build = self._builder.build(job.source, job.file_name, job.device, cancelled)
        report("build", step_of(build))
        return build

    def _completed(self, verdict: Verdict, job: Job, build: Build, runner: Mapping[str, Any], waited_s: float, total_s: float) -> Verdict:
        can = self._sandbox.capabilities()
        environment = {**runner, "sandbox": can.name, "memory_limit": can.memory_limit, "process_limit": can.process_limit,
                       "freeze": can.freeze, "own_uid": can.own_uid,
                       **({"certificate": self._runner.standing, "bound_share": self._runner.bound_share, "factor": self._runner.factor}
                          if job.device.arch else {})}
        flags = [*verdict.flags, *([Flag.NO_SANDBOX] if can.name == Unsandboxed.name else [])]
        stages = {**verdict.stages_s, "build": round(build.seconds, 3), "box": round(verdict.stages_s["box"] + waited_s, 3),
                  "total": round(total_s, 3)}
        return verdict.model_copy(update={"submission": job.submission, "attempt": job.attempt, "environment": environment, "flags": flags,
                                          "stages_s": stages, "compile": verdict.compile or build.report})


def open_judge(settings: Settings, sandbox_name: str, runner: RunnerFacts = UNKNOWN_RUNNER) -> Judge:
    """A judge on that runner, with the sandbox of that name. Raises SetupError for one that is not known."""
    return Judge(sandbox_of(sandbox_name, settings.gpu), settings.warm_boxes, settings.builds, runner, settings.gpu)


def sandbox_of(name: str, gpu: int = 0) -> Sandbox:
    """The sandbox of that name, bubblewrap or none, with the GPU of that number. Raises SetupError for another."""
    sandboxes: dict[str, Callable[..., Sandbox]] = {"bubblewrap": Bubblewrap, "none": Unsandboxed}
    if name not in sandboxes:
        raise SetupError(f"There is no sandbox {name[:40]!r}. Known: {', '.join(sandboxes)}.")
    return sandboxes[name](gpu=gpu)


class _Run:
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
        with ExitStack() as stack:
            fds = [sealed_file(content) for job in jobs for content in (job.source, b"".join(job.artifacts.values()))]
            for fd in fds:
                stack.callback(os.close, fd)
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


_HEARD: dict[str, Callable[[_Run, dict[str, Any]], None]] = {
    "take_box": _Run._take_box, "end_box": _Run._end_box, "event": _Run._event, "verdict": _Run._end, "duel": _Run._end,
    "failed": _Run._failed,
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
