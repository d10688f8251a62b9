"""A worker: one process that judges for one device class. It imports no torch; its referees and boxes do."""

import logging
import os
import platform
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from celery.signals import worker_shutting_down
from sqlalchemy.exc import SQLAlchemyError

from kernelderby.core.devices import device as device_class
from kernelderby.core.settings import Settings
from kernelderby.judge import queue
from kernelderby.judge.acceptance.certificate import runner_facts
from kernelderby.judge.gpus import gpus
from kernelderby.judge.judging import Judge, open_judge
from kernelderby.judge.runs import Runs
from kernelderby.storage import runners
from kernelderby.storage.database import Database, connect, migrate

log = logging.getLogger(__name__)

GRACE_S = 5.0        # a run that ends by itself this soon after SIGTERM keeps its verdict
LET_GO_S = 10.0      # then it is interrupted, and this long may the judge take to notice
SEEN_S = 15.0        # how often the runner's row is renewed
KERNELS_IMPORT = ("torch", "triton", "numpy", "apache-tvm-ffi", "cuda-bindings", "nvidia-cutlass-dsl", "tilelang", "helion")


def run_worker(settings: Settings, device: str, make_judge: Callable[[], Judge] | None = None) -> None:
    """Judge for a device class until SIGTERM or SIGINT. Raises NotFound for the class, SandboxUnavailable, SetupError."""
    chosen = device_class(device)
    database = connect(settings.database)
    migrate(database)
    runs = Runs(settings, database, chosen)
    thread = _JudgeThread(runs, make_judge or (lambda: open_judge(settings, settings.sandbox, runner_facts(settings, chosen))))
    thread.start()
    thread.wait_until_open()
    stop_presence = _keep_seen(database, runs, chosen.name, settings)
    log.info("ready", extra={"runner": runs.runner, "broker": bool(settings.broker_url)})
    try:
        _listen(settings, chosen.name, runs)
    finally:
        thread.end()
        stop_presence()
        database.close()


class _JudgeThread(threading.Thread):
    """The one thread that opens the judge and uses it."""

    def __init__(self, runs: Runs, make_judge: Callable[[], Judge]) -> None:
        super().__init__(name="judge", daemon=True)   # a judge that hangs must not keep the process alive
        self._runs = runs
        self._make_judge = make_judge
        self._open = threading.Event()
        self._error: Exception | None = None

    def run(self) -> None:
        """Open the judge, then work; a failure ends the process."""
        try:
            with self._make_judge() as judge:
                self._open.set()
                self._runs.work(judge)
        except Exception as error:
            self._error = error
            if self._open.is_set():
                log.error("the judge ended", extra={"reason": str(error)})
                os.kill(os.getpid(), signal.SIGTERM)
        finally:
            self._open.set()

    def wait_until_open(self) -> None:
        """Raises what opening the judge raised."""
        self._open.wait()
        if self._error:
            raise self._error

    def end(self) -> None:
        """Finish the current run if that is soon, else give it back to the queue."""
        self._runs.stop()
        self.join(GRACE_S)
        if self.is_alive():
            self._runs.interrupt()
            self.join(LET_GO_S)
        if self.is_alive():
            self._runs.release()
        if self._error:
            raise self._error


def _listen(settings: Settings, device: str, runs: Runs) -> None:
    """Block in the main thread until a signal; with a broker, wake the runs at each ring."""
    if not settings.broker_url:
        _wait_for_signal()
        return
    app = queue.celery_app(settings)
    app.task(name=queue.RING)(runs.wake)
    worker = app.Worker(
        pool="solo", concurrency=1, queues=[queue.queue_name(device)], hostname=f"{device}-{os.getpid()}@{socket.gethostname()}",
        quiet=True, loglevel="WARNING", without_gossip=True, without_mingle=True, without_heartbeat=True,
    )
    worker_shutting_down.connect(lambda **_: runs.stop(), weak=False)
    worker.start()


def _wait_for_signal() -> None:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    stop.wait()


def _installed() -> dict[str, str]:
    """Versions of what a kernel may import here."""
    found = {"python": platform.python_version()}
    for name in KERNELS_IMPORT:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _gpu(settings: Settings, device: str) -> dict[str, str]:
    """The name of the GPU that this worker judges on; nothing on cpu."""
    here = gpus() if device_class(device).arch else []
    name = next((gpu.name for gpu in here if gpu.number == settings.gpu), None)
    return {"gpu": name} if name else {}


def _keep_seen(database: Database, runs: Runs, device: str, settings: Settings) -> Callable[[], None]:
    """Keep the runner's row fresh from a thread of its own; returns what ends that and takes the row away."""
    stop = threading.Event()
    environment = {"host": socket.gethostname(), "pid": os.getpid(), "sandbox": settings.sandbox,
                   "kernels_find": {**_installed(), **_gpu(settings, device)}}
    runner = runs.runner

    def work() -> None:
        while True:
            try:
                with database.begin() as session:
                    runners.seen(session, runner, device, {**environment, "fault": runs.fault}, datetime.now(UTC))
            except SQLAlchemyError as error:
                log.warning("the runner's row was not renewed", extra={"error": str(error)})
            if stop.wait(SEEN_S):
                return

    thread = threading.Thread(target=work, name="presence", daemon=True)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(SEEN_S)
        try:
            with database.begin() as session:
                runners.gone(session, runner)
        except SQLAlchemyError:
            log.info("the runner's row stays until it is old")

    return end
