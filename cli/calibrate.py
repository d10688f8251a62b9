"""`derby calibrate`: an organizer's command, on the machine that has the GPU."""

from collections.abc import Mapping
from typing import Any

from kernelderby.cli.options import AsJson, Device
from kernelderby.cli.output import print_json, say, table
from kernelderby.core import devices
from kernelderby.core.errors import RequestError
from kernelderby.core.settings import Settings

_UNITS = {"bytes": "memory, TB/s", "exps": "exponentials, T/s"}


def calibrate(device: Device = None, as_json: AsJson = False) -> None:
    """Measure what this GPU reaches at best, while nothing else uses it: verdicts then show the share of that as well."""
    refuse_cpu(device)
    from kernelderby.judge.acceptance.calibration import calibrate as measure
    from kernelderby.judge.acceptance.certificate import calibration_file, write
    from kernelderby.judge.acceptance.here import class_of, this_gpu
    from kernelderby.judge.acceptance.trials import Trials
    from kernelderby.judge.judging import open_judge

    settings = Settings.from_env()
    gpu = this_gpu(settings)
    chosen = class_of(gpu, device)
    say("Measuring, which takes about half a minute …")
    with open_judge(settings, settings.sandbox) as judge:
        found = measure(gpu, chosen, Trials(judge, chosen, say))
    write(calibration_file(settings, found["uuid"]), found)
    if as_json:
        print_json(found)
    else:
        print("\n".join(lines(found, str(calibration_file(settings, found["uuid"])))))


def refuse_cpu(device: str | None) -> None:
    """Raises RequestError for the class cpu, and NotFound for one that is not known."""
    if device is not None and devices.device(device).arch is None:
        raise RequestError("The class cpu is for practice: it has no ceilings and no certificate. Name a GPU class, such as h200.")


def lines(found: Mapping[str, Any], path: str) -> list[str]:
    """A calibration for a person: ceilings beside the data sheet, then the clock. `path` is where it is kept."""
    from kernelderby.core.light import Ceilings
    from kernelderby.judge.acceptance.calibration import beside_datasheet

    rows = beside_datasheet(Ceilings(**found["measured"]), devices.device(found["device"]))
    cells = [(_UNITS.get(name, f"{name} products, TFLOP/s"), f"{rate / 1e12:,.2f}", f"{sheet / 1e12:,.2f}", f"{rate / sheet:.0%}")
             for name, rate, sheet in rows]
    null = found["null"]
    return [f"{found['gpu']}, driver {found['driver']}:", *table(("ceiling", "measured", "data sheet", "share"), cells),
            f"  Memory: {', '.join(f'{name} {rate / 1e12:.2f} TB/s' for name, rate in found['memory'].items())}.",
            f"  A null call takes {null['wall_us']:.1f} µs, spread {null['spread']:.2%}; the clock is sure to {null['drift_us']:.2f} µs.",
            f"Kept in {path}. A worker that runs now must be started again to use it."]
