"""Referee processes: started once for each problem version and class, the last two kept warm, replaced when they fail."""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import DerbyError, ProblemBroken, RefereeLost, RunnerUnhealthy
from kernelderby.core.problem_folder import Problem
from kernelderby.core.settings import process_environment
from kernelderby.judge.box.wire import TRUSTED_LIMIT_BYTES, Channel, Closed, Late
from kernelderby.judge.sandbox.base import Box
from kernelderby.judge.sandbox.devices import one_gpu

log = logging.getLogger(__name__)

KEPT_WARM = 2
_UP_WITHIN_S = 180.0          # importing torch from a cold disk, and drawing every case once
_INSPECTED_WITHIN_S = 600.0
_DIES_WITHIN_S = 15.0         # a driver may have a context to tear down
_FAILURES: dict[str, type[DerbyError]] = {"problem": ProblemBroken, "device": RunnerUnhealthy}      # whose fault a failure is


class RefereeProcess:
    """One referee process, and the house box it was lent for its life."""

    def __init__(self, problem: Problem, device: DeviceClass, gpu: int = 0) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours, TRUSTED_LIMIT_BYTES)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kernelderby.judge.referee", str(theirs.fileno()), str(problem.folder), device.name],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True,
            env=process_environment(one_gpu(gpu) if device.arch else {}),
        )
        theirs.close()
        self.environment: dict[str, Any] = {}
        self.house: list[Box] = []

    def wait_until_up(self) -> None:
        """Returns when it can judge. Raises ProblemBroken, or RefereeLost."""
        self.environment = self._answer(_UP_WITHIN_S, "The referee could not be started.")["environment"]

    def inspect(self, seed: bytes) -> list[dict[str, Any]]:
        """What it finds in the problem's Python. Raises DerbyError."""
        self.channel.send({"op": "inspect", "seed": seed.hex()})
        rows: list[dict[str, Any]] = self._answer(_INSPECTED_WITHIN_S, None)["rows"]
        return rows

    def prove(self) -> None:
        """Have it judge a known case. Raises DerbyError when it does not judge right."""
        self.channel.send({"op": "prove"})
        self._answer(_UP_WITHIN_S, "A fresh referee failed on a known case.")

    def take_back(self, box_id: int) -> Box:
        """Its house box of that number, which is no longer its own."""
        box = next(box for box in self.house if box.id == box_id)
        self.house.remove(box)
        return box

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def close(self) -> bool:
        """Kill it and end its house box; whether nothing is left of them."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_DIES_WITHIN_S)
        self.channel.close()
        deaths = [box.end() for box in self.house]
        self.house = []
        return self.process.returncode is not None and all(death.gone for death in deaths)

    def _answer(self, within_s: float, lost: str | None) -> dict[str, Any]:
        """What it says next. Raises RefereeLost, with `lost` for its sentence, when it says nothing; what it failed with when it failed."""
        try:
            message, _ = self.channel.receive(within_s)
        except (Closed, Late):
            raise RefereeLost(lost) from None
        if message["op"] == "failed":
            raise failure(message)
        return message


class Referees:
    """The warm ones, latest used last."""

    def __init__(self, gpu: int = 0) -> None:
        self._gpu = gpu
        self._warm: OrderedDict[tuple[str, ...], RefereeProcess] = OrderedDict()
        self._failed: set[tuple[str, ...]] = set()      # whose last one failed: the next must prove itself before it judges

    def get(self, problem: Problem, device: DeviceClass) -> RefereeProcess:
        """A referee that is up. Raises ProblemBroken when the problem's Python fails, RefereeLost when none can be started."""
        key = _key(problem, device)
        referee = self._warm.get(key)
        if referee is None or not referee.is_alive():
            referee = self._started(key, problem, device)
        self._warm.move_to_end(key)
        while len(self._warm) > KEPT_WARM:
            self._warm.popitem(last=False)[1].close()
        return referee

    def has(self, problem: Problem, device: DeviceClass) -> bool:
        """Whether a warm one is at hand."""
        referee = self._warm.get(_key(problem, device))
        return referee is not None and referee.is_alive()

    def discard(self, referee: RefereeProcess) -> bool:
        """Kill one that failed; whether nothing is left of it. The next `get` starts a fresh one."""
        for key, warm in list(self._warm.items()):
            if warm is referee:
                del self._warm[key]
                self._failed.add(key)
        return referee.close()

    def close(self) -> None:
        """Kill all."""
        while self._warm:
            self._warm.popitem()[1].close()

    def _started(self, key: tuple[str, ...], problem: Problem, device: DeviceClass) -> RefereeProcess:
        if stale := self._warm.pop(key, None):
            self._failed.add(key)
            stale.close()
        started = time.monotonic()
        referee = RefereeProcess(problem, device, self._gpu)
        try:
            referee.wait_until_up()
            if key in self._failed:
                referee.prove()
                self._failed.discard(key)
        except DerbyError:
            referee.close()
            raise
        log.info("referee started", extra={"problem": problem.name, "seconds": round(time.monotonic() - started, 3)})
        self._warm[key] = referee
        return referee


def _key(problem: Problem, device: DeviceClass) -> tuple[str, ...]:
    return device.name, str(problem.folder), problem.version, problem.gate_set


def failure(message: dict[str, Any]) -> DerbyError:
    """What a referee's `failed` says, as the error it is."""
    return _FAILURES.get(message["kind"], DerbyError)(message["message"])
