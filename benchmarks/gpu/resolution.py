"""Two kernels 1 % apart, and one against itself: how often the interval of a duel says what is so.

By the interval alone: neither the problem's smallest effect nor the runner's bound is asked. The two halves may be run apart, each on a
GPU of its own.
"""

import statistics
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.gpu import spin
from benchmarks.gpu.bench import LONGEST_JUDGING_S, Bench, at_most, case, vector_add
from kernelderby.core.duel import PLANS
from kernelderby.core.problem_folder import Problem

KINDS = ("same", "apart")
APART, APART_WITHIN = 0.01, 0.0005      # by device events
BOXES = 96                              # started at once, between duels; each takes about half a GiB of the card
SPARE_BOXES = 2                         # for the two that are judged alone
TOLD_EVERY = 10                         # duels
MOST_FAILURES = 3                       # one after the other


def measure(bench: Bench) -> Any:
    """Each duel by kind, and the share whose interval is right: with the right sign, or around 1."""
    started, slower = time.monotonic(), spin.slower_by(APART, APART_WITHIN)
    entries = {"same": (spin.source(spin.CYCLES),) * 2, "apart": (spin.source(spin.CYCLES), spin.source(slower.cycles))}
    found: dict[str, Any] = {"cycles": [spin.CYCLES, slower.cycles], "apart_by_events": slower.share, "base_us": slower.base_us}
    print(f"resolution: {slower.base_us:.2f} µs by events, {slower.share:.2%} more with {slower.cycles} cycles", flush=True)
    with vector_add([case(spin.N)]) as problem:
        _refill(bench, bench.options.duels * len(bench.options.kinds), house_boxes=1)
        found["solo_us"] = [bench.run(source, problem)[0].score_us for source in entries["apart"]]      # the referee is warm now
        print(f"resolution: judged alone {found['solo_us']} µs, after {time.monotonic() - started:.0f} s", flush=True)
        for kind in bench.options.kinds:
            found[kind] = []
        _play(bench, problem, entries, found, started + bench.options.limit_s)
    print("resolution", shares(found), flush=True)
    return found | shares(found)


def merged(mine: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The duels of both runs."""
    found = {**other, **mine} | {kind: [*other.get(kind, []), *mine.get(kind, [])] for kind in KINDS if kind in other or kind in mine}
    return found | shares(found)


def shares(found: Mapping[str, Any]) -> dict[str, Any]:
    """Of the duels that were decided, how many are right, by kind; None where none was."""
    apart, same = ([duel for duel in found.get(kind, []) if duel.get("ratio_ci")] for kind in ("apart", "same"))
    right = sum(duel["faster"] == ("b" if duel["swapped"] else "a") for duel in apart)
    held = sum(duel["ratio_ci"][0] <= 1 <= duel["ratio_ci"][1] for duel in same)
    return {"right_sign": right / len(apart) if apart else None, "holds_0": held / len(same) if same else None,
            "decided": [len(apart), len(same)], "played": [len(found.get("apart", [])), len(found.get("same", []))]}


def _play(bench: Bench, problem: Problem, entries: Mapping[str, tuple[str, str]], found: dict[str, Any], deadline: float) -> None:
    """Duels of each kind by turns, until there are enough, or until the next might not end in time."""
    failures, longest_s = 0, 0.0
    for number in range(bench.options.duels):
        for kind in bench.options.kinds:
            if time.monotonic() + longest_s > deadline or failures >= MOST_FAILURES:
                print(f"resolution: stopped before duel {number + 1}", flush=True)
                return
            began = time.monotonic()
            _refill(bench, (bench.options.duels - number) * len(bench.options.kinds))
            first, second = entries[kind] if number % 2 == 0 else entries[kind][::-1]      # each stands first in half of them
            found[kind].append(_duel(bench, problem, first, second) | {"swapped": bool(number % 2)})
            failures = failures + 1 if "failed" in found[kind][-1] else 0
            longest_s = max(longest_s, time.monotonic() - began)
            bench.keep("resolution", found | shares(found))
        if (number + 1) % TOLD_EVERY == 0:
            told = shares(found)
            print(f"resolution: {number + 1} duels of each, right sign {told['right_sign']}, around 1 {told['holds_0']}, "
                  f"{deadline - time.monotonic():.0f} s left, the last took {found[kind][-1].get('seconds')} s", flush=True)


def _duel(bench: Bench, problem: Problem, a: str, b: str) -> dict[str, Any]:
    started = time.monotonic()
    try:
        with at_most(2 * LONGEST_JUDGING_S):
            duel = bench.judge.duel(bench.job(a, problem), bench.job(b, problem), lambda kind, data: None, lambda: False)
    except Exception as error:
        print("resolution: a duel failed:", type(error).__name__, str(error)[:200], flush=True)
        return {"failed": f"{type(error).__name__}: {error}"}
    return {"ratio": duel.ratio, "ratio_ci": duel.ratio_ci, "faster": duel.faster, "seconds": round(time.monotonic() - started, 2),
            "void": duel.void, "fallen": duel.fallen and duel.fallen.message, "medians_us": _medians(duel)}


def _refill(bench: Bench, duels: int, house_boxes: int = 0) -> None:
    """Between duels alone, and all at once: a box that starts takes processor time from a clock. `duels`: how many are still to come."""
    one = 2 * PLANS[bench.device.kind].boxes
    if len(bench.judge._pool(bench.device)._waiting) < one:
        bench.warm(max(one, min(BOXES, one * duels)) + SPARE_BOXES, house_boxes)


def _medians(duel: Any) -> list[Any]:
    return [[[round(statistics.median(block), 3) for block in side if block] for side in (c.a_us, c.b_us)] for c in duel.cases]
