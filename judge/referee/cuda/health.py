"""A GPU between two boxes: no process of an ended box is listed, its memory is free again, bandwidth and clock are as ever.

Takes about 5 ms when all is well. What is not is looked at again for some seconds: a driver frees memory late, a clock comes back.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from cuda.bindings import runtime

from kernelderby.judge.referee.cuda.machine import this_gpu
from kernelderby.judge.referee.cuda.nvml import NvmlUnavailable

LOST_BYTES = 1 << 30        # of memory that is neither free nor any process's: the driver's own share varies
SHORT = 0.10                # bandwidth and clock may lie so far below the best that was seen here
AGAIN_S = 0.5
WITHIN_S = 5.0
_READ_BYTES = 256 << 20     # more than any L2 cache holds
_READS, _SAMPLES = 6, 4     # about 0.4 ms a sample on Hopper
_CYCLES = 500_000           # about 0.3 ms
_DO = "Look at `nvidia-smi` and the kernel's log, restart the machine if it stays, then start the worker again."


@dataclass(frozen=True, kw_only=True)
class Figures:
    """A short test, the best of some samples."""

    read_gb_s: float      # of device memory
    clock_mhz: float      # of the multiprocessors, by their own counter

    def best_with(self, other: "Figures") -> "Figures":
        """Each figure's better one."""
        return Figures(read_gb_s=max(self.read_gb_s, other.read_gb_s), clock_mhz=max(self.clock_mhz, other.clock_mhz))


class GpuHealth:
    """Of the GPU on which this process has its context."""

    def __init__(self, listed: Callable[[], Collection[int]] | None = None, measure: Callable[[], Figures] | None = None,
                 known: Callable[[], int | None] | None = None, within_s: float = WITHIN_S, again_s: float = AGAIN_S) -> None:
        """`listed`: the processes on the GPU; `measure`: its figures; `known`: its bytes that are free or some process's."""
        self._listed = listed or _listed
        self._measure = measure or figures
        self._known = known or known_bytes
        self._within_s, self._again_s = within_s, again_s
        self._best: Figures | None = None
        self._before: int | None = None

    def note(self) -> None:
        """Remember how much memory is accounted for; the first time, how fast the GPU is when no entry has played yet."""
        self._best = self._best or self._measure()
        self._before = self._known()

    def fault(self, ended: Collection[int]) -> str | None:
        """What is not as it was, after looking again for a while."""
        give_up = time.monotonic() + self._within_s
        while (found := next(self._faults(ended), None)) and time.monotonic() < give_up:
            self._keep_busy()
        return found

    def _lost(self) -> int:
        known = self._known()
        return 0 if known is None or self._before is None else self._before - known

    def _keep_busy(self) -> None:
        """An idle GPU's clock comes back under load alone."""
        until = time.monotonic() + self._again_s
        while time.monotonic() < until:
            self._measure()

    def _faults(self, ended: Collection[int]) -> Iterator[str]:
        listed = self._listed()
        if left := sorted(set(ended).intersection(listed)) if os.getpid() in listed else []:      # else numbered in another namespace
            yield f"Processes of a box that was ended still hold the GPU: {', '.join(map(str, left))}. {_DO}"
        if (lost := self._lost()) > LOST_BYTES:
            yield f"{lost >> 20:,} MiB of GPU memory did not come back after a box was ended: no process holds them. {_DO}"
        now = self._measure()
        best = self._best = now.best_with(self._best or now)
        if now.read_gb_s < best.read_gb_s * (1 - SHORT):
            yield f"The GPU's memory is slower than it was: {now.read_gb_s:,.0f} GB/s where {best.read_gb_s:,.0f} were seen. {_DO}"
        if now.clock_mhz < best.clock_mhz * (1 - SHORT):
            yield f"The GPU's clock is lower than it was: {now.clock_mhz:,.0f} MHz where {best.clock_mhz:,.0f} were seen. {_DO}"


def figures() -> Figures:
    """Measure now. Lines that a box told the L2 cache to keep are let go first, as far as another context may say so."""
    runtime.cudaCtxResetPersistingL2Cache()
    data = torch.zeros(_READ_BYTES // 8, dtype=torch.int64, device="cuda")
    total = torch.zeros((), dtype=torch.int64, device="cuda")

    def read() -> None:
        for _ in range(_READS):
            torch.sum(data, dim=0, out=total)

    return Figures(read_gb_s=_READS * _READ_BYTES / 1e9 / _best_s(read), clock_mhz=_CYCLES / 1e6 / _best_s(_spin))


def known_bytes() -> int | None:
    """Bytes of device memory that are free, or that a listed process holds; None where NVML does not tell."""
    try:
        gpu = this_gpu()
        held = gpu.held_bytes()
        return None if held is None else gpu.free_bytes() + held
    except NvmlUnavailable:
        return None


def free_level() -> int:
    """Bytes of device memory that are free, or that torch keeps in this process."""
    torch.cuda.synchronize()
    free, _ = torch.cuda.mem_get_info()
    return int(free) + int(torch.cuda.memory_reserved())


def _best_s(work: Callable[[], None]) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    found = []
    for _ in range(_SAMPLES):
        begin.record()
        work()
        end.record()
        end.synchronize()
        found.append(float(begin.elapsed_time(end)) / 1e3)
    return min(found)


def _spin() -> None:
    sleep: Any = torch.cuda._sleep      # spins for so many cycles of the multiprocessor's own counter
    sleep(_CYCLES)


def _listed() -> Collection[int]:
    try:
        return this_gpu().processes()
    except NvmlUnavailable:
        return ()
