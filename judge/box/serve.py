"""Questions in, answers out: what the harness does for the referee, one function an op."""

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from kernelderby.judge.box.arena import Arena, Bound
from kernelderby.judge.box.calls import Pages, Served
from kernelderby.judge.box.compile_report import compile_launches
from kernelderby.judge.box.entry import Entry
from kernelderby.judge.box.fault import Fault, fault_of
from kernelderby.judge.box.host import Device
from kernelderby.judge.box.interpreter import Recorder
from kernelderby.judge.box.loading import extracted, load, unpacked
from kernelderby.judge.box.outputs import fill
from kernelderby.judge.box.pages import Page
from kernelderby.judge.box.wire import Channel, Closed, Late

Message = dict[str, Any]
_A_DAY_S = 86_400.0
_CLAIMS = 3000    # as many as fit on a line


def serve(channel: Channel, recorder: Recorder, device: Device) -> None:
    """Say `ready`, then answer until `end` or until the referee is gone."""
    harness = Harness(recorder, device)
    try:
        channel.send({"op": "ready", "nonce": 0, "versions": _versions()})
        for message, fds in _questions(channel):
            channel.send({**harness.answer(message, fds), "nonce": message["nonce"]})
            harness.serve_armed(channel.pending)
    except Closed:
        return


class Harness:
    """What one box holds between two questions."""

    def __init__(self, recorder: Recorder, device: Device) -> None:
        self.recorder = recorder
        self.device = device
        self.entry: Entry | None = None
        self.arena: Arena | None = None
        self.pages: Pages | None = None
        self.call: Callable[[], None] | None = None
        self.promised: range | None = None
        self.is_armed = False
        self.served = Served()

    def answer(self, message: Message, fds: Sequence[int]) -> Message:
        """The answer to one question. Closes `fds`. A question the referee should not have put raises KeyError or AssertionError."""
        try:
            fault, self.served.fault = self.served.fault, None
            if fault is not None:
                raise fault
            return _ANSWERS[message["op"]](self, message, fds)
        except Fault as fault:
            return fault.answer()
        finally:
            for fd in fds:
                os.close(fd)

    def serve_armed(self, is_over: Callable[[], bool]) -> None:
        """Serve the calls that the last answer promised, if it promised any."""
        if self.promised is None:
            return
        assert self.call and self.pages
        numbers, self.promised = self.promised, None
        self.served = self.device.serve(self.call, numbers, self.pages, is_over, armed=self.is_armed)


def _load(harness: Harness, message: Message, fds: Sequence[int]) -> Message:
    if "targets" in message:
        return _compile(harness, message)
    seed = message.get("seed")
    if seed is not None:
        torch.manual_seed(seed)
        random.seed(seed)
    harness.recorder.forget()
    harness.call = harness.entry = None
    source, file_name = _content(fds[0]), message.get("file_name") or "submission.py"
    if message.get("extract"):
        return {"op": "loaded", "inline": extracted(source, file_name)}
    artifacts = message.get("artifacts")
    harness.entry = load(source, file_name, unpacked(artifacts, fds[1]) if artifacts else {})
    return {"op": "loaded", "has_plan": harness.entry.plan is not None}


def _compile(harness: Harness, message: Message) -> Message:
    """For the source already loaded and called: its kernels' launches are known by then."""
    reports = compile_launches(harness.recorder, message["targets"], float(message.get("deadline_s", 30.0)))
    return {"op": "loaded", "compile": reports}


def _arena(harness: Harness, message: Message, fds: Sequence[int]) -> Message:
    *_, go, done = fds
    harness.call = None
    harness.pages = Pages(go=Page(go, writable=False), done=Page(done, writable=True))
    harness.arena = harness.device.open_arena(message, fds, harness.pages)
    return {"op": "ready"}


def _bind(harness: Harness, message: Message, fds: Sequence[int]) -> Message:
    assert harness.arena
    bound = harness.arena.bind(message["inputs"], message["outputs"])
    if message.get("null"):
        harness.call = _nothing
        return {"op": "bound", "plan_us": None}
    assert harness.entry
    harness.call = _call_of(harness.entry, bound)
    plan_us = _planned_us(harness.entry, bound)
    for _ in range(message.get("warmups", 1)):
        harness.call()
    with _theirs(harness.entry):
        harness.device.finish()
        if message.get("capture"):
            harness.call = harness.device.captured(harness.call)
    return {"op": "bound", "plan_us": plan_us}


def _arm(harness: Harness, message: Message, fds: Sequence[int]) -> Message:
    first = message["first"]
    harness.promised = range(first, first + message["calls"])
    harness.is_armed = message.get("armed", False)
    return {"op": "armed"}


def _calls(harness: Harness, message: Message, fds: Sequence[int]) -> Message:
    return {"op": "calls", "claimed_us": harness.served.claimed_us[:_CLAIMS]}


_ANSWERS: dict[str, Callable[[Harness, Message, Sequence[int]], Message]] = {
    "load": _load, "arena": _arena, "bind": _bind, "arm": _arm, "calls": _calls,
}


def _questions(channel: Channel) -> Iterator[tuple[Message, list[int]]]:
    while True:
        try:
            message, fds = channel.receive(_A_DAY_S)
        except Late:
            continue
        if message["op"] == "end":
            return
        yield message, fds


def _call_of(entry: Entry, bound: Bound) -> Callable[[], None]:
    def call() -> None:
        with _theirs(entry):
            fill(bound.outputs, entry.custom_kernel(bound.data))

    return call


def _planned_us(entry: Entry, bound: Bound) -> float | None:
    if entry.plan is None:
        return None
    started = time.perf_counter_ns()
    with _theirs(entry):
        entry.plan(bound.data)
    return (time.perf_counter_ns() - started) / 1000


@contextmanager
def _theirs(entry: Entry) -> Iterator[None]:
    """Around their code: whatever it raises becomes a Fault."""
    try:
        yield
    except BaseException as error:
        raise fault_of(error, entry.file_name) from None


def _nothing() -> None:
    """The null call."""


def _content(fd: int) -> bytes:
    """A memfd's bytes, wherever its offset stands."""
    return os.pread(fd, os.fstat(fd).st_size, 0)


def _versions() -> dict[str, str | None]:
    return {"python": sys.version.split()[0], "torch": _version("torch"), "triton": _version("triton")}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
