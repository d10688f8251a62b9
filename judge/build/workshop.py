"""Compilers in a sandbox of their own: no GPU, no network, nobody's Python, limits on everything. What comes out is never opened here."""

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelderby.core.errors import SandboxUnavailable
from kernelderby.core.text import clean_text
from kernelderby.judge.box.wire import TRUSTED_LIMIT_BYTES, Breach, Channel, Closed, Late, sealed_files
from kernelderby.judge.build.toolkit import Toolkit
from kernelderby.judge.sandbox.base import Box, BoxLimits, Sandbox
from kernelderby.judge.sandbox.process import drop_words, last_words

COMPILE_S = 240.0                # all commands of one build; headers of CUTLASS take a minute
MEMORY_BYTES = 6 << 30
MOST_OUTPUT_BYTES = 64 << 20     # of one file that comes out
_PROCESSES = 128
_LOOK_S = 0.05
_READY_S = 20.0
LOG_CHARACTERS = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Command:
    """One call of a compiler, in the folder of the sources."""

    name: str                          # which part of the build it is
    argv: Sequence[str]
    again_if: str | None = None        # where it fails with such words, `instead` counts
    instead: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a command ended."""

    name: str
    ok: bool
    log: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Made:
    """What the commands made."""

    endings: list[Ending] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    broken: str | None = None          # a sentence, when the compilers as a whole were stopped
    is_cancelled: bool = False

    def ended(self, name: str) -> Ending | None:
        """The ending of that command; None when it did not start."""
        return next((ending for ending in self.endings if ending.name == name), None)


def run_commands(sandbox: Sandbox, toolkit: Toolkit, sources: Mapping[str, bytes], stages: Sequence[Sequence[Command]],
                 wanted: Sequence[str], cancelled: Callable[[], bool]) -> Made:
    """Run the stages in a fresh sandbox, which is ended afterwards. Raises SandboxUnavailable."""
    box = sandbox.workshop(toolkit.shown)
    try:
        box.limit(BoxLimits(memory_bytes=MEMORY_BYTES, processes=_PROCESSES))
        channel = _ready(box)
        told = [[vars(command) for command in stage] for stage in stages]
        with sealed_files(*sources.values()) as fds:
            channel.send({"op": "compile", "files": list(sources), "wanted": list(wanted), "stages": told}, fds)
        return _answer(channel, box, wanted, cancelled)
    except (Breach, Closed, Late):
        return Made(broken=_how_it_died(box))
    finally:
        box.end()


def _ready(box: Box) -> Channel:
    """Its wire, once it waits for work: before that no source has come near it, so a failure is ours."""
    channel = Channel(box.wire, TRUSTED_LIMIT_BYTES)
    try:
        channel.receive(_READY_S)
    except (Breach, Closed, Late):
        raise SandboxUnavailable(f"The compilers' sandbox ended before it was ready. It said: {last_words(box)}") from None
    return channel


def _answer(channel: Channel, box: Box, wanted: Sequence[str], cancelled: Callable[[], bool]) -> Made:
    deadline = time.monotonic() + COMPILE_S
    while time.monotonic() < deadline:
        drop_words(box.log_fd)
        try:
            message, sent = channel.receive(_LOOK_S)
        except Late:
            if cancelled():
                return Made(is_cancelled=True)
            continue
        return _made(message, sent, wanted)
    return Made(broken=f"The compiler took longer than {COMPILE_S:g} s. Make less of templates and of unrolled loops.")


def _made(message: Mapping[str, Any], sent: Sequence[int], wanted: Sequence[str]) -> Made:
    """Raises Breach for anything but the form of `compiling.py`: a compiler that a source took over could have written it."""
    try:
        names = message.get("outputs")
        if not isinstance(names, list) or len(names) != len(sent) or not set(map(str, names)) <= set(wanted):
            raise Breach("other files than those asked for")
        files = {str(name): _content(fd) for name, fd in zip(names, sent, strict=True)}
    finally:
        for fd in sent:
            os.close(fd)
    ended = message.get("ended")
    if not isinstance(ended, list):
        raise Breach("no endings")
    return Made(endings=[_ending(item) for item in ended[:32]], files=files)


def _ending(item: Any) -> Ending:
    if not isinstance(item, dict) or not isinstance(item.get("log"), str):
        raise Breach("an ending without a log")
    log = clean_text(item["log"], LOG_CHARACTERS)
    if item.get("flooded"):
        log += "\nerror: the compiler printed more than 4 MiB and was stopped"
    seconds = item.get("seconds")
    return Ending(name=clean_text(item.get("name"), 40), ok=item.get("status") == 0, log=log,
                  seconds=float(seconds) if isinstance(seconds, int | float) and 0 <= seconds < COMPILE_S * 2 else 0.0)


def _content(fd: int) -> bytes:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_OUTPUT_BYTES:
        raise Breach("what the compiler made is too large")
    return b"".join(_chunks(fd, status.st_size))


def _chunks(fd: int, size: int) -> Sequence[bytes]:
    """The file's bytes by position, whoever else may move its offset."""
    return [os.pread(fd, min(1 << 20, size - at), at) for at in range(0, size, 1 << 20)]


def _how_it_died(box: Box) -> str:
    death = box.end()
    if death.oom_killed:
        return f"The compiler needed more memory than {MEMORY_BYTES >> 30} GiB. Make less of templates and of unrolled loops."
    return "The compiler could not finish: it was stopped by a limit, or it crashed."


