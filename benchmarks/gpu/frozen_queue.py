"""What can a frozen box's queued work do to its neighbours: does freezing stop it, how long does it hold the GPU, how slow is theirs?

A process in a control group queues work and is frozen at once. Meanwhile this one times a kernel of its own again and again.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.child import Child, group_of, join, obey
from kernelderby.judge.sandbox.cgroup import Group
from kernelderby.judge.sandbox.freezer import Freezer, freezer_from

QUEUE_MS, LONG_QUEUE_MS = 200.0, 3000.0
N = 67_108_864                # of the timed addition: about 90 µs
BOX_BYTES = 8 << 30
COPY_BYTES = 1 << 30          # one launch takes about half a millisecond
QUIET_CALLS, SLOW = 300, 1.5
QUIET_IN_A_ROW = 200          # calls: about 20 ms, several turns of another context
WATCHED_S = 5.0
CYCLES_A_MS = 1_980_000       # at the highest clock


def main() -> None:
    """Queue each kind of work, and print the answer."""
    kinds: dict[str, Any] = {}
    clock = Clock()
    with group_of(BOX_BYTES, 900_100) as group:
        box, freezer = Child("benchmarks.gpu.frozen_queue", "box", group), freezer_from(group.freezer())
        quiet_us = clock.quiet_us()
        for kind in QUEUES:
            kinds[kind] = tried(kind, box, freezer, clock, quiet_us)
        killed = killed_while_queued(box, freezer, group, clock, quiet_us)
    answer = "; ".join(_said(kind, found) for kind, found in kinds.items())
    answer += f" (quiet {quiet_us:.0f} µs); killed with {LONG_QUEUE_MS:.0f} ms queued: free after {killed['free_after_ms']:.0f} ms"
    print(json.dumps({"answer": answer, "quiet_us": quiet_us, "kinds": kinds, "killed": killed}))


def _said(kind: str, found: dict[str, Any]) -> str:
    return (f"{kind}: a queue of {found['alone_ms']:.0f} ms holds the GPU for {found['held_ms']:.0f} ms of {found['slow_for_ms']:.0f}, "
            f"a slow call takes {found['slow_us']:.0f} µs ({found['frozen_ms']:.0f} ms by the queue's own events)")


def tried(kind: str, box: Child, freezer: Freezer, clock: "Clock", quiet_us: float) -> dict[str, Any]:
    """The queue alone, then with the box frozen and a neighbour's kernel beside it."""
    box.ask("queue", kind, QUEUE_MS)
    alone_ms = box.ask("drained_ms")
    time.sleep(0.1)
    box.ask("queue", kind, QUEUE_MS)
    freezer.freeze()
    started = time.perf_counter()
    walls = clock.until_quiet(quiet_us)
    slow = [(at, us) for at, us in walls if us > SLOW * quiet_us]
    frozen_s = time.perf_counter() - started
    freezer.thaw()
    return {"alone_ms": alone_ms, "frozen_ms": box.ask("drained_ms"), "frozen_for_ms": frozen_s * 1e3,
            "slow_for_ms": max((at for at, _ in slow), default=0.0) * 1e3, "slow_calls": len(slow),
            "held_ms": sum(us - quiet_us for _, us in slow) / 1e3,
            "slow_us": statistics.median(us for _, us in slow) if slow else quiet_us, "slowest_us": max(us for _, us in walls),
            "walls": [(round(at * 1e3, 2), round(us, 1)) for at, us in walls[:400]]}


def killed_while_queued(box: Child, freezer: Freezer, group: Group, clock: "Clock", quiet_us: float) -> dict[str, Any]:
    """A box with a long queue is frozen and killed: when it is gone, and when the GPU is free."""
    box.ask("queue", "spin", LONG_QUEUE_MS)
    freezer.freeze()
    time.sleep(0.1)
    started = time.perf_counter()
    freezer.thaw()
    box.end()
    gone_s = time.perf_counter() - started
    walls = clock.until_quiet(quiet_us)
    slow_s = max((at for at, us in walls if us > SLOW * quiet_us), default=0.0)
    return {"gone_after_ms": gone_s * 1e3, "free_after_ms": (gone_s + slow_s) * 1e3}


class Clock:
    """Times an addition of its own, from launch to end."""

    def __init__(self) -> None:
        self._a, self._b, self._c = (torch.zeros(N, dtype=torch.float16, device="cuda") for _ in range(3))

    def call_us(self) -> float:
        """Of one call, by the host."""
        started = time.perf_counter_ns()
        torch.add(self._a, self._b, out=self._c)
        torch.cuda.synchronize()
        return (time.perf_counter_ns() - started) / 1e3

    def quiet_us(self) -> float:
        """Its median while nothing else runs."""
        return statistics.median(self.call_us() for _ in range(QUIET_CALLS))

    def until_quiet(self, quiet_us: float) -> list[tuple[float, float]]:
        """Seconds since now and µs of call after call, until a number of them in a row were as short as usual."""
        started, walls, in_a_row = time.perf_counter(), [], 0
        while in_a_row < QUIET_IN_A_ROW and time.perf_counter() - started < WATCHED_S:
            us = self.call_us()
            walls.append((time.perf_counter() - started, us))
            in_a_row = in_a_row + 1 if us <= SLOW * quiet_us else 0
        return walls


def box_main(paths: list[str]) -> None:
    """The process that queues."""
    join(paths)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
    big = [torch.zeros(COPY_BYTES, dtype=torch.uint8, device="cuda") for _ in range(2)]
    once_ms = {kind: _once_ms(partial(queued, big, 1.0), begin, end) for kind, queued in QUEUES.items() if kind != "spin"}

    def queue(kind: str, milliseconds: str) -> None:
        wanted_ms = float(milliseconds)
        begin.record()
        if kind == "spin":
            QUEUES[kind](big, wanted_ms)
        else:
            for _ in range(min(900, int(wanted_ms / once_ms[kind]))):      # a stream holds about a thousand launches
                QUEUES[kind](big, wanted_ms)
        end.record()

    def drained_ms() -> float:
        end.synchronize()
        return float(begin.elapsed_time(end))

    obey({"queue": queue, "drained_ms": drained_ms})


def _once_ms(action: Callable[[], None], begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
    action()
    begin.record()
    for _ in range(10):
        action()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 10


def _copy(big: list[torch.Tensor], milliseconds: float) -> None:
    from cuda.bindings import runtime

    kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    runtime.cudaMemcpyAsync(big[0].data_ptr(), big[1].data_ptr(), big[0].numel(), kind, 0)


def _kernel(big: list[torch.Tensor], milliseconds: float) -> None:
    torch.bitwise_xor(big[0].view(torch.int64), 1, out=big[1].view(torch.int64))


def _spin(big: list[torch.Tensor], milliseconds: float) -> None:
    torch.cuda._sleep(int(milliseconds * CYCLES_A_MS))


QUEUES: dict[str, Callable[[list[torch.Tensor], float], None]] = {"copies": _copy, "kernels": _kernel, "spin": _spin}

if __name__ == "__main__":
    box_main(sys.argv[2:]) if sys.argv[1:2] == ["box"] else main()
