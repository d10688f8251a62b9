"""Stopping a box for a while, from the process that plays against it. Every timed call needs it, so it is quick."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

_GIVE_UP_S = 1.0
_STOPPED = "TtZXD"      # D: it waits for a stopped child (vfork), and stops when it wakes


class FreezeFailed(Exception):
    """A box could not be stopped in time: it forks without end, or hangs in the kernel."""


class Freezer(Protocol):
    """Stops and starts every process of one box."""

    def freeze(self) -> None:
        """Returns when every process is stopped. Raises FreezeFailed."""

    def thaw(self) -> None:
        """Lets all of them run again. Nothing happens when the box is gone."""

    def close(self) -> None:
        """Free what it holds; the box stays as it is."""


def freezer_from(data: dict[str, Any]) -> Freezer:
    """The freezer that a box's `freezer()` described."""
    if data["kind"] == "sigstop":
        return SignalFreezer(int(data["pid"]))
    return GroupFreezer(Path(data["path"]), *_GROUP_WORDS[data["kind"]])


class GroupFreezer:
    """By a cgroup: the kernel stops all of its processes, also those being born."""

    def __init__(self, group: Path, control: str, freeze: bytes, thaw: bytes, watch: str, frozen: bytes) -> None:
        self._words = freeze, thaw, frozen
        self._control = os.open(group / control, os.O_RDWR | os.O_CLOEXEC)
        self._watch = os.open(group / watch, os.O_RDONLY | os.O_CLOEXEC)

    def freeze(self) -> None:
        freeze, _, frozen = self._words
        deadline = time.monotonic() + _GIVE_UP_S
        try:
            os.pwrite(self._control, freeze, 0)
            while frozen not in os.pread(self._watch, 64, 0):
                if time.monotonic() > deadline:
                    raise FreezeFailed
                os.sched_yield()
        except OSError:      # the group is gone, and with it every process
            return

    def thaw(self) -> None:
        with suppress(OSError):
            os.pwrite(self._control, self._words[1], 0)

    def close(self) -> None:
        os.close(self._control)
        os.close(self._watch)


class SignalFreezer:
    """By SIGSTOP to every process from the outermost down, again and again until a whole round finds them all stopped."""

    def __init__(self, outermost: int) -> None:
        self._outermost = outermost

    def freeze(self) -> None:
        deadline = time.monotonic() + _GIVE_UP_S
        while not self._stopped():
            if time.monotonic() > deadline:
                raise FreezeFailed
            self._send(signal.SIGSTOP)
            os.sched_yield()

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def close(self) -> None:
        return

    def _stopped(self) -> bool:
        """Whether all were stopped at one moment: found so twice, and none ran between. Else two could wake each other in turns."""
        first = self._standstill()
        return first is not None and first == self._standstill()

    def _standstill(self) -> dict[str, str] | None:
        """What each thread has run so far, by its place in /proc; None when one can run. Read before its state: see `_stopped`."""
        ran: dict[str, str] = {}
        for thread in (thread for pid in self._all() for thread in _threads(pid)):
            ran[thread] = _read(f"{thread}/schedstat")
            if _state(f"{thread}/stat") not in _STOPPED:
                return None
        return ran

    def _send(self, number: int) -> None:
        for pid in self._all():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def _all(self) -> Iterator[int]:
        yield self._outermost
        yield from descendants(self._outermost)


def descendants(pid: int) -> Iterator[int]:
    """Every living process below `pid`. An orphan of a box belongs to the box's own first process, so none is missed."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            children = _read(f"/proc/{pid}/task/{thread}/children").split()
            for child in map(int, children):
                yield child
                yield from descendants(child)


def _threads(pid: int) -> Iterator[str]:
    """The places of its threads in /proc."""
    with suppress(OSError):
        yield from [f"/proc/{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]


def _state(stat: str) -> str:
    text = _read(stat)
    return text[text.rindex(")") + 2] if text else "X"


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


_GROUP_WORDS = {
    "cgroup_v1": ("freezer.state", b"FROZEN", b"THAWED", "freezer.state", b"FROZEN"),
    "cgroup_v2": ("cgroup.freeze", b"1", b"0", "cgroup.events", b"frozen 1"),
}
