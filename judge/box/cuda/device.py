"""What the harness does differently on a GPU: where the arena lies, when a call has ended, how calls are served.

An armed call is launched before its inputs exist: `[wait for the reveal word] → the entry's work → [write the done word]`. The
box's processor is frozen from then on until the done word; nothing of the time is left to the harness, which only launches.

An unarmed call is launched when the go page says so. All that a call can do without is done before or after it, and the harness
says first that it is awake: else a call's time would hold what the box needs to come round.
"""

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kernelderby.judge.box.arena import Arena
from kernelderby.judge.box.calls import Pages, Served, may_start
from kernelderby.judge.box.cuda import driver
from kernelderby.judge.box.cuda.serving import captured
from kernelderby.judge.box.fault import Fault, fault_of
from kernelderby.judge.box.pages import ARMED, AWAKE, BYTES, CALL, FAILED, NEAR, OK, STATUS, STOP

_POLL_S = 50e-6
_LOOK_EVERY = 1000       # polls that sleep, between two looks at the wire
_LOOK_EVERY_SPIN = 20_000      # polls that do not: some milliseconds; a look takes as long as a short kernel

Events = tuple[torch.cuda.Event, torch.cuda.Event]


class CudaArena(Arena):
    """The referee's device memory, opened by its handle."""

    def __init__(self, handle: bytes, size_bytes: int) -> None:
        self.address = driver.open_handle(handle)
        self._bytes = driver.tensor_at(self.address, size_bytes)

    def _region(self, dtype: torch.dtype, count: int, offset: int) -> torch.Tensor:
        return self._bytes[offset : offset + count * dtype.itemsize].view(dtype)

    def _nowhere(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype, device="cuda")


class Cuda:
    """The GPU that the sandbox shows."""

    def __init__(self) -> None:
        """Opens the context and warms Triton's compiler, so that a contestant waits for neither."""
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        _warm_triton()
        self._stream = torch.cuda.default_stream()
        self._events = _events()

    def open_arena(self, message: Mapping[str, Any], fds: Sequence[int], pages: Pages) -> Arena:
        """The arena of the wire's `arena`; the done page becomes one that the GPU can write."""
        arena = CudaArena(bytes.fromhex(message["handle"]), message["bytes"])
        self._reveal_word = arena.address + message["reveal"]
        self._done_word = driver.register_page(pages.done.address, BYTES) + 4 * CALL
        return arena

    def finish(self) -> None:
        """Wait for what was launched; raises what it failed with."""
        torch.cuda.synchronize()

    def captured(self, call: Callable[[], None]) -> Callable[[], None]:
        """A call that has run before, as the replay of one capture of it. Raises Fault."""
        return captured(call)

    def serve(self, call: Callable[[], None], numbers: range, pages: Pages, is_over: Callable[[], bool], *, armed: bool) -> Served:
        """Serve the calls of these numbers, each when the go page says so. Ends at the stop word, after a fault, or when `is_over`."""
        served, events = Served(), self._events
        pages.done.write(STATUS, OK)
        launch, may = (self._launch_armed, _may_start_armed) if armed else (self._launch, _may_start_at_once)
        gc.disable()      # a collection would fall into the time of a call
        for number in numbers:
            if not may(number, pages, is_over):
                break
            try:
                launch(number, call, pages, events)
                self._wait(number, pages, is_over)
                events[1].synchronize()
                served.claimed_us.append(round(events[0].elapsed_time(events[1]) * 1000, 3))
            except (Fault, driver.CudaFailed, RuntimeError) as error:
                served.fault = fault_of(error, "")
                _tell(pages, number)
                break
        gc.enable()
        return served

    def _launch_armed(self, number: int, call: Callable[[], None], pages: Pages, events: Events) -> None:
        driver.wait_until(driver.LEGACY, self._reveal_word, number)
        self._launch(number, call, pages, events)
        pages.done.write(ARMED, number)
        pages.done.wake(ARMED)

    def _launch(self, number: int, call: Callable[[], None], pages: Pages, events: Events) -> None:
        events[0].record(self._stream)
        call()
        events[1].record(self._stream)
        driver.write_word(driver.LEGACY, self._done_word, number)

    def _wait(self, number: int, pages: Pages, is_over: Callable[[], bool]) -> None:
        """Until the GPU has written the done word. Raises RuntimeError when the context broke instead."""
        stream, polls = torch.cuda.default_stream(), 0
        while pages.done.read(CALL) != number:
            stream.query()
            time.sleep(_POLL_S)
            polls += 1
            if polls % _LOOK_EVERY == 0 and is_over():
                os._exit(0)      # the referee gave up on a call that does not end


def _events() -> Events:
    """A pair for all calls, used once already: the first record of an event creates it."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    end.record()
    end.synchronize()
    return begin, end


def _may_start_armed(number: int, pages: Pages, is_over: Callable[[], bool]) -> bool:
    return may_start(number, pages.go, is_over)


def _may_start_at_once(number: int, pages: Pages, is_over: Callable[[], bool]) -> bool:
    """As `may_start`, without the time of a wake-up. Says that it is awake once it is asked; then it looks at one word alone."""
    go, spins, is_asked = pages.go, 0, False
    while go.read(CALL) < number:
        if not is_asked and go.read(NEAR) == number:
            is_asked = True
            pages.done.write(AWAKE, number)
        spins += 1
        if (not is_asked and go.read(STOP)) or (spins % _LOOK_EVERY_SPIN == 0 and (go.read(STOP) or is_over())):
            return False
    return True


def _tell(pages: Pages, number: int) -> None:
    """Say that the call failed, where the GPU can no longer say anything."""
    pages.done.write(STATUS, FAILED)
    pages.done.write(CALL, number)
    pages.done.write(ARMED, number)
    pages.done.wake(CALL)
    pages.done.wake(ARMED)


def _warm_triton() -> None:
    """Compile one kernel: loads the compiler, builds Triton's launcher into the box's own cache."""
    try:
        from kernelderby.judge.box.cuda.warm import touch
    except ImportError:      # no Triton here
        return
    touch()
