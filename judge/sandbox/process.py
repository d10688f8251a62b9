"""The processes of one box: started with a wire and a log, limited, frozen, ended. Each sandbox adds its own walls."""

import fcntl
import itertools
import logging
import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelderby.core.errors import SandboxUnavailable
from kernelderby.judge.sandbox import enter
from kernelderby.judge.sandbox.base import Box, BoxLimits, Death
from kernelderby.judge.sandbox.cgroup import Group, Hierarchy
from kernelderby.judge.sandbox.freezer import descendants, freezer_from

log = logging.getLogger(__name__)

ENTER = Path(enter.__file__)
LIMITS = ("limit=RLIMIT_CORE:0", "limit=RLIMIT_NOFILE:1024", f"limit=RLIMIT_FSIZE:{BoxLimits.file_bytes}")
LOG_BYTES = 1024 * 1024          # what a box may print before somebody must read it
_LAST_WORDS_BYTES = 2 * 1024
_LAST_WORDS_WITHIN_S = 1.0
_LEAVES_WITHIN_S = 1.0           # from the end of the wire to the end of the process, when it ends of its own accord
DIES_WITHIN_S = 15.0             # from SIGKILL to the end of the last process; a driver may have a context to tear down first
_HIGHEST_SIGNAL = 64

_numbers = itertools.count(1)    # of the boxes of this process, whichever sandbox makes them


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to start, and what it takes along."""

    argv: Sequence[str]
    env: Mapping[str, str]
    pass_fds: Sequence[int] = ()         # beside the wire; closed on our side once it runs
    steps: Sequence[str] = ()            # for `enter.py`, outside the walls
    first: Callable[[int], int | None] = lambda outermost: outermost
    """Waits until the walls stand. From the outermost process, the one whose end is the end of all others; None: it failed."""


class ProcessBox:
    """A box made of ordinary processes."""

    def __init__(self, number: int, process: subprocess.Popen[bytes], wire: socket.socket, log_fd: int, group: Group | None) -> None:
        self.id = number
        self.pid = process.pid
        self.wire = wire
        self.log_fd = log_fd
        self._process = process
        self._group = group
        self._first: int | None = None   # pidfd of the process whose end is the end of all others
        self._death: Death | None = None

    def limit(self, limits: BoxLimits) -> None:
        if self._group:
            self._group.limit(limits)
        if not self._group or "pids" not in self._group.controls:
            for pid in [self.pid, *descendants(self.pid)]:
                _limit_process(pid, limits, memory=self._group is None)

    def limited_by(self) -> tuple[str, str]:
        """What limits memory, and what limits processes."""
        controls = self._group.controls if self._group else frozenset()
        kind = self._group.kind if self._group else ""
        return kind or "rlimit", kind if "pids" in controls else "rlimit"

    def freezer(self) -> dict[str, Any]:
        if self._group and "freezer" in self._group.controls:
            return self._group.freezer()
        return {"kind": "sigstop", "pid": self.pid}

    def pids(self) -> list[int]:
        return [self.pid, *descendants(self.pid)]

    def end(self) -> Death:
        if self._death is None:
            self._death = self._end()
        return self._death

    def watch(self, first: int) -> None:
        """Remember the process whose end is the end of all others."""
        with suppress(ProcessLookupError):
            self._first = os.pidfd_open(first)

    def _end(self) -> Death:
        left = self._left_by_itself()
        if not left:
            self._kill()
        oom_killed = self._group is not None and self._group.oom_killed()
        is_gone = self._wait()
        if self._group:
            self._group.remove()
        self.wire.close()
        os.close(self.log_fd)
        if not is_gone:
            log.error("a box hangs in the kernel", extra={"pid": self.pid})
            return Death(signal=signal.SIGKILL, oom_killed=oom_killed, by_us=True, gone=False)
        return _death(self._process.wait(), oom_killed=oom_killed, by_us=not left)

    def _left_by_itself(self) -> bool:
        if not _hung_up(self.wire):
            return self._process.poll() is not None
        self._thaw()      # so that whoever tells how the program ended can do so
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVES_WITHIN_S)
        return self._process.returncode is not None

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            if self._first is None:
                self._process.kill()
            else:
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        for pid in descendants(self.pid):      # without walls, those that a dead parent leaves behind
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._thaw()      # what is frozen dies only once it is thawed

    def _thaw(self) -> None:
        freezer = freezer_from(self.freezer())
        freezer.thaw()
        freezer.close()

    def _wait(self) -> bool:
        """Until the kernel has let go of every process; whether it did."""
        is_gone = True
        if self._first is not None:
            is_gone = bool(select.select([self._first], [], [], DIES_WITHIN_S)[0])
            os.close(self._first)
        try:
            self._process.wait(_LEAVES_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(DIES_WITHIN_S if is_gone else _LEAVES_WITHIN_S)
        return is_gone and self._process.returncode is not None


def start_box(build: Callable[[int], Plan], hierarchy: Hierarchy | None) -> ProcessBox:
    """Start what `build` plans, given the descriptor of the box's end of the wire. Raises SandboxUnavailable.

    The box dies with the thread that calls this.
    """
    ours, theirs = socket.socketpair()
    plan = build(theirs.fileno())
    number = next(_numbers)
    group = hierarchy.new(number) if hierarchy else None
    log_read, log_write = _log_pipe()
    steps = [f"group={file}" for file in group.join_files()] if group else []
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(ENTER), *steps, *LIMITS, *plan.steps, "--", *plan.argv], env=dict(plan.env),
        stdin=subprocess.DEVNULL, stdout=log_write, stderr=log_write, pass_fds=[theirs.fileno(), *plan.pass_fds], start_new_session=True,
    )
    theirs.close()
    for fd in (log_write, *plan.pass_fds):
        os.close(fd)
    box = ProcessBox(number, process, ours, log_read, group)
    first = plan.first(process.pid)
    if first is None:
        said = last_words(box)
        box.end()
        raise SandboxUnavailable(f"A box could not be started: {said}")
    box.watch(first)
    return box


def last_words(box: Box) -> str:
    """The end of what a box that failed has printed; waits a moment for it to finish."""
    text, deadline = b"", time.monotonic() + _LAST_WORDS_WITHIN_S
    while select.select([box.log_fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
        data = os.read(box.log_fd, LOG_BYTES)
        if not data:
            break
        text = (text + data)[-_LAST_WORDS_BYTES:]
    return text.decode(errors="replace").strip() or "it said nothing."


def drop_words(log_fd: int) -> None:
    """Throw away what a box has printed: a full pipe would stop the printer. Of a flood no more than LOG_BYTES at a time."""
    os.set_blocking(log_fd, False)
    with suppress(BlockingIOError):
        os.read(log_fd, LOG_BYTES)


def _log_pipe() -> tuple[int, int]:
    read, write = os.pipe2(os.O_CLOEXEC)
    with suppress(OSError):      # beyond this user's share of pipe memory: the usual 64 KiB then
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, LOG_BYTES)
    return read, write


def _hung_up(wire: socket.socket) -> bool:
    poll = select.poll()
    poll.register(wire, select.POLLHUP)
    return bool(poll.poll(0))


def _limit_process(pid: int, limits: BoxLimits, *, memory: bool) -> None:
    """Without a control group. Address space counts more than memory, so what is mapped already comes on top."""
    with suppress(OSError):
        if _is_counted_apart(pid):
            resource.prlimit(pid, resource.RLIMIT_NPROC, (limits.processes, limits.processes))
        if memory:
            mapped = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
            resource.prlimit(pid, resource.RLIMIT_AS, (mapped + limits.memory_bytes,) * 2)


def _is_counted_apart(pid: int) -> bool:
    """Whether its processes are not counted together with ours: in a user namespace of its own, since Linux 5.14."""
    release = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
    return release >= (5, 14) and os.stat(f"/proc/{pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino


def _death(status: int, *, oom_killed: bool, by_us: bool) -> Death:
    """From a return code: below 0 it is the outermost process's signal; above 128 that of the process inside, as shells tell it."""
    if by_us:
        return Death(signal=signal.SIGKILL, oom_killed=oom_killed, by_us=True)
    number = -status if status < 0 else status - 128
    if 0 < number <= _HIGHEST_SIGNAL:
        return Death(signal=number, oom_killed=oom_killed)
    return Death(exit_status=status, oom_killed=oom_killed)
