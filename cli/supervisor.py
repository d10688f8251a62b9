"""Starts programs, starts the dead again, ends them all."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from kernelderby.core.errors import SetupError
from kernelderby.core.text import clean_text
from kernelderby.judge.sandbox import enter

_HEALTHY_S = 30      # who ran that long failed by chance, not by set-up
_LONGEST_PAUSE_S = 30
_FAREWELL_S = 15     # to finish after SIGTERM
_DIES_WITH_US = (sys.executable, "-I", "-S", enter.__file__, f"parent_death={int(signal.SIGTERM)}", "--")   # a worker hands its run back


@dataclass(kw_only=True)
class Child:
    """A program that shall run."""

    name: str
    command: Sequence[str]               # the program by its whole path
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    failures: int = 0                    # in a row
    start_at: float = field(default=0.0)   # not before


class Supervisor:
    """A context manager that owns child processes. They end with it, however it ends. Use it from one thread.

    `give_up_after` failures in a row of one program raise SetupError; None: it is started again for ever, with growing pauses.
    """

    def __init__(self, logs: Path, say: Callable[[str], None], give_up_after: int | None = None) -> None:
        self.logs, self._say, self._give_up_after = logs, say, give_up_after
        self._children: list[Child] = []

    def __enter__(self) -> "Supervisor":
        self.logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a program; what it prints goes to `logs`."""
        child = Child(name=name, command=command, environment=environment)
        self._log(child).unlink(missing_ok=True)
        self._children.append(child)
        self._launch(child)

    def tend(self) -> None:
        """Start again who died, after a pause that grows. Call it a few times a second."""
        now = time.monotonic()
        for child in self._children:
            if child.process is not None and child.process.poll() is not None:
                self._bury(child, child.process.returncode, now)
            if child.process is None and now >= child.start_at:
                self._launch(child)

    def stop(self) -> None:
        """End all, the last started first; return when every one is gone."""
        deadline = time.monotonic() + _FAREWELL_S
        for child in reversed(self._children):
            if child.process is None:
                continue
            child.process.terminate()
            try:
                child.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
        self._children.clear()

    def _launch(self, child: Child) -> None:
        with self._log(child).open("ab") as log:
            child.process = subprocess.Popen([*_DIES_WITH_US, *child.command], env=dict(child.environment), stdin=subprocess.DEVNULL,
                                             stdout=log, stderr=log, start_new_session=True)
        child.started = time.monotonic()

    def _bury(self, child: Child, status: int, now: float) -> None:
        child.failures = 1 if now - child.started > _HEALTHY_S else child.failures + 1
        pause_s = min(0.5 * 2 ** (child.failures - 1), _LONGEST_PAUSE_S)
        child.process, child.start_at = None, now + pause_s
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        if self._give_up_after is not None and child.failures >= self._give_up_after:
            raise SetupError(f"The {child.name} does not run ({how}). Its last words: {self._last_words(child)} "
                             f"All of them: {self._log(child)}")
        self._say(f"The {child.name} ended ({how}); it is started again in {pause_s:g} s. Its log: {self._log(child)}")

    def _log(self, child: Child) -> Path:
        return self.logs / f"{child.name}.log"

    def _last_words(self, child: Child) -> str:
        with contextlib.suppress(OSError):
            lines = self._log(child).read_text(errors="replace").strip().splitlines()
            return clean_text(lines[-1], 500) if lines else "none."
        return "none."
