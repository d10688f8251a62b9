"""What the harness does differently on a GPU: where the arena lies, when a call has ended, how calls are served.

An armed call is launched before its inputs exist: `[wait for the reveal word] → the entry's work → [write the done word]`. The
box's processor is frozen from then on until the done word; nothing of the time is left to the harness, which only launches.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kernelderby.judge.box.arena import Arena
from kernelderby.judge.box.calls import Pages, Served, may_start
from kernelderby.judge.box.cuda import driver
from kernelderby.judge.box.fault import Fault, fault_of
from kernelderby.judge.box.pages import ARMED, BYTES, CALL, FAILED, OK, STATUS, STOP, Page

_POLL_S = 50e-6
_LOOK_EVERY = 1000     # polls, between two looks at the wire


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

    def open_arena(self, message: Mapping[str, Any], fds: Sequence[int], pages: Pages) -> Arena:
        """The arena of the wire's `arena`; the done page becomes one that the GPU can write."""
        arena = CudaArena(bytes.fromhex(message["handle"]), message["bytes"])
        self._reveal_word = arena.address + message["reveal"]
        self._done_word = driver.register_page(pages.done.address, BYTES) + 4 * CALL
        return arena

    def finish(self) -> None:
        """Wait for what was launched; raises what it failed with."""
        torch.cuda.synchronize()

    def serve(self, call: Callable[[], None], numbers: range, pages: Pages, is_over: Callable[[], bool], *, armed: bool) -> Served:
        """Serve the calls of these numbers, each when the go page says so. Ends at the stop word, after a fault, or when `is_over`."""
        served = Served()
        pages.done.write(STATUS, OK)
        launch, may = (self._launch_armed, may_start) if armed else (self._launch, _may_start_at_once)
        for number in numbers:
            if not may(number, pages.go, is_over):
                break
            try:
                begin, end = launch(number, call, pages)
                self._wait(number, pages, is_over)
                end.synchronize()
                served.claimed_us.append(round(begin.elapsed_time(end) * 1000, 3))
            except (Fault, driver.CudaFailed, RuntimeError) as error:
                served.fault = fault_of(error, "")
                _tell(pages, number)
                break
        return served

    def _launch_armed(self, number: int, call: Callable[[], None], pages: Pages) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        driver.wait_until(driver.LEGACY, self._reveal_word, number)
        events = self._launch(number, call, pages)
        pages.done.write(ARMED, number)
        pages.done.wake(ARMED)
        return events

    def _launch(self, number: int, call: Callable[[], None], pages: Pages) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        stream = torch.cuda.default_stream()
        begin.record(stream)
        call()
        end.record(stream)
        driver.write_word(driver.LEGACY, self._done_word, number)
        return begin, end

    def _wait(self, number: int, pages: Pages, is_over: Callable[[], bool]) -> None:
        """Until the GPU has written the done word. Raises RuntimeError when the context broke instead."""
        stream, polls = torch.cuda.default_stream(), 0
        while pages.done.read(CALL) != number:
            stream.query()
            time.sleep(_POLL_S)
            polls += 1
            if polls % _LOOK_EVERY == 0 and is_over():
                os._exit(0)      # the referee gave up on a call that does not end


def _may_start_at_once(number: int, go: Page, is_over: Callable[[], bool]) -> bool:
    """As `may_start`, without the time of a wake-up: the referee lets the box run only when a start is near."""
    looks = 0
    while go.read(CALL) < number:
        looks += 1
        if looks % _LOOK_EVERY == 0 and (go.read(STOP) or is_over()):
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
