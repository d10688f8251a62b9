"""Judging one entry: built off the device, then a referee decides and a box runs it."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kernelderby.core.devices import DeviceClass
from kernelderby.core.duel import PLANS, Duel, Side
from kernelderby.core.errors import BoxStuck, DerbyError, RunnerUnhealthy, SetupError
from kernelderby.core.problem_folder import Problem
from kernelderby.core.runner import UNKNOWN_RUNNER, RunnerFacts
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Flag, Mode, Verdict
from kernelderby.judge.build.builder import Build, Builder, needs_build
from kernelderby.judge.build.stage import step_of, unbuilt_duel, verdict_without_run
from kernelderby.judge.job import Job, Report
from kernelderby.judge.lending import Run
from kernelderby.judge.referees import RefereeProcess, Referees
from kernelderby.judge.sandbox.base import Sandbox
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.pool import Batches, Pool
from kernelderby.judge.sandbox.unsandboxed import Unsandboxed

log = logging.getLogger(__name__)

_BOXES_AHEAD = 8           # of a duel, started together


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
        run = Run(job, referee, self._pool(job.device), self._house_pool(job.device), report, cancelled, self._runner)
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
        run = Run(first, referee, boxes, self._house_pool(first.device), report, cancelled, self._runner)
        with self._cleaned_up(run, referee):
            duel = run.play_against(second)
        environment = {**referee.environment, "sandbox": self._sandbox.capabilities().name, "gpu_uuid": self._runner.gpu}
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
    def _cleaned_up(self, run: Run, referee: RefereeProcess) -> Iterator[None]:
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
            serving = 1 if device.arch and self._warm_boxes else 0      # gate `serves` takes a third box of its own
            self._pools[device.name] = Pool(self._sandbox, device.name, self._warm_boxes + serving)
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
        self._builder.settle()
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
                       **({"certificate": self._runner.standing, "bound_share": self._runner.bound_share, "gpu_uuid": self._runner.gpu}
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
