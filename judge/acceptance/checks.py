"""What a runner must show before its verdicts count: each check by name, with its figures and a sentence that says what to do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.light import Ceilings
from kernelderby.judge.acceptance.calibration import beside_datasheet
from kernelderby.judge.acceptance.trials import allowed_us, spread_of
from kernelderby.judge.referee.cuda.nvml import Gpu
from kernelderby.judge.referee.steadiness import CLOCK_BAND, HELD_DOWN
from kernelderby.judge.sandbox.base import Capabilities

PARAMS = Path("/proc/driver/nvidia/params")
SPREAD = 0.005            # of the scores of an unchanged kernel
AT_LEAST = {"bytes": 0.75, "exps": 0.8, "float16": 0.6, "bfloat16": 0.6}      # of the data sheet; in products power holds the clock down
AT_LEAST_OTHERS = 0.3     # what torch reaches with them depends on its libraries more than on the GPU
AT_MOST = 1.03            # beyond that, it is another chip than its name says, or the measurement is wrong


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check."""

    name: str
    ok: bool | None           # None: not tried, since a check that it needs failed
    message: str              # what was found; what to do, when it failed
    figures: dict[str, Any] = field(default_factory=dict)


def sandbox(can: Capabilities) -> list[CheckResult]:
    """Walls, freezing, a uid of its own, limits."""
    missing = " ".join(can.missing)
    walls = can.works and not can.network and can.name != "none"
    limited = can.memory_limit.startswith("cgroup") and can.process_limit != "none"
    return [
        _check("sandbox", walls, can.name, f"{can.name} does not hold a program in. {missing}"),
        _check("freeze", can.freeze != "none", can.freeze,
               f"Boxes cannot be frozen between calls, so a program could work ahead. {missing}"),
        _check("uid", can.own_uid, "a uid of its own", f"A box runs as this process's own user. {missing}"),
        _check("limits", limited, f"memory by {can.memory_limit}, processes by {can.process_limit}",
               f"Memory is limited by {can.memory_limit}, processes by {can.process_limit}. {missing}"),
    ]


def alone(gpu: Gpu) -> CheckResult:
    """Whether nobody else holds a context on the GPU."""
    others = gpu.processes()
    return _check("alone", not others, "no other process on the GPU",
                  f"Other processes use the GPU ({', '.join(map(str, others[:8]))}): stop them, and the workers that judge on it.",
                  {"processes": others})


def counters(params: Path = PARAMS) -> CheckResult:
    """Whether performance counters are closed: through them a program could lock clocks, or watch the judge's own kernels."""
    try:
        text = params.read_text()
    except OSError:
        text = ""
    value = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line).get("RmProfilingAdminOnly")
    return _check("counters", value == "1", "closed to all but root",
                  "Any user may read the GPU's performance counters and lock its clocks: set NVreg_RestrictProfilingToAdminUsers=1 for the "
                  "module nvidia (in /etc/modprobe.d/) and load it again.", {"RmProfilingAdminOnly": value})


def no_mps(gpu: Gpu, processes: Path = Path("/proc")) -> CheckResult:
    """Whether no MPS server runs: it puts several processes into one context."""
    servers = sorted({name for name in _commands(processes) if name.startswith("nvidia-cuda-mps")})
    return _check("mps", not servers and not gpu.mps_clients(), "no MPS",
                  f"MPS runs here ({', '.join(servers) or 'clients on the GPU'}), and under it programs share a context: end it with "
                  "`echo quit | nvidia-cuda-mps-control`.")


def scrubbed(left: Mapping[str, Any], found: Mapping[str, Any]) -> CheckResult:
    """Whether memory that one process gave up came to the next without its contents."""
    return _check("memory", found["found"] == 0, f"{left['bytes'] / 2**30:.0f} GiB given up, nothing of it found by the next process",
                  f"{found['found']} of {found['of']} samples of a process's memory show to the next one: the driver does not clear it.",
                  {"bytes": found["bytes"], "found": found["found"], "of": found["of"]})


def ceilings(measured: Ceilings, device: DeviceClass) -> CheckResult:
    """Whether the GPU reaches what its data sheet says, and no more."""
    shares = {name: round(rate / sheet, 3) for name, rate, sheet in beside_datasheet(measured, device)}
    wrong = [f"{name} {share:.0%}" for name, share in shares.items() if not AT_LEAST.get(name, AT_LEAST_OTHERS) <= share <= AT_MOST]
    return _check("ceilings", not wrong, ", ".join(f"{name} {share:.0%}" for name, share in shares.items()),
                  f"Of the data sheet's rates it reaches {', '.join(wrong)}: is it throttled, shared, or another part than its name says?",
                  {"of_datasheet": shares})


def clocks(load: Mapping[str, Sequence[Mapping[str, Any]]]) -> CheckResult:
    """Whether clocks stay where they are while memory is copied, and nothing but power holds them down."""
    reasons = {reason for readings in load.values() for reading in readings for reason in reading["reasons"] or ()}
    clock = [reading["sm_clock_mhz"] for reading in load["copy"] if reading["sm_clock_mhz"]]
    usual = median(clock) if clock else 0
    off = max((abs(mhz - usual) / usual for mhz in clock), default=1.0)
    held, figures = sorted(reasons & HELD_DOWN), {"sm_clock_mhz": clock, "reasons": sorted(reasons), "farthest": round(off, 4)}
    advice = f"{', '.join(held)} held them down" if held else f"they wander by {off:.1%} under an even load" if clock else "NVML tells none"
    return _check("clocks", bool(clock) and not held and off <= CLOCK_BAND, f"{usual:.0f} MHz, at most {off:.1%} off",
                  f"The GPU's clocks are not to be relied on: {advice}. Look at its cooling and power, and at who sets clocks.", figures)


def spread(scores_us: Sequence[float]) -> CheckResult:
    """Whether separate judgings of one kernel agree."""
    found = spread_of(scores_us)
    return _check("spread", found <= SPREAD, f"{found:.2%} over {len(scores_us)} judgings of {median(scores_us):.1f} µs",
                  f"{len(scores_us)} judgings of one kernel differ by {found:.2%} (coefficient of variation), and {SPREAD:.1%} is allowed. "
                  "Does something else run on this machine?",
                  {"scores_us": [round(score, 3) for score in scores_us], "variation": round(found, 5)})


def forgery(gains_us: Mapping[str, float | None], honest_us: float, bound: Mapping[str, Any]) -> CheckResult:
    """Whether no attack of the gallery pays beyond the goal."""
    paid = [name for name, gain in gains_us.items() if gain is None or gain > allowed_us(honest_us)]
    return _check("forgery", not paid, f"{len(gains_us)} attacks, none gains more than {bound['share']:.2%} + {bound['us']:.2f} µs",
                  f"These attacks were not caught: {', '.join(paid)}. This runner's times can be forged; leave it out, and report it with "
                  "these figures.", {"gains_us": dict(gains_us), "honest_us": round(honest_us, 3), **bound})


def not_tried(name: str, reason: str) -> CheckResult:
    """For a check that cannot say anything now."""
    return CheckResult(name=name, ok=None, message=f"not tried: {reason}")


def failed(name: str, message: str) -> CheckResult:
    """For a check that could not be carried out."""
    return CheckResult(name=name, ok=False, message=message)


def guarded(name: str, check: Callable[[], CheckResult], error: type[Exception]) -> CheckResult:
    """The check's own result; a failure with the sentence of an error of that kind."""
    try:
        return check()
    except error as raised:
        return failed(name, str(raised))


def _check(name: str, ok: bool, found: str, otherwise: str, figures: Mapping[str, Any] | None = None) -> CheckResult:
    return CheckResult(name=name, ok=ok, message=found if ok else otherwise.strip(), figures=dict(figures or {}))


def _commands(processes: Path) -> list[str]:
    names = []
    for path in processes.glob("[0-9]*/comm"):
        try:
            names.append(path.read_text().strip())
        except OSError:      # it ended just now
            continue
    return names
