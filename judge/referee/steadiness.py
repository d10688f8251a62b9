"""How a GPU was while a block was timed, and whether such a block counts.

NVML tells clock, temperature, power and why clocks are held down, before a block's first call and after its last. Of the two clocks
the later one counts: before the first call a GPU may still be waking up. What the baseline took beside each
block tells too, where it is played.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Protocol

CLOCK_BAND = 0.05      # of the case's median clock; steps are 15 MHz, and one reading is one moment of a clock that follows the load
MOST_REPEATS = 2       # more would let a program draw its blocks until it likes them
BASELINE_SHARE = 0.01  # a baseline's block may be so far from the case's median
BASELINE_US = 1.0      # and so much more: what this clock and events differ by (benchmarks/results)
HELD_DOWN = frozenset({"hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown"})
#                        a power cap by software is no fault: kernels that use the whole chip run into it, and the clock shows by how much


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A moment of a GPU. None: NVML did not tell."""

    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    reasons: tuple[str, ...] | None = None      # why the clock is not higher


@dataclass(frozen=True, kw_only=True)
class Gauged:
    """A block's two readings."""

    before: Reading
    after: Reading

    def as_json(self) -> dict[str, Any]:
        """For the receipt."""
        return asdict(self)


class Gauge(Protocol):
    """What tells how the device is."""

    def read(self) -> Reading: ...


class NoGauge:
    """On a device that tells nothing."""

    def read(self) -> Reading:
        """Nothing."""
        return Reading()


def outside(blocks: Sequence[Gauged], baseline_us: Sequence[float] = ()) -> list[int]:
    """The places of the blocks of one case that do not count: clocks held down, or far from the case's median clock or baseline.

    `baseline_us`: what the baseline took beside each block, the median; nothing where none is played.
    """
    clocks = [block.after.sm_clock_mhz for block in blocks if block.after.sm_clock_mhz]
    usual_mhz = median(clocks) if clocks else 0
    drifted = {place for place, us in enumerate(baseline_us) if _has_drifted(us, median(baseline_us))}
    return [place for place, block in enumerate(blocks) if _is_held_down(block) or _is_off(block, usual_mhz) or place in drifted]


def numbers(wanted: int, played: Sequence[Gauged], baseline_us: Sequence[float] = ()) -> Iterator[int]:
    """The blocks of a case to play, by number: those wanted, then one for each that does not count. Both lists grow meanwhile."""
    yield from range(wanted)
    while len(played) < wanted + min(MOST_REPEATS, len(outside(played, baseline_us))):
        yield len(played)


def undisturbed(blocks_us: Sequence[float], baseline_us: Sequence[float]) -> list[float]:
    """Blocks' medians without what slowed the whole GPU: each by how the baseline beside it differs from its own median."""
    if not baseline_us:
        return list(blocks_us)
    return [us * median(baseline_us) / beside for us, beside in zip(blocks_us, baseline_us, strict=True)]


def is_repeat_suspect(void_us: Sequence[float], kept_us: Sequence[float], min_effect: float) -> bool:
    """Whether blocks that do not count were slower than those that do: then somebody gains by the repeats. Takes blocks' medians."""
    return bool(void_us and kept_us) and max(void_us) > median(kept_us) * (1 + min_effect)


def _is_held_down(block: Gauged) -> bool:
    return any(HELD_DOWN.intersection(reading.reasons or ()) for reading in (block.before, block.after))


def _is_off(block: Gauged, usual_mhz: float) -> bool:
    return block.after.sm_clock_mhz is not None and abs(block.after.sm_clock_mhz - usual_mhz) > CLOCK_BAND * usual_mhz


def _has_drifted(us: float, usual_us: float) -> bool:
    return abs(us - usual_us) > BASELINE_SHARE * usual_us + BASELINE_US
