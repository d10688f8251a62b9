"""Numbers as people read them: units, intervals, a real minus, a space before units."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

NBSP = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One unit for all times of a column, so that they compare at a glance."""

    name: str
    us: float          # µs in one
    decimals: int

    def number(self, time_us: float) -> str:
        """The bare number."""
        return f"{time_us / self.us:,.{self.decimals}f}"

    def time(self, time_us: float | None) -> str:
        """Number and unit; empty for None."""
        return "" if time_us is None else f"{self.number(time_us)}{NBSP}{self.name}"

    def interval(self, ci_us: tuple[float, float] | None) -> str:
        """`319.0–320.3`; empty for None."""
        return "" if ci_us is None else f"{self.number(ci_us[0])}–{self.number(ci_us[1])}"


MICROSECONDS = Unit(name="µs", us=1, decimals=1)
MILLISECONDS = Unit(name="ms", us=1e3, decimals=2)
SECONDS = Unit(name="s", us=1e6, decimals=2)


def unit_for(times_us: Iterable[float | None]) -> Unit:
    """The unit that suits the smallest of these times."""
    smallest = min((t for t in times_us if t), default=0.0)
    if smallest < 2_000:
        return MICROSECONDS
    return MILLISECONDS if smallest < 2_000_000 else SECONDS


def time(time_us: float | None) -> str:
    """A time alone, in the unit that suits it."""
    return unit_for([time_us]).time(time_us)


def short(value: float) -> str:
    """A number on a chart."""
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def percent(share: float | None) -> str:
    """`70 %`; empty for None."""
    return "" if share is None else f"{share * 100:.0f}{NBSP}%"


def times(factor: float | None) -> str:
    """`1.38×`, with two figures where that is next to nothing; empty for None."""
    if factor is None:
        return ""
    decimals = 2 if factor >= 0.1 or factor <= 0 else min(1 - math.floor(math.log10(factor)), 9)
    return f"{factor:,.{decimals}f}×"


def rank(interval: tuple[int, int] | None) -> str:
    """`4–5`, or `4` where the clock leaves one place; empty for None."""
    if interval is None:
        return ""
    first, last = interval
    return str(first) if first == last else f"{first}–{last}"


def error(value: float | None) -> str:
    """An error with three figures that tell something; empty for None."""
    if not value:
        return "" if value is None else "0"
    return f"{value:.4f}" if 0.001 <= value < 1000 else f"{value:.2e}".replace("e-", "e−")


def size(count: int | None) -> str:
    """Bytes as `96 KiB`; empty for None."""
    if count is None:
        return ""
    return f"{count}{NBSP}B" if count < 1024 else f"{count / 1024:,.4g}{NBSP}KiB"


def seconds(value: float) -> str:
    """A stage's time."""
    return f"{value * 1000:.0f}{NBSP}ms" if value < 1 else f"{value:.1f}{NBSP}s"


def iso(at: datetime) -> str:
    """For `datetime=`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(at: datetime) -> str:
    """`25 Nov 14:32`, in UTC; a script turns it into the reader's zone."""
    at = at.astimezone(UTC)
    return f"{at.day} {at:%b %H:%M}"


def clock(at: datetime) -> str:
    """`16:38:52`."""
    return f"{at.astimezone(UTC):%H:%M:%S}"


def age(at: datetime) -> str:
    """How long ago, in one unit."""
    minutes = (datetime.now(UTC) - at).total_seconds() / 60
    if minutes < 60:
        return f"{max(0, minutes):.0f}{NBSP}min"
    return f"{minutes / 60:.0f}{NBSP}h" if minutes < 48 * 60 else f"{minutes / 1440:.0f}{NBSP}d"


def until(at: datetime) -> str:
    """How long until a time: `3 h 20 min`; nothing is left of one that is past."""
    minutes = max(0, int((at - datetime.now(UTC)).total_seconds() // 60))
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min" if hours else f"{minutes} min"


FILTERS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (time, percent, times, rank, error, size, seconds, iso, moment, clock, age, until)}
