"""A box at play: bind a case, arm it, play calls. The time of a call is the referee's own, and so is what the call left behind."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelderby.core.problem import ProblemFile
from kernelderby.core.verdict import Gate, Outcome
from kernelderby.judge.box.pages import CALL, FAILED, STATUS, STOP
from kernelderby.judge.box.wire import Breach, number
from kernelderby.judge.referee.arena import Arena, Layout, Region, make_pages
from kernelderby.judge.referee.boxes import OVERDUE_S, SLICE_S, LentBox
from kernelderby.judge.referee.findings import ended

SPARE_CALLS = 2          # armed beyond those wanted: a wrong call is replayed twice
SECOND_LOOK_S = 0.05     # how long poison may take to vanish after the done word, to tell late work from none
LONGEST_CLAIM_US = 1e10
MOST_VOID = 0.5          # of a block's calls: with fewer valid ones it says nothing

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
    is_void: bool = False         # its time says nothing


@dataclass(frozen=True)
class Bound:
    """A case as it lies in an arena, and the inputs that are written anew before every call: what an entry makes of one call's input is
    of no use to its next call."""

    layout: Layout
    per_call: tuple[str, ...]
    unchanged: tuple[str, ...]


def binding(spec: ProblemFile, layout: Layout) -> Bound:
    """Which inputs are written when: all before every call but plan-time ones, which stay as they were when the case was bound."""
    return Bound(layout, tuple(region.name for region in layout.inputs if region.name not in spec.plan),
                 tuple(region.name for region in layout.inputs if region.name not in spec.mutable))


class Rig:
    """A box with its arena and pages. The box is frozen whenever none of these methods runs."""

    def __init__(self, box: LentBox, arena_bytes: int) -> None:
        self.box = box
        self.arena = self._new_arena(arena_bytes)
        self._pages = make_pages()
        self._last = 0
        self._left_s = OVERDUE_S
        self.played_s = 0.0      # time that the box's program had
        self.is_armed: bool | None = None              # whether calls are launched ahead; None: they cannot be on this kind
        self.prepared_us: list[float] = []             # what the GPU took to prepare each call of this case
        self.quiet_us = math.inf                       # what a preparation of this case takes while nobody else works
        self.is_void = False                           # the last call's preparation was disturbed, so its time says nothing
        self.rehearsal_us: float | None = None         # one call's time, known when the case is bound
        self._share()

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
        self._ask("arm", calls=calls + SPARE_CALLS, first=self._last + 1, armed=bool(self.is_armed))

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
            yield Shot(wall_us, {name: tensor.clone() for name, tensor in self.arena.outputs().items()}, self.is_void)

    def trusted_block(self, bound: Bound, inputs: Sequence[Data], scalars: dict[str, int | float], order: Collection[str], lead_in: int,
                      limit_s: float, quiet_us: float = math.inf, **options: Any) -> list[float]:
        """Bind, and play calls of which none needs a check: wall times in µs of those that nothing disturbed. Looking costs what it
        costs for an entry."""
        self.bind(bound, inputs[0], scalars, order, limit_s, **options)
        self.quiet_us = quiet_us
        self.arm(len(inputs) + lead_in)
        walls = [shot.wall_us for shot in self.play(inputs, [inputs[0]] * lead_in, lambda trace: None) if not shot.is_void]
        self.stop()
        return walls

    def call(self, data: Data) -> float:
        """Play one call on these inputs: its wall time in µs, with the outputs in the arena's snapshot. Raises Ended."""
        wanted = self._last + 1
        wall_us = self._played(wanted, data, self.bound.per_call)
        failed = self._pages.done.read(STATUS) == FAILED
        self.box.freeze()
        self.arena.snapshot()
        self._last = wanted
        self._spend(wall_us / 1e6)
        if failed:
            self._ask("calls")       # answered by the error
            raise ended(Outcome.REFUSED, "The program said that a call failed, and then that none had.", Gate.HONEST_TIME)
        return wall_us

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
        """Give the box back, then free what it shared, unless a process that is left of it can still write there."""
        self.box.close()
        if self.box.is_gone:
            self.arena.close()
        self._pages.close()

    def _new_arena(self, size: int) -> Arena:
        return Arena(size)

    def _share(self) -> None:
        fds = (self.arena.fd, self._pages.go_fd, self._pages.done_fd)
        self.box.ask("arena", OVERDUE_S, fds, bytes=self.arena.bytes)

    def _await(self, wanted: int, started_ns: int) -> None:
        """Wait for the done word. It is read once a look; any other than the last and the wanted one is forged."""
        while (word := self._pages.done.wait(CALL, self._last, SLICE_S)) != wanted:
            if word != self._last:
                raise ended(Outcome.REFUSED, "The done word was forged: it named a call that was never started.", Gate.HONEST_TIME)
            self.box.look()
            if (time.perf_counter_ns() - started_ns) / 1e9 > self._left_s:
                raise ended(Outcome.TIMEOUT, "The program took longer than the problem's time limit.")

    def _played(self, wanted: int, data: Data, names: tuple[str, ...]) -> float:
        """Let the box play one call; µs until its done word, after which the secret places are looked at."""
        self.arena.write(data, names)
        self.arena.poison()
        go = self._pages.go
        started = time.perf_counter_ns()
        go.write(CALL, wanted)     # before the box can run: one that spins on the word starts no earlier than one that sleeps on it
        go.wake(CALL)
        self.box.thaw()
        self._await(wanted, started)
        wall_us = (time.perf_counter_ns() - started) / 1e3
        self.arena.probe()
        return wall_us

    def _look_again(self, unwritten: int) -> None:
        self.box.thaw()
        time.sleep(SECOND_LOOK_S)
        self.box.freeze()
        self.arena.snapshot()
        if self.arena.unwritten() < unwritten:
            raise _late_work()
        words = self.arena.words()
        if unwritten == words:
            raise ended(Outcome.WRONG_VALUES, "No output was written. Fill the outputs that `data` holds, or return them.")
        raise ended(Outcome.WRONG_VALUES, f"A part of the outputs was never written: {unwritten:,} of {words:,} 8-byte words. "
                                          "Is there a block for each part, and does the last one reach the end?")

    def _ask(self, op: str, **fields: Any) -> dict[str, Any]:
        started = time.monotonic()
        answer = self.box.ask(op, self._left_s, **fields)
        self._spend(time.monotonic() - started)
        return answer

    def _spend(self, seconds: float) -> None:
        self.played_s += seconds
        self._left_s = max(0.0, self._left_s - seconds)


def refuse_disturbed(valid: int, calls: int) -> None:
    """Whether enough of a block's calls were undisturbed. Raises Ended: nobody but an entry can have left work on the device."""
    if valid < MOST_VOID * calls:
        raise ended(Outcome.REFUSED, "The GPU was busy with other work while inputs were prepared: leave nothing running between calls.",
                    Gate.HONEST_TIME)


def _late_work() -> Exception:
    return ended(Outcome.REFUSED, "Outputs were written after the call was over: wait for all work before returning.", Gate.HONEST_TIME)


def _place(region: Region) -> dict[str, Any]:
    return {"name": region.name, "shape": list(region.shape), "dtype": region.dtype, "offset": region.offset}
