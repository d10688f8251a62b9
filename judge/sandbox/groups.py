"""The directory of a box's control group, of either version: its name, its making, its end.

Its name holds the process that made it, so that whoever starts next can clear away what a killed worker left.
"""

import logging
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from kernelderby.core.errors import SandboxUnavailable

log = logging.getLogger(__name__)

_NAME = re.compile(r"derby-(\d+)-(\d+)-(\d+)-\d+")      # process namespace, process, its start, box
_EMPTY_WITHIN_S = 5.0


def group_name(box: int) -> str:
    """What the group of a box of this process is called."""
    return f"derby-{_process_namespace()}-{os.getpid()}-{_started(os.getpid())}-{box}"


def make(directory: Path) -> Path:
    """A new group. Raises SandboxUnavailable."""
    try:
        directory.mkdir()
    except OSError as error:
        raise SandboxUnavailable(f"No control group could be made at {directory}: {error.strerror}.") from None
    return directory


def empty(directory: Path, *, thaw: tuple[str, str]) -> None:
    """Kill until nobody is left, then remove."""
    deadline = time.monotonic() + _EMPTY_WITHIN_S
    while directory.exists():
        with suppress(OSError):
            for pid in (directory / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
        with suppress(OSError):
            (directory / thaw[0]).write_text(thaw[1])
        try:
            directory.rmdir()
        except OSError as error:
            if time.monotonic() > deadline:
                log.error("a group could not be removed", extra={"group": str(directory), "reason": error.strerror})
                return
            time.sleep(0.001)


def orphans(mount_points: Iterable[Path]) -> Iterator[Path]:
    """Groups of makers in our process namespace that no longer live. Others' makers cannot be seen from here, so theirs stay."""
    for top in mount_points:
        for directory, names, _ in os.walk(top):
            for match in filter(None, map(_NAME.fullmatch, names)):
                namespace, pid, started = map(int, match.groups())
                if namespace == _process_namespace() and _started(pid) != started:
                    log.info("clearing an orphaned group", extra={"group": match.string})
                    yield Path(directory, match.string)


def count(file: Path, key: str) -> int:
    """The number behind a key of a group's file; 0 where there is none."""
    with suppress(OSError):
        for line in file.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == key:
                return int(value)
    return 0


def _process_namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _started(pid: int) -> int:
    """When the process started, in clock ticks since boot: with its number, a name that is never used twice. 0: no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat[stat.rindex(")") + 2 :].split()[19])
