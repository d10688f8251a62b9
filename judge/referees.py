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
from kernelderby.core.errors import DerbyError, ProblemBroken, RefereeLost
from kernelderby.core.problem_folder import Problem
from kernelderby.judge.box.wire import TRUSTED_LIMIT_BYTES, Channel, Closed, Late
from kernelderby.judge.sandbox.base import Box

log = logging.getLogger(__name__)

KEPT_WARM = 2
_UP_WITHIN_S = 180.0          # importing torch from a cold disk, and drawing every case once
_INSPECTED_WITHIN_S = 600.0
_DIES_WITHIN_S = 5.0


class RefereeProcess:
    """One referee process, and the house box it was lent for its life."""

    def __init__(self, problem: Problem, device: DeviceClass) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours, TRUSTED_LIMIT_BYTES)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kernelderby.judge.referee", str(theirs.fileno()), str(problem.folder), device.name],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True,
        )
        theirs.close()
        self.environment: dict[str, Any] = {}
        self.house: list[Box] = []

    def wait_until_up(self) -> None:
        """Returns when it can judge. Raises ProblemBroken, or RefereeLost."""
        try:
            message, _ = self.channel.receive(_UP_WITHIN_S)
        except (Closed, Late):
            raise RefereeLost("The referee could not be started.") from None
        if message["op"] == "failed":
            raise failure(message)
        self.environment = message["environment"]

    def inspect(self, seed: bytes) -> list[dict[str, Any]]:
        """What it finds in the problem's Python. Raises DerbyError."""
        self.channel.send({"op": "inspect", "seed": seed.hex()})
        try:
            message, _ = self.channel.receive(_INSPECTED_WITHIN_S)
        except (Closed, Late):
            raise RefereeLost from None
        if message["op"] == "failed":
            raise failure(message)
        rows: list[dict[str, Any]] = message["rows"]
        return rows

    def take_back(self, box_id: int) -> Box:
        """Its house box of that number, which is no longer its own."""
        box = next(box for box in self.house if box.id == box_id)
        self.house.remove(box)
        return box

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process.poll() is None

    def close(self) -> None:
        """Kill it and end its house box."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(_DIES_WITHIN_S)
        self.channel.close()
        for box in self.house:
            box.end()
        self.house = []


class Referees:
    """The warm ones, latest used last."""

    def __init__(self) -> None:
        self._warm: OrderedDict[tuple[str, ...], RefereeProcess] = OrderedDict()

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

    def discard(self, referee: RefereeProcess) -> None:
        """Kill one that failed; the next `get` starts a fresh one."""
        for key, warm in list(self._warm.items()):
            if warm is referee:
                del self._warm[key]
        referee.close()

    def close(self) -> None:
        """Kill all."""
        while self._warm:
            self._warm.popitem()[1].close()

    def _started(self, key: tuple[str, ...], problem: Problem, device: DeviceClass) -> RefereeProcess:
        if stale := self._warm.pop(key, None):
            stale.close()
        started = time.monotonic()
        referee = RefereeProcess(problem, device)
        try:
            referee.wait_until_up()
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
    kind = ProblemBroken if message.get("problem") else DerbyError
    return kind(message["message"])
