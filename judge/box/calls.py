"""Serving armed calls: wait for the referee's go, run, tell that it is done. The clock here is for show; the referee's counts."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelderby.judge.box.fault import Fault
from kernelderby.judge.box.pages import CALL, FAILED, OK, STATUS, STOP, Page

_SLICE_S = 0.05    # between two looks at the stop word and the wire, where no wake-up came


@dataclass(frozen=True, kw_only=True)
class Pages:
    """The two flags: the referee's, which is read here, and ours."""

    go: Page
    done: Page


@dataclass(kw_only=True)
class Served:
    """What an arm came to."""

    claimed_us: list[float] = field(default_factory=list)    # one for each call that ended well
    fault: Fault | None = None                               # the last call's, after which no more are served


def serve_calls(call: Callable[[], None], numbers: range, pages: Pages, is_over: Callable[[], bool]) -> Served:
    """Serve the calls of these numbers. Ends early at the stop word, after a fault, or when `is_over`: the referee spoke or is gone."""
    served = Served()
    pages.done.write(STATUS, OK)
    for number in numbers:
        if not may_start(number, pages.go, is_over):
            break
        started = time.perf_counter_ns()
        try:
            call()
        except Fault as fault:
            served.fault = fault
            pages.done.write(STATUS, FAILED)
        else:
            served.claimed_us.append(round((time.perf_counter_ns() - started) / 1000, 3))
        pages.done.write(CALL, number)
        pages.done.wake(CALL)
        if served.fault:
            break
    return served


def may_start(number: int, go: Page, is_over: Callable[[], bool]) -> bool:
    """Wait for the go page's word; False when no more calls come."""
    seen = go.read(CALL)
    while seen < number:
        if go.read(STOP):
            return False
        seen = go.wait(CALL, seen, _SLICE_S)
        if seen < number and is_over():
            return False
    return True
