"""What `derby calibrate` finds: the ceilings that a GPU reaches, measured in a process of its own, and the clock's own null call."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import median, quantiles
from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import DerbyError, RequestError
from kernelderby.core.light import DATASHEET, Ceilings
from kernelderby.core.settings import process_environment
from kernelderby.core.verdict import Verdict
from kernelderby.judge.acceptance.trials import CASE, Trials
from kernelderby.judge.referee.cuda.nvml import Gpu
from kernelderby.judge.sandbox.devices import one_gpu

Program = Callable[..., dict[str, Any]]      # its module, its arguments, and `gpu`; what it prints

CEILINGS = "kernelderby.judge.referee.cuda.calibrate"
_WITHIN_S = 180.0


class CalibrationFailed(DerbyError):
    """The GPU's ceilings could not be measured."""


class GpuBusy(RequestError):
    """Other processes use this GPU. Stop them and the workers that judge on it, then try again."""

    exit_status = 1


def refuse_others(gpu: Gpu) -> None:
    """Raises GpuBusy when a process holds a context on the GPU."""
    if found := gpu.processes():
        raise GpuBusy(f"{len(found)} other process{'es use' if len(found) > 1 else ' uses'} this GPU ({', '.join(map(str, found[:8]))}). "
                      "Stop them and the workers that judge on it, then try again.")


def calibrate(gpu: Gpu, device: DeviceClass, trials: Trials, program: Program | None = None) -> dict[str, Any]:
    """All figures, as they are kept; `program` runs a program of ours. Raises GpuBusy, CalibrationFailed, and what judging raises."""
    refuse_others(gpu)
    ceilings = (program or of_process)(CEILINGS, gpu=gpu.minor)
    verdict = trials.repeated(1)[0]
    if not verdict.accepted:
        raise CalibrationFailed(f"The honest kernel was not accepted ({verdict.outcome}): {verdict.message}")
    return {**_head(gpu, device), **ceilings, "null": null_figures([verdict])}


def of_process(module: str, *arguments: str, gpu: int = 0) -> dict[str, Any]:
    """The object that a program of ours prints on its last line, with that GPU. Raises CalibrationFailed with its last words."""
    command, environment = [sys.executable, "-m", module, *arguments], process_environment(one_gpu(gpu))
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        raise CalibrationFailed(f"{module} did not end within {_WITHIN_S:.0f} s.") from None
    words = done.stderr.strip().splitlines()
    if done.returncode:
        raise CalibrationFailed(f"{module} failed: {words[-1][:500] if words else f'status {done.returncode}'}")
    try:
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise CalibrationFailed(f"{module} printed no figures.") from None
    return found


def null_figures(verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Of the twin's null calls: their median wall time, their spread (middle half, as a share), and how far blocks of one judging drift.

    The drift is the clock's own bound: what is taken off a call's time is known no better.
    """
    judgings = [verdict.receipt["null_us"][CASE] for verdict in verdicts]
    walls = [wall for judging in judgings for wall in judging]
    low, middle, high = quantiles(walls, n=4)
    return {"wall_us": round(middle, 3), "spread": round((high - low) / middle, 5),
            "drift_us": round(max(_drift_us(judging) for judging in judgings), 3)}


def beside_datasheet(measured: Ceilings, device: DeviceClass) -> list[tuple[str, float, float]]:
    """Rows of what was measured and what the data sheet says: name, measured, data sheet, each in units a second."""
    sheet = DATASHEET[device.name]
    rows = [(name, rate, sheet.flops[name]) for name, rate in measured.flops.items() if name in sheet.flops]
    return [*rows, ("bytes", measured.bytes, sheet.bytes), ("exps", measured.exps, sheet.exps)]


def _head(gpu: Gpu, device: DeviceClass) -> Mapping[str, Any]:
    return {"device": device.name, "gpu": gpu.name(), "uuid": gpu.uuid(), "driver": gpu.driver_version(),
            "date": datetime.now(UTC).isoformat(timespec="seconds")}


def _drift_us(walls: Sequence[float]) -> float:
    """Between the medians of the calls before a case's blocks and of those after them, which are as many."""
    half = len(walls) // 2
    return abs(median(walls[:half]) - median(walls[half:]))
