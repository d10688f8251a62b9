"""A box at play on a GPU. A call is armed where it can be, its start told by the preparation's own start word, its end by the done word.

A call's time is between two stamps of this process's clock. The box's processor is frozen all the while, unless the case is played
unarmed, or the call takes so long that it may have crashed.
"""

import ctypes
import gc
import math
import secrets
import time
from collections.abc import Collection
from typing import Any

import torch

from kernelderby.core.errors import DerbyError
from kernelderby.core.verdict import Gate, Outcome
from kernelderby.judge.box.cuda import driver
from kernelderby.judge.box.pages import ARMED, AWAKE, CALL, FAILED, NEAR, STATUS
from kernelderby.judge.referee.boxes import OVERDUE_S, SLICE_S, LentBox
from kernelderby.judge.referee.clock import Bound, Data, Rig
from kernelderby.judge.referee.cuda.arena import CudaArena
from kernelderby.judge.referee.findings import NotArmable, ended

ARMED_WITHIN_S = 0.5        # an entry that does not return by then waits for the GPU
FROZEN_AT_MOST_S = 0.25     # then the box may run: a kernel that crashed can be told by its own process alone
WATCHED_SHARE = 4           # one call in so many is looked at while it runs
LOOK_US = 6.0               # about what a look takes
FIRST_LOOKS = 16
_LET_ALL_PASS = 2**31 - 1    # no look is left waiting for a start that never comes
BAND = 1.05                 # a preparation may take so many times what it takes undisturbed
BAND_US = 40.0              # and so much more: far less than a switch to another context and back


class CudaRig(Rig):
    """A box with its arena in device memory. `is_armed` tells how the present case is played."""

    arena: CudaArena      # type: ignore[assignment]

    def __init__(self, box: LentBox, arena_bytes: int) -> None:
        self._start_page = torch.zeros(8, dtype=torch.int64).pin_memory()      # ours alone
        self._start = ctypes.c_uint32.from_address(self._start_page.data_ptr())
        self._began, self._started = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._usual_us, self._is_watched = 0.0, True
        super().__init__(box, arena_bytes)

    def bind(self, bound: Bound, data: Data, scalars: dict[str, int | float], order: Collection[str], limit_s: float,
             **options: Any) -> None:
        """As on a CPU, and then a rehearsal on the same data. Raises NotArmable for an entry that waits for the GPU while it launches."""
        self.is_armed, self._usual_us = bool(options.pop("armed", True)), 0.0
        self._is_watched = not options.get("null")       # a call that writes nothing shows poison to the end
        self.prepared_us, self.quiet_us = [], math.inf
        super().bind(bound, data, scalars, order, limit_s, **options)
        self.arm(1)
        self.rehearsal_us = self.call(data)
        self.stop()
        self.prepared_us = []

    def _played(self, wanted: int, data: Data, names: tuple[str, ...]) -> float:
        self.arena.settle(data, names)
        self.arena.make_ready(names)
        gc.disable()      # a collection would fall into the time of a call
        try:
            return self._armed(wanted, names) if self.is_armed else self._unarmed(wanted, names)
        finally:
            gc.enable()

    def close(self) -> None:
        """Give the box back, then free what it shared, and what checks and inputs took: other referees need it."""
        self._start.value = _LET_ALL_PASS
        super().close()
        torch.cuda.empty_cache()

    def _share(self) -> None:
        fds = (self._pages.go_fd, self._pages.done_fd)
        self.box.ask("arena", OVERDUE_S, fds, bytes=self.arena.bytes, handle=self.arena.handle.hex(), reveal=self.arena.reveal_offset)

    def _new_arena(self, size: int) -> Any:
        return CudaArena(size)

    def _armed(self, wanted: int, names: tuple[str, ...]) -> float:
        if not self._is_launched(wanted):
            driver.write_word(driver.LEGACY, self.arena.reveal_word, wanted)      # so that nothing is left waiting on the GPU
            raise NotArmable
        self._refuse_early()
        looks = self._watched(wanted)
        self._prepare(wanted, names)
        driver.write_word(driver.LEGACY, self.arena.reveal_word, wanted)
        self._await_start(wanted)
        return self._ended(wanted, time.perf_counter_ns(), looks)

    def _unarmed(self, wanted: int, names: tuple[str, ...]) -> float:
        """The box is awake before the GPU prepares, so that a call's time holds no wake-up; the band tells what it does meanwhile."""
        self._wake_up(wanted)
        looks = self._watched(wanted)
        self._prepare(wanted, names)
        self._await_start(wanted)
        self._refuse_early()
        started = time.perf_counter_ns()
        self._pages.go.write(CALL, wanted)
        return self._ended(wanted, started, looks)

    def _refuse_early(self) -> None:
        """Whether the done word still is the last call's. Raises Ended."""
        if self._pages.done.read(CALL) != self._last and self._pages.done.read(STATUS) != FAILED:
            raise ended(Outcome.REFUSED, "The done word was written before the call began.", Gate.HONEST_TIME)

    def _wake_up(self, wanted: int) -> None:
        """Let the box run until it says that it waits for this call. It answers a word that was written while it was frozen."""
        self._pages.go.write(NEAR, wanted)
        started = time.perf_counter_ns()
        look_ns = started + int(SLICE_S * 1e9)
        self.box.thaw()
        while self._pages.done.read(AWAKE) != wanted:
            now = time.perf_counter_ns()
            if now > look_ns:
                self.box.look()
                look_ns = now + int(SLICE_S * 1e9)
                if (now - started) / 1e9 > self._left_s:
                    raise ended(Outcome.TIMEOUT, "The program took longer than the problem's time limit.")
        self._spend((time.perf_counter_ns() - started) / 1e9)

    def _is_launched(self, wanted: int) -> bool:
        """Let the box launch the call; whether it came back from that. It is frozen afterwards."""
        self._pages.go.write(CALL, wanted)
        self.box.thaw()
        self._pages.go.wake(CALL)
        started = time.monotonic()
        while self._pages.done.wait(ARMED, self._last, SLICE_S) != wanted:
            self.box.look()
            if time.monotonic() - started > ARMED_WITHIN_S:
                return False
        self.box.freeze()
        self._spend(time.monotonic() - started)
        return True

    def _prepare(self, wanted: int, names: tuple[str, ...]) -> None:
        self.arena.prepare(names, self._began)
        driver.write_word(driver.LEGACY, self._start_page.data_ptr(), wanted)
        self._started.record()

    def _await_start(self, wanted: int) -> None:
        deadline = time.monotonic() + OVERDUE_S
        while self._start.value != wanted:
            if time.monotonic() > deadline:
                raise DerbyError("The GPU did not get to a preparation of ours.")

    def _ended(self, wanted: int, started: int, looks: int) -> float:
        """µs from the start's stamp until the done word, or until the last look that still saw poison."""
        wall_us = self._until_done(wanted, started)
        if looks:
            wall_us = max(wall_us, self.arena.last_poison_us(self._started))
        self._usual_us = wall_us
        self._note_preparation()
        return wall_us

    def _until_done(self, wanted: int, started: int) -> float:
        """µs from a stamp until the done word; then the looks that need the moment."""
        self._await(wanted, started)
        wall_us = (time.perf_counter_ns() - started) / 1e3
        self.arena.probe()
        return wall_us

    def _await(self, wanted: int, started_ns: int) -> None:
        """Spins: a wake-up takes longer than what is measured here."""
        done, look_ns, thaw_ns = self._pages.done, started_ns + int(SLICE_S * 1e9), started_ns + int(FROZEN_AT_MOST_S * 1e9)
        while (word := done.read(CALL)) != wanted:
            if word != self._last:
                raise ended(Outcome.REFUSED, "The done word was forged: it named a call that was never started.", Gate.HONEST_TIME)
            now = time.perf_counter_ns()
            if now > look_ns:
                self.box.look()
                look_ns = now + int(SLICE_S * 1e9)
                if now > thaw_ns:
                    self.box.thaw()
                if (now - started_ns) / 1e9 > self._left_s:
                    raise ended(Outcome.TIMEOUT, "The program took longer than the problem's time limit.")

    def _watched(self, wanted: int) -> int:
        """How many looks wait for the call's start: a secret share of the calls is looked at while it runs."""
        if not self._is_watched or secrets.randbelow(WATCHED_SHARE):
            return 0
        looks = FIRST_LOOKS if not self._usual_us else int(1.2 * self._usual_us / LOOK_US) + 1
        self.arena.watch(self._start_page.data_ptr(), wanted, looks)
        return looks

    def _note_preparation(self) -> None:
        """Whether the GPU did nothing but our preparation while it went on: if it did, the call's time is void."""
        self._started.synchronize()
        took_us = self._began.elapsed_time(self._started) * 1000
        self.prepared_us.append(took_us)
        self.is_void = took_us > BAND * min(self.quiet_us, *self.prepared_us) + BAND_US
