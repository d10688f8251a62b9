"""Geometry of charts: per cent across, px down. Templates write the SVG."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kernelderby.leaderboard_web.present.numbers import short, unit_for

_STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 10)      # ends and labels of a logarithmic scale fall on these
_NARROW_PX = 300                                          # a label must fit where the page is narrowest
_CHAR_PX = 7.3                                            # of 12 px monospace
_MANY = 30           # from such a ratio of its ends on, a scale is labelled at powers of ten alone
_SPREAD = 3          # times that differ more are drawn on a logarithmic scale
_ROWS_Y = (16, 34, 52)


@dataclass(frozen=True, kw_only=True)
class Tick:
    """A graduation; labelled ones are longer."""

    x: float
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A labelled time on a ruler."""

    x: float
    y: int              # of the label's base line
    text: str
    opens_left: bool
    own: bool


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A line from `low` to `high`."""

    low: float
    high: float
    is_log: bool

    def x(self, value: float) -> float:
        """Where `value` lies, in per cent; at an end where it lies beyond."""
        share = _x(value, self.low, self.high) if self.is_log else 100 * (value - self.low) / (self.high - self.low)
        return min(100.0, max(0.0, share))

    def at(self, x: float) -> float:
        """What lies at `x` per cent."""
        return self.low * (self.high / self.low) ** (x / 100) if self.is_log else self.low + (self.high - self.low) * x / 100


@dataclass(frozen=True, kw_only=True)
class Ruler:
    """A logarithmic scale of times."""

    low: float
    high: float
    ticks: list[Tick]
    field: list[float]
    marks: list[Mark]
    label: str          # what it shows, as a sentence


def ruler(named_us: Sequence[tuple[str, float]], field_us: Sequence[float]) -> Ruler | None:
    """A ruler with the times `named` (names with `you` are the reader's) and short ticks for the `field`. None without times."""
    times_us = [*(time for _, time in named_us), *field_us]
    if not times_us:
        return None
    unit = unit_for(times_us)
    low, high = _ends(min(times_us) / unit.us, max(times_us) / unit.us)
    placed = sorted(((name, time / unit.us) for name, time in named_us), key=lambda n: n[1])
    words = ", ".join(f"{name} {short(value)}" for name, value in placed)
    return Ruler(low=low, high=high, ticks=_ticks(low, high, unit.name), field=[_x(time / unit.us, low, high) for time in field_us],
                 marks=_marks(placed, low, high), label=f"On a logarithmic ruler from {low:,g} to {high:,g} {unit.name}: {words}")


def whisker(rank: tuple[int, int], count: int) -> tuple[float, float]:
    """Where a rank interval begins and ends on a line from 1 to `count`, in per cent."""
    span = max(count - 1, 1)
    return 100 * (rank[0] - 1) / span, 100 * (rank[1] - 1) / span


def scale_of(times: Sequence[float]) -> Scale:
    """A scale that holds all of `times` with a little room, logarithmic where they spread far."""
    low, high = min(times), max(times)
    if high > _SPREAD * low:
        room = (high / low) ** 0.04
        return Scale(low=low / room, high=high * room, is_log=True)
    room = (high - low or high * 0.01) * 0.06
    return Scale(low=low - room, high=high + room, is_log=False)


def dots(times: Sequence[float], scale: Scale, bins: int = 36, most: int = 11) -> list[tuple[float, int]]:
    """One dot a call as (x in per cent, y in px from the top), stacked on the axis; tall stacks are squeezed."""
    places = [min(int(scale.x(time) * bins / 100), bins - 1) for time in times]
    tallest = max(Counter(places).values())
    step = 10 if tallest <= most else 10 * most / tallest
    heights: Counter[int] = Counter()
    found = []
    for place in places:
        found.append((100 * (place + 0.5) / bins, round(108 - step * heights[place])))
        heights[place] += 1
    return found


def _x(value: float, low: float, high: float) -> float:
    return 100 * math.log(value / low) / math.log(high / low)


def _ends(least: float, most: float) -> tuple[float, float]:
    return _step(least * 0.93, down=True), _step(most * 1.07, down=False)


def _step(value: float, *, down: bool) -> float:
    decade = 10.0 ** math.floor(math.log10(value))
    steps = [s * decade for s in _STEPS]
    return max(s for s in steps if s <= value * (1 + 1e-9)) if down else min(s for s in steps if s >= value * (1 - 1e-9))


def _ticks(low: float, high: float, unit: str) -> list[Tick]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (*_STEPS, 9) if high < _MANY * low else range(1, 10)
    values = sorted({step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high} | {low, high})
    ticks: list[Tick] = []
    free_from = -1.0
    for value in values:
        x = _x(value, low, high)
        text = f"{value:,.10g}" if value < high else f"{value:,.10g} {unit}"
        width = 100 * len(text) * _CHAR_PX / _NARROW_PX
        room_at_end = value == high or x + width / 2 < 100 - 100 * (len(f"{high:,.10g} {unit}") + 1) * _CHAR_PX / _NARROW_PX
        is_even = high < _MANY * low or math.log10(value) == round(math.log10(value))
        labelled = value in (low, high) or (is_even and x - width / 2 >= free_from and room_at_end)
        free_from = x + width / 2 + 3 if labelled else free_from
        ticks.append(Tick(x=x, label=text if labelled else ""))
    return ticks


def _marks(placed: list[tuple[str, float]], low: float, high: float) -> list[Mark]:
    """Labels step down to the right, so that no line crosses the label of another; those near the right end open to the left."""
    marks = []
    for row, (name, value) in enumerate(placed):
        x, text = _x(value, low, high), f"{name} {short(value)}"
        width = 100 * (len(text) * _CHAR_PX + 8) / _NARROW_PX
        opens_left = x + width > 100 or (row == 0 and len(placed) > 1 and x > width)
        marks.append(Mark(x=x, y=_ROWS_Y[min(row, len(_ROWS_Y) - 1)], text=text, opens_left=opens_left, own=name.startswith("you")))
    return marks
