"""What every sandbox offers: start a box, set its limits, freeze it, end it, say how it died."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class BoxLimits:
    """What a lent box may use."""

    memory_bytes: int
    processes: int = 64
    file_bytes: int = 256 * 1024 * 1024       # one file in /tmp, and all of /tmp


@dataclass(frozen=True, kw_only=True)
class Death:
    """How a box ended."""

    exit_status: int | None = None     # of its own accord
    signal: int | None = None          # what killed it
    oom_killed: bool = False
    by_us: bool = False                # we ended it
    gone: bool = True                  # False: a process of it is left, which hangs in the kernel


class Box(Protocol):
    """A running sandbox that holds one harness. Owned by the process that started it."""

    id: int
    pid: int                     # of the outermost process, in our namespace
    wire: socket.socket          # our end of the harness's wire
    log_fd: int                  # read end of its stdout and stderr

    def limit(self, limits: BoxLimits) -> None:
        """Set limits for the submission it is lent to."""

    def pids(self) -> list[int]:
        """Its processes now, as they are numbered here."""

    def freezer(self) -> dict[str, Any]:
        """How to freeze it, as data for `judge.sandbox.freezer.freezer_from`."""

    def end(self) -> Death:
        """Kill what is left, wait until every process is reaped or a deadline is over, free its cgroups; how it died."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a sandbox can do on this machine, found by trying."""

    name: str                                          # bubblewrap, none
    works: bool
    network: bool = False                              # True: a box could reach the network
    memory_limit: str = "none"                         # cgroup_v1, cgroup_v2, rlimit, none
    process_limit: str = "none"
    freeze: str = "none"                               # cgroup_v1, cgroup_v2, sigstop
    own_uid: bool = False
    missing: list[str] = field(default_factory=list)   # sentences: what is missing and what to do


class Sandbox(Protocol):
    """A way to start boxes."""

    name: str

    def capabilities(self) -> Capabilities:
        """What works here; tried once, then remembered."""

    def start(self, device: str) -> Box:
        """A box that imports its libraries and then says `ready` on its wire. Raises SandboxUnavailable."""

    def workshop(self, shown: Sequence[Path]) -> Box:
        """A box without a device that runs `judge.box.compiling`, and sees these folders besides. Raises SandboxUnavailable."""
