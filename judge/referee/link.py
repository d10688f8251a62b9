"""The referee's end of its worker: jobs come in, boxes are lent, events and the verdict go out."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelderby.core.verdict import Mode, Outcome, Verdict
from kernelderby.judge.box.wire import Channel
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


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A look into the problem's own Python, before anyone competes on it."""

    seed: bytes


@dataclass(frozen=True, kw_only=True)
class Lent:
    """A box on loan: descriptors to talk to it, data to freeze it. The worker owns it."""

    id: int
    wire_fd: int
    log_fd: int
    freezer: dict[str, Any]


class Link:
    """The worker is trusted, so its messages are taken as they are."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._cancelled = False

    def next_question(self) -> Job | Inspection:
        """Wait for work. Raises Closed when the worker is gone."""
        while True:
            message, fds = self._channel.receive(float(10**6))
            if message["op"] == "judge":
                self._cancelled = False
                return _job(message["job"], fds[0])
            if message["op"] == "inspect":
                return Inspection(seed=bytes.fromhex(message["seed"]))
            # a cancellation that crossed the verdict is of no use any more

    def take_box(self, *, trusted: bool) -> Lent:
        """A fresh box. Where the worker has none it ends the judging, and us with it."""
        answer, fds = self._ask({"op": "take_box", "trusted": trusted}, "box")
        return Lent(id=answer["box"], wire_fd=fds[0], log_fd=fds[1], freezer=answer["freezer"])

    def end_box(self, box_id: int) -> dict[str, Any]:
        """End a box; how it died, once every process of it is gone."""
        return self._ask({"op": "end_box", "box": box_id}, "death")[0]

    def event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell the watchers."""
        self._channel.send({"op": "event", "kind": kind, "data": data})

    def up(self, environment: Mapping[str, Any]) -> None:
        """Say that the referee is ready to judge."""
        self._channel.send({"op": "up", "environment": environment})

    def verdict(self, verdict: Verdict) -> None:
        """End the judging."""
        self._channel.send({"op": "verdict", "verdict": verdict.model_dump(mode="json")})

    def inspected(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Answer an inspection."""
        self._channel.send({"op": "inspected", "rows": list(rows)})

    def failed(self, message: str, *, problem: bool) -> None:
        """End the judging, since we or the problem failed."""
        self._channel.send({"op": "failed", "message": message, "problem": problem})

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

    def _note(self, message: Mapping[str, Any]) -> None:
        self._cancelled |= message.get("op") == "cancel"


def _job(job: Mapping[str, Any], source_fd: int) -> Job:
    return Job(submission=job["submission"], attempt=job["attempt"], mode=Mode(job["mode"]), file_name=job["file_name"],
               seed=bytes.fromhex(job["seed"]), source=_taken(source_fd))


def _taken(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        return file.read()
