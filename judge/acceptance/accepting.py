"""The story of `derby runner accept`: every check, then a signed certificate, or a report of what failed."""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import DerbyError
from kernelderby.core.light import Ceilings
from kernelderby.core.settings import Settings
from kernelderby.judge.acceptance import checks
from kernelderby.judge.acceptance.calibration import CEILINGS, Program, null_figures, of_process
from kernelderby.judge.acceptance.certificate import certificate_file, issued, machine_of, write
from kernelderby.judge.acceptance.checks import CheckResult
from kernelderby.judge.acceptance.trials import Trials, bound_of, gains
from kernelderby.judge.receipts import load_key
from kernelderby.judge.referee.cuda.nvml import Gpu
from kernelderby.judge.sandbox.base import Capabilities

JUDGINGS = 6         # of the honest kernel; the first warms the referee up and is no part of the spread
_SCRUB = "kernelderby.judge.referee.cuda.scrub"
_KERNELS_IMPORT = ("torch", "triton", "cuda-bindings", "nvidia-ml-py")
_NEED_THE_GPU = ("memory", "ceilings", "clocks")
_NEED_A_JUDGE = ("ipc", "spread", "forgery")


@dataclass(frozen=True, kw_only=True)
class Runner:
    """What is tried."""

    device: DeviceClass
    gpu: Gpu
    sandbox: Capabilities
    trials: Trials
    params: Path = checks.PARAMS      # of the driver
    program: Program = of_process


def accept(settings: Settings, runner: Runner, say: Callable[[CheckResult], None]) -> dict[str, Any]:
    """Carry out every check, tell of each as it is done, and keep the signed report. Raises DerbyError for what keeps it from that."""
    started = time.monotonic()
    results: list[CheckResult] = []
    bound: dict[str, Any] = {}
    for result in _all(runner):
        say(result)
        results.append(result)
        if result.name == "forgery" and result.ok:
            bound = {key: result.figures[key] for key in ("share", "us", "largest_gain_us", "attacks")}
    report = {"gpu": runner.gpu.name(), "versions": _versions(), "sandbox": runner.sandbox.name,
              "date": datetime.now(UTC).isoformat(timespec="seconds"),
              "checks": [asdict(result) for result in results], "bound": bound,
              "seconds": round(time.monotonic() - started, 1)}
    machine = machine_of(runner.device, runner.gpu)
    signed = issued(load_key(settings), machine, report, [result.name for result in results if result.ok is False])
    write(certificate_file(settings, machine.uuid), signed)
    return signed


def _all(runner: Runner) -> Iterator[CheckResult]:
    walls = checks.sandbox(runner.sandbox)
    yield from walls
    alone = checks.alone(runner.gpu)
    yield from (alone, checks.counters(runner.params), checks.no_mps(runner.gpu))
    if not alone.ok:
        yield from (checks.not_tried(name, "another process uses the GPU") for name in (*_NEED_THE_GPU, *_NEED_A_JUDGE))
        return
    yield checks.guarded("memory", lambda: _scrubbed(runner), DerbyError)
    yield from _measured(runner)
    if not walls[0].ok:
        yield from (checks.not_tried(name, "no sandbox works here") for name in _NEED_A_JUDGE)
        return
    yield from _judged(runner.trials)


def _scrubbed(runner: Runner) -> CheckResult:
    left, found = (runner.program(_SCRUB, what, gpu=runner.gpu.minor) for what in ("leave", "find"))
    return checks.scrubbed(left, found)


def _measured(runner: Runner) -> Iterator[CheckResult]:
    try:
        found = runner.program(CEILINGS, gpu=runner.gpu.minor)
    except DerbyError as error:
        yield checks.failed("ceilings", error.message)
        yield checks.not_tried("clocks", "the GPU could not be loaded")
        return
    yield checks.ceilings(Ceilings(**found["measured"]), runner.device)
    yield checks.clocks(found["load"])


def _judged(trials: Trials) -> Iterator[CheckResult]:
    """The clock's own checks. The first thing that a judging does is to share memory with a box, so a failure is that of `ipc`."""
    try:
        honest = trials.repeated(JUDGINGS)[1:]
    except DerbyError as error:
        yield checks.failed("ipc", f"No box could be judged in: {error.message}")
        yield from (checks.not_tried(name, "no box could be judged in") for name in ("spread", "forgery"))
        return
    scores = [verdict.score_us for verdict in honest if verdict.accepted and verdict.score_us is not None]
    if len(scores) < len(honest):
        refused = next(verdict for verdict in honest if not verdict.accepted)
        yield checks.failed("ipc", f"The honest kernel was not accepted ({refused.outcome}): {refused.message}")
        yield from (checks.not_tried(name, "the honest kernel was not accepted") for name in ("spread", "forgery"))
        return
    yield CheckResult(name="ipc", ok=True, message="boxes share device memory with the referee", figures={"null": null_figures(honest)})
    yield checks.spread(scores)
    yield checks.guarded("forgery", lambda: _attacked(trials, scores, null_figures(honest)["drift_us"]), DerbyError)


def _attacked(trials: Trials, scores_us: list[float], drift_us: float) -> CheckResult:
    gains_us = gains(scores_us, trials.attacked())
    honest_us = median(scores_us)
    return checks.forgery(gains_us, honest_us, bound_of(gains_us, honest_us, drift_us))


def _versions() -> dict[str, str | None]:
    return {package: _version(package) for package in _KERNELS_IMPORT}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
