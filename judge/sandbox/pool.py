"""Boxes started ahead: each has imported its libraries, holds nobody's code, serves one submission and is ended."""

import logging
import select
import time
from contextlib import ExitStack
from typing import Protocol

from kernelderby.core.errors import SandboxUnavailable
from kernelderby.judge.box.wire import Breach, Channel, Closed, Late
from kernelderby.judge.sandbox.base import Box
from kernelderby.judge.sandbox.process import last_words

log = logging.getLogger(__name__)

_READY_WITHIN_S = 120.0      # importing torch from a cold disk


class Starts(Protocol):
    """What the pool needs of a sandbox."""

    def start(self, device: str) -> Box: ...


class Boxes(Protocol):
    """Where a run's boxes come from."""

    def take(self) -> Box: ...


class Pool:
    """Warm boxes for one device. For one thread, which must outlive the pool: a box dies with the thread that started it.

    Whoever takes a box ends it.
    """

    def __init__(self, sandbox: Starts, device: str, size: int) -> None:
        self._sandbox = sandbox
        self._device = device
        self._size = size
        self._waiting: list[Box] = []      # oldest first

    def take(self) -> Box:
        """A box that is ready, at once when one is warm. Raises SandboxUnavailable with what a fresh box said when it failed.

        One that died while it waited, as when memory was short, is passed over: only a fresh one shows that none can be had.
        """
        while True:
            if is_fresh := not self._waiting:
                self._waiting.append(self._sandbox.start(self._device))
            box = self._first_to_answer()
            self._waiting.remove(box)
            if (said := _fault(box)) is None:
                return box
            if is_fresh:
                raise SandboxUnavailable(f"A box ended before it was ready. It said: {said}")

    @property
    def is_empty(self) -> bool:
        """Whether the next one to be taken has to be started."""
        return not self._waiting

    def refill(self) -> None:
        """Start what is missing, without waiting. Call it when nothing is timed."""
        self.start(self._size - len(self._waiting))

    def start(self, count: int) -> None:
        """Start so many more, without waiting. Call it when nothing is timed."""
        for _ in range(count):
            self._waiting.append(self._sandbox.start(self._device))

    def settle(self) -> None:
        """Wait until every box here has started or failed, so that none of them takes processor time from a clock."""
        deadline = time.monotonic() + _READY_WITHIN_S
        for box in self._waiting:
            select.select([box.wire], [], [], max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """End every box that nobody took."""
        with ExitStack() as stack:
            for box in self._waiting:
                stack.callback(box.end)
            self._waiting = []

    def _first_to_answer(self) -> Box:
        """Waits until a box has said something or has ended; the oldest of those, or the oldest of all when the time is over."""
        poll = select.poll()
        for box in self._waiting:
            poll.register(box.wire, select.POLLIN)
        answered = {fd for fd, _ in poll.poll(_READY_WITHIN_S * 1000)}
        return next((box for box in self._waiting if box.wire.fileno() in answered), self._waiting[0])


class Batches:
    """Boxes for a run that takes many: a pool's own, and where it has none left, several that start together while nothing is timed."""

    def __init__(self, pool: Pool, size: int, wanted: int) -> None:
        """`wanted`: how many the run will take in all; none is started beyond them."""
        self._pool, self._size, self._wanted = pool, size, wanted

    def take(self) -> Box:
        """A box that is ready. Raises SandboxUnavailable."""
        if self._pool.is_empty:
            self._pool.start(min(self._size, max(1, self._wanted)))
            self._pool.settle()
        self._wanted -= 1
        return self._pool.take()


def _fault(box: Box) -> str | None:
    """None when the box is ready; else what it said, and it is ended."""
    try:
        _hear_ready(box)
    except (Breach, Closed, Late):
        said = last_words(box)
        log.error("a box ended before it was ready", extra={"death": box.end(), "said": said})
        return said
    return None


def _hear_ready(box: Box) -> None:
    """Take the first message off the wire, so that the next reader finds it empty. Raises Breach, Closed, Late."""
    channel = Channel(box.wire)
    message, fds = channel.receive(timeout_s=1.0)
    if message.get("op") != "ready" or fds or channel.pending():
        raise Breach
