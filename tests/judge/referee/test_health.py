"""Between two boxes: what is not as it was is told in a sentence, and what comes back in time is no fault."""

import os
from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

from kernelderby.judge.referee.cuda.health import Figures, GpuHealth

US, BOX, OTHER = os.getpid(), 70_001, 70_002
GIB = 1 << 30
FAST = Figures(read_gb_s=4000.0, clock_mhz=1980.0)


def in_turn(*values: object) -> Callable[[], object]:
    """One after the other, the last for ever."""
    left: Iterator[object] = chain(values, repeat(values[-1]))
    return lambda: next(left)


def fault(listed: object = (US,), measured: tuple[Figures, ...] = (FAST,), known: tuple[int | None, ...] = (100 * GIB,)) -> str | None:
    health = GpuHealth(in_turn(listed), in_turn(*measured), in_turn(*known), within_s=0.01, again_s=0.01)   # type: ignore[arg-type]
    health.note()
    return health.fault({BOX})


FAULTS = {
    "a process of the box": ({"listed": (US, BOX)}, f"still hold the GPU: {BOX}"),
    "its memory": ({"known": (100 * GIB, 97 * GIB)}, "3,072 MiB of GPU memory did not come back"),
    "slow memory": ({"measured": (FAST, Figures(read_gb_s=3000.0, clock_mhz=1980.0))}, "3,000 GB/s where 4,000 were seen"),
    "a low clock": ({"measured": (FAST, Figures(read_gb_s=4000.0, clock_mhz=1200.0))}, "1,200 MHz where 1,980 were seen"),
}
SOUND = {
    "all as it was": {},
    "others are listed": {"listed": (US, OTHER)},
    "another numbering of processes": {"listed": (BOX, OTHER)},
    "the driver's own share has grown": {"known": (100 * GIB, 99 * GIB)},
    "a driver that does not tell": {"known": (None,)},
    "a driver that tells no more": {"known": (100 * GIB, None)},
    "a little slower": {"measured": (FAST, Figures(read_gb_s=3800.0, clock_mhz=1900.0))},
    "faster than at first": {"measured": (Figures(read_gb_s=1000.0, clock_mhz=345.0), FAST)},
    "memory that comes back late": {"known": (100 * GIB, 50 * GIB, 100 * GIB)},
}


@pytest.mark.parametrize("what", FAULTS)
def test_what_is_not_as_it_was_is_told(what: str) -> None:
    seen, said = FAULTS[what]

    found = fault(**seen)      # type: ignore[arg-type]

    assert found is not None and said in found and found.endswith("start the worker again.")


@pytest.mark.parametrize("what", SOUND)
def test_what_is_usual_is_no_fault(what: str) -> None:
    assert fault(**SOUND[what]) is None      # type: ignore[arg-type]
