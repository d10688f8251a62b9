"""An addition behind a spin of so many cycles of a multiprocessor's clock, and how many make it so much slower. Nothing to compile, so
that a duel's boxes are ready at once."""

import importlib.util
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

CYCLES = 200_000            # about 100 µs on Hopper; the addition itself takes about 3 µs
N = 262_144
MEASURED, AWAKE = 100, 300  # calls of each of two kernels by turns, and calls that come first: the clock is up by then
STEPS = 12                  # of a bisection between no cycle more and three times what should do
SWEEP_BYTES = 256 << 20     # read before each call, as before a judge's
_SOURCE = '''import torch

CYCLES = {cycles}


def custom_kernel(data):
    torch.cuda._sleep(CYCLES)
    torch.add(data.a, data.b, out=data.c)
'''


class Operands(NamedTuple):
    """What an entry is called with."""

    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor


class Slower(NamedTuple):
    """So many cycles, and by which share of the whole time they are slower, by device events."""

    cycles: int
    share: float
    base_us: float


def source(cycles: int) -> str:
    """The entry."""
    return _SOURCE.format(cycles=cycles)


def slower_by(share: float, within: float) -> Slower:
    """How many cycles make the whole call slower by that share. Raises RuntimeError where none is found."""
    calls = _loaded(source(CYCLES))
    data, low, high = _operands(), 0.0, 3 * share * CYCLES
    more = share * CYCLES
    calls(data, CYCLES, AWAKE)
    for _ in range(STEPS):
        base_us, slower_us = _both_us(calls, data, round(CYCLES + more))
        found = slower_us / base_us - 1
        if abs(found - share) <= within:
            return Slower(round(CYCLES + more), found, base_us)
        low, high = (more, high) if found < share else (low, more)
        more = (low + high) / 2
    raise RuntimeError(f"No spin is {share:.1%} ± {within:.2%} slower by device events: the last was {found:.2%} slower than "
                       f"{base_us:.2f} µs.")


Calls = Callable[[Operands, int, int], list[float]]      # operands, cycles, how many: µs of each


def _both_us(calls: Calls, data: Operands, cycles: int) -> tuple[float, float]:
    """The base's time and the other's, by turns; what events around nothing take is in neither."""
    taken: dict[int, list[float]] = {CYCLES: [], cycles: []}
    for _ in range(MEASURED):
        for spun, walls in taken.items():
            walls += calls(data, spun, 1)
    empty_us = _empty_us()
    return _middle(taken[CYCLES]) - empty_us, _middle(taken[cycles]) - empty_us


def _middle(walls: list[float]) -> float:
    """The mean of the middle half: finer than a median where a clock ticks coarsely."""
    quarter = len(walls) // 4
    return statistics.fmean(sorted(walls)[quarter : len(walls) - quarter])


def _empty_us() -> float:
    """What a pair of events takes around nothing."""
    return _middle([_timed(lambda: None) for _ in range(20)])


def _loaded(text: str) -> Calls:
    path = Path(tempfile.mkdtemp(), "spin.py")
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("spin", path)
    assert spec and spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    swept = torch.zeros(SWEEP_BYTES // 8, dtype=torch.int64, device="cuda")

    def calls(data: Operands, cycles: int, count: int) -> list[float]:
        module.CYCLES = cycles
        return [_timed(lambda: module.custom_kernel(data), swept) for _ in range(count)]

    return calls


def _timed(call: Callable[[], Any], swept: torch.Tensor | None = None) -> float:
    """µs of one call by device events; the GPU is busy until it is launched, so that no gap counts."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    torch.cuda._sleep(200_000)
    if swept is not None:
        swept.sum()
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1000


def _operands() -> Operands:
    a, b = (torch.randn(N, device="cuda").half() for _ in "ab")
    return Operands(a, b, torch.empty_like(a))
