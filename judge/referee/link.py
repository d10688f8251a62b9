"""The referee's end of its worker: jobs come in, boxes are lent, events and the verdict go out."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kernelderby.core.duel import Duel
from kernelderby.core.runner import UNKNOWN_RUNNER, RunnerFacts
from kernelderby.core.verdict import Mode, Outcome, Verdict
from kernelderby.judge.box.wire import Channel, Closed
from kernelderby.judge.referee.findings import ended

ANSWER_S = 120.0     # a worker that lends no box in this time is stuck


@dataclass(frozen=True, kw_only=True)
class Job:
    """One judging, as the worker asked for it."""

    submission: int | None
    attempt: int
    mode: Mode
    file_name: str
    seed: bytes
    source: bytes
    runner: RunnerFacts = UNKNOWN_RUNNER
    artifacts: Sequence[Mapping[str, Any]] = ()      # key and size of each library that was compiled for it
    packed: bytes = b""                              # those libraries, one after another


@dataclass(frozen=True, kw_only=True)
class Challenge:
    """Two entries against each other."""

    first: Job
    second: Job


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A look into the problem's own Python, before anyone competes on it."""

    seed: bytes


@dataclass(frozen=True)
class Proof:
    """A demand to show, on a known case, that this referee judges right."""


@dataclass(frozen=True, kw_only=True)
class Lent:
    """A box on loan: descriptors to talk to it, data to freeze it. The worker owns it."""

    id: int
    wire_fd: int
    log_fd: int
    freezer: dict[str, Any]
    pids: tuple[int, ...] = ()     # its processes when it was lent


class Link:
    """The worker is trusted, so its messages are taken as they are."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._cancelled = False
        self._pids: dict[int, tuple[int, ...]] = {}
        self.ended: set[int] = set()      # processes of boxes that were ended
        self.stuck = False                # whether one of those boxes could not be ended

    def next_question(self) -> Job | Challenge | Inspection | Proof:
        """Wait for work. Raises Closed when the worker is gone."""
        while True:
            message, fds = self._channel.receive(float(10**6))
            if message["op"] == "judge":
                self._forget()
                return _job(message["job"], fds)
            if message["op"] == "duel":
                self._forget()
                return _challenge(message["jobs"], fds)
            if message["op"] == "prove":
                return Proof()
            if message["op"] == "inspect":
                return Inspection(seed=bytes.fromhex(message["seed"]))
            # a cancellation that crossed the verdict is of no use any more

    def take_box(self, *, trusted: bool) -> Lent:
        """A fresh box. Where the worker has none it ends the judging, and us with it."""
        answer, fds = self._ask({"op": "take_box", "trusted": trusted}, "box")
        pids = self._pids[answer["box"]] = tuple(answer["pids"])
        return Lent(id=answer["box"], wire_fd=fds[0], log_fd=fds[1], freezer=answer["freezer"], pids=pids)

    def end_box(self, box_id: int) -> dict[str, Any]:
        """End a box; how it died, and whether every process of it is `gone`."""
        death = self._ask({"op": "end_box", "box": box_id}, "death")[0]
        self.ended.update(self._pids.pop(box_id, ()))
        self.stuck |= not death["gone"]
        return death

    def event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell the watchers."""
        self._channel.send({"op": "event", "kind": kind, "data": data})

    def up(self, environment: Mapping[str, Any]) -> None:
        """Say that the referee is ready to judge."""
        self._channel.send({"op": "up", "environment": environment})

    def verdict(self, verdict: Verdict, fault: str | None) -> None:
        """End the judging; with the fault that the device shows after it."""
        self._channel.send({"op": "verdict", "verdict": verdict.model_dump(mode="json"), "fault": fault})

    def duel(self, duel: Duel, fault: str | None) -> None:
        """End the duel, as `verdict` ends a judging."""
        self._channel.send({"op": "duel", "duel": duel.model_dump(mode="json"), "fault": fault})

    def inspected(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Answer an inspection."""
        self._channel.send({"op": "inspected", "rows": list(rows)})

    def proved(self) -> None:
        """Answer the demand for a proof."""
        self._channel.send({"op": "proved"})

    def failed(self, message: str, kind: str = "") -> None:
        """End the judging, since we failed, or else the `problem` or the `device`."""
        self._channel.send({"op": "failed", "message": message, "kind": kind})

    def linger(self) -> None:
        """Wait to be killed, after `failed`: a box that still lives may write into memory that is ours."""
        with suppress(Closed):
            while True:
                self._channel.receive(float(10**6))

    def check_cancelled(self) -> None:
        """Raises Ended when the worker cancelled the judging. Cheap enough between calls."""
        if not self._cancelled and self._channel.pending():
            self._note(self._channel.receive(ANSWER_S)[0])
        if self._cancelled:
            raise ended(Outcome.CANCELLED, "The run was cancelled.")

    def _ask(self, question: Mapping[str, Any], answered_by: str) -> tuple[dict[str, Any], list[int]]:
        self._channel.send(question)
        while True:
            message, fds = self._channel.receive(ANSWER_S)
            if message["op"] == answered_by:
                return message, fds
            self._note(message)

    def _forget(self) -> None:
        """What was said of the run before: its processes' numbers may be given anew."""
        self._cancelled, self.ended = False, set()

    def _note(self, message: Mapping[str, Any]) -> None:
        self._cancelled |= message.get("op") == "cancel"


def _challenge(jobs: Sequence[Mapping[str, Any]], fds: Sequence[int]) -> Challenge:
    return Challenge(first=_job(jobs[0], fds[:2]), second=_job(jobs[1], fds[2:]))


def _job(job: Mapping[str, Any], fds: Sequence[int]) -> Job:
    """Its source lies in the first file, its libraries in the second."""
    return Job(submission=job["submission"], attempt=job["attempt"], mode=Mode(job["mode"]), file_name=job["file_name"],
               seed=bytes.fromhex(job["seed"]), source=_taken(fds[0]), runner=RunnerFacts.from_json(job["runner"]),
               artifacts=job["artifacts"], packed=_taken(fds[1]))


def _taken(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        return file.read()
