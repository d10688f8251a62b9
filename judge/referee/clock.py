"""A box at play: bind a case, arm it, play calls. The time of a call is the referee's own, and so is what the call left behind."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelderby.core.problem import Bind, ProblemFile
from kernelderby.core.verdict import Gate, Outcome
from kernelderby.judge.box.pages import CALL, FAILED, STATUS, STOP
from kernelderby.judge.box.wire import Breach, number
from kernelderby.judge.referee.arena import Arena, Layout, Region, make_pages
from kernelderby.judge.referee.boxes import OVERDUE_S, SLICE_S, LentBox
from kernelderby.judge.referee.findings import ended

SPARE_CALLS = 2          # armed beyond those wanted: a wrong call is replayed twice
SECOND_LOOK_S = 0.05     # how long poison may take to vanish after the done word, to tell late work from none
LONGEST_CLAIM_US = 1e10

Data = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What a call left behind."""

    guards_hold: bool
    changed_input: str | None     # the first that is not as it was
    unwritten: int                # words of the outputs that still are poison
    is_late: bool                 # outputs changed after the done word


@dataclass(frozen=True)
class Shot:
    """One timed call."""

    wall_us: float
    outputs: dict[str, torch.Tensor]


@dataclass(frozen=True)
class Bound:
    """A case as it lies in an arena: what to write before a block's first call, and before every call."""

    layout: Layout
    per_block: tuple[str, ...]
    per_call: tuple[str, ...]
    unchanged: tuple[str, ...]


def binding(spec: ProblemFile, layout: Layout) -> Bound:
    """Which inputs are settled when. Plan-time inputs stay as they were when the case was bound."""
    names = [region.name for region in layout.inputs if region.name not in spec.plan]
    return Bound(layout, tuple(n for n in names if spec.inputs[n].bind is Bind.BLOCK),
                 tuple(n for n in names if spec.inputs[n].bind is Bind.REVEAL),
                 tuple(region.name for region in layout.inputs if region.name not in spec.mutable))


class Rig:
    """A box with its arena and pages. The box is frozen whenever none of these methods runs."""

    def __init__(self, box: LentBox, arena_bytes: int) -> None:
        self.box = box
        self.arena = Arena(arena_bytes)
        self._pages = make_pages()
        self._last = 0
        self._left_s = OVERDUE_S
        self.played_s = 0.0      # time that the box's program had
        fds = (self.arena.fd, self._pages.go_fd, self._pages.done_fd)
        box.ask("arena", OVERDUE_S, fds, bytes=self.arena.bytes)

    def bind(self, bound: Bound, data: Data, scalars: dict[str, int | float], order: Collection[str], limit_s: float,
             **options: Any) -> None:
        """Lay out a case, with `data` for the warm-up. `limit_s` is all the time its bind, warm-up and calls may take."""
        self.bound, self._left_s = bound, limit_s
        self.arena.use(bound.layout)
        self.arena.write(data, [region.name for region in bound.layout.inputs])
        places = {r.name: _place(r) for r in bound.layout.inputs} | {n: {"name": n, "value": v} for n, v in scalars.items()}
        self._ask("bind", inputs=[places[name] for name in order], outputs=[_place(r) for r in bound.layout.outputs], warmups=1, **options)

    def arm(self, calls: int) -> None:
        """Make the box serve up to that many calls, and spare ones for replays."""
        self._pages.go.write(STOP, 0)
        self._is_first = True
        self._ask("arm", calls=calls + SPARE_CALLS, first=self._last + 1)

    def play(self, inputs: Sequence[Data], lead_in: Sequence[Data], seen: Callable[[Trace], None]) -> Iterator[Shot]:
        """Call after call at one pace, armed for: first those of `lead_in`, untimed, since memory and caches are cold after a break.

        `seen` is told at once what each call left behind. Raises Ended.
        """
        for data in lead_in:
            self.call(data)
            seen(self.trace(data))
        for data in inputs:
            wall_us = self.call(data)
            seen(self.trace(data))
            yield Shot(wall_us, {name: tensor.clone() for name, tensor in self.arena.outputs().items()})

    def call(self, data: Data) -> float:
        """Play one call on these inputs: its wall time in µs, with the outputs in the arena's snapshot. Raises Ended."""
        self.arena.write(data, self.bound.per_call + (self.bound.per_block if self._is_first else ()))
        self.arena.poison()
        self._is_first = False
        wanted = self._last + 1
        go = self._pages.go
        started = time.perf_counter_ns()
        self.box.thaw()
        go.write(CALL, wanted)
        go.wake(CALL)
        self._await(wanted, started)
        wall_ns = time.perf_counter_ns() - started
        self.arena.probe()
        failed = self._pages.done.read(STATUS) == FAILED
        self.box.freeze()
        self.arena.snapshot()
        self._last = wanted
        self._spend(wall_ns / 1e9)
        if failed:
            self._ask("calls")       # answered by the error
            raise ended(Outcome.REFUSED, "The program said that a call failed, and then that none had.", Gate.HONEST_TIME)
        return wall_ns / 1e3

    def trace(self, data: Data) -> Trace:
        """What the last call left in the arena beside its outputs' values."""
        arena = self.arena
        return Trace(guards_hold=arena.guards_hold(), changed_input=arena.changed_input(data, self.bound.unchanged),
                     unwritten=arena.unwritten(), is_late=arena.changed_since_probe())

    def refuse(self, trace: Trace) -> None:
        """Whether the last call left everything but its outputs alone, and wrote those in time. Raises Ended."""
        if not trace.guards_hold:
            raise ended(Outcome.ILLEGAL_MEMORY, "Memory beside an input or output was written: an index runs past its end.", Gate.RIGHT)
        if trace.changed_input:
            raise ended(Outcome.REFUSED, f"The input {trace.changed_input} was changed. Inputs must stay as they are; copy it first.",
                        Gate.RIGHT)
        if trace.unwritten:
            self._look_again(trace.unwritten)
        if trace.is_late:
            raise _late_work()

    def stop(self) -> list[float]:
        """End the block; what the box's own clock says of its calls, in µs."""
        self._pages.go.write(STOP, 1)
        self._pages.go.wake(CALL)
        claims = self._ask("calls").get("claimed_us")
        if not isinstance(claims, list):
            return []
        try:
            return [number({"claim": claim}, "claim", 0.0, LONGEST_CLAIM_US) for claim in claims[:1000]]
        except Breach:
            return []

    def close(self) -> None:
        """Give the box back, then free what it shared."""
        self.box.close()
        self.arena.close()
        self._pages.close()

    def _await(self, wanted: int, started_ns: int) -> None:
        """Wait for the done word. It is read once a look; any other than the last and the wanted one is forged."""
        while (word := self._pages.done.wait(CALL, self._last, SLICE_S)) != wanted:
            if word != self._last:
                raise ended(Outcome.REFUSED, "The done word was forged: it named a call that was never started.", Gate.HONEST_TIME)
            self.box.look()
            if (time.perf_counter_ns() - started_ns) / 1e9 > self._left_s:
                raise ended(Outcome.TIMEOUT, "The program took longer than the problem's time limit.")

    def _look_again(self, unwritten: int) -> None:
        self.box.thaw()
        time.sleep(SECOND_LOOK_S)
        self.box.freeze()
        self.arena.snapshot()
        if self.arena.unwritten() < unwritten:
            raise _late_work()
        raise ended(Outcome.WRONG_VALUES, f"{unwritten:,} of {self.arena.words():,} 8-byte words of the outputs were never written.")

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        started = time.monotonic()
        answer = self.box.ask(op, self._left_s, **fields)
        self._spend(time.monotonic() - started)
        return answer

    def _spend(self, seconds: float) -> None:
        self.played_s += seconds
        self._left_s = max(0.0, self._left_s - seconds)


def _late_work() -> Exception:
    return ended(Outcome.REFUSED, "Outputs were written after the call was over: wait for all work before returning.", Gate.HONEST_TIME)


def _place(region: Region) -> dict[str, Any]:
    return {"name": region.name, "shape": list(region.shape), "dtype": region.dtype, "offset": region.offset}
