"""Small programs in real boxes: what they answer, how they die, what they leave."""

import json
import os
import select
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelderby.judge.sandbox.base import BoxLimits, Death
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.freezer import descendants
from kernelderby.judge.sandbox.process import ProcessBox
from kernelderby.judge.sandbox.unsandboxed import Unsandboxed

MIB = 1024 * 1024
LIMITS = BoxLimits(memory_bytes=256 * MIB, processes=32)
PRELUDE = """
import ctypes, errno, json, os, signal, socket, sys, time
wire = socket.socket(fileno=int(sys.argv[-1]))
def tell(answer): wire.sendall(json.dumps(answer).encode() + b"\\n")
def refusal(attempt, *arguments):
    try:
        attempt(*arguments)
    except (OSError, ValueError) as error:
        return errno.errorcode.get(getattr(error, "errno", None), type(error).__name__)
def call(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    if libc.syscall(ctypes.c_long(number), *arguments) == -1:
        raise OSError(ctypes.get_errno(), "")
"""


@dataclass
class Run:
    """What a program did in a box."""

    answer: Any          # the line it told, None if none
    death: Death
    log: str


def launch(sandbox: Bubblewrap | Unsandboxed, code: str, *arguments: str, environment: dict[str, str] | None = None) -> ProcessBox:
    """A box that runs `code` after the prelude."""
    return sandbox.launch([sys.executable, "-I", "-S", "-c", PRELUDE + code, *arguments], environment or {})


def run(sandbox: Bubblewrap | Unsandboxed, code: str, *arguments: str, limits: BoxLimits | None = LIMITS,
        environment: dict[str, str] | None = None) -> Run:
    """Run `code` until it told something or ended, then end the box."""
    box = launch(sandbox, "wire.recv(1)\n" + code, *arguments, environment=environment)
    try:
        if limits:
            box.limit(limits)
        box.wire.send(b"1")
        answer = hear(box)
        log = drain(box)
    finally:
        death = box.end()
    return Run(answer, death, log)


def hear(box: ProcessBox, within_s: float = 20.0) -> Any:
    """The next line that the program tells; None when it ends or says nothing."""
    text = b""
    while not text.endswith(b"\n"):
        if not select.select([box.wire], [], [], within_s)[0]:
            return None
        data = b""
        with suppress(ConnectionResetError):
            data = box.wire.recv(65536)
        if not data:
            return None
        text += data
    return json.loads(text)


def drain(box: ProcessBox) -> str:
    """What lies in the log now."""
    text = b""
    while select.select([box.log_fd], [], [], 0.02)[0] and len(text) < 4 * MIB and (data := os.read(box.log_fd, MIB)):
        text += data
    return text.decode(errors="replace")


def process_namespace(box: ProcessBox) -> int:
    """Which PID namespace the box's processes live in."""
    return os.stat(f"/proc/{next(iter(descendants(box.pid)))}/ns/pid").st_ino


def living_in(namespace: int) -> list[str]:
    """The names of the processes that live in a PID namespace, those aside that only init has yet to reap."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.stat(process / "ns/pid").st_ino == namespace and ") Z " not in (process / "stat").read_text():
                found.append((process / "comm").read_text().strip())
    return found


def own_groups() -> Iterator[Path]:
    """The control groups that this process made for boxes and that are still there."""
    for directory, names, _ in os.walk("/sys/fs/cgroup"):
        yield from (Path(directory, name) for name in names if name.startswith("derby-") and f"-{os.getpid()}-" in name)
