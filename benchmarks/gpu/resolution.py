"""Two kernels 1 % apart, and one against itself: how often the interval of a duel says what is so.

By the interval alone: neither the problem's smallest effect nor the runner's bound is asked.
"""

import statistics
import time
from typing import Any

from benchmarks.gpu.bench import LONGEST_JUDGING_S, Bench, at_most, case, vector_add
from kernelderby.core.problem_folder import Problem

N = 262_144                 # the addition itself takes about 2 µs
CYCLES = 300_000            # of spinning: about 150 µs on Hopper
APART = 0.01
BOXES = 40                  # started at once; each takes about half a GiB of the card
BOXES_A_DUEL = 16           # at most, of both entries


def spinning(cycles: int) -> str:
    """An entry that spins so many cycles of the multiprocessors' clock before it adds."""
    return f"import torch\ndef custom_kernel(data):\n    torch.cuda._sleep({cycles})\n    torch.add(data.a, data.b, out=data.c)\n"


def measure(bench: Bench) -> Any:
    """Shares of duels whose interval is right: with the right sign, or around 1."""
    slower = _slower_cycles(bench)
    kinds = {"apart": (spinning(CYCLES), spinning(slower)), "same": (spinning(CYCLES), spinning(CYCLES))}
    found: dict[str, Any] = {"cycles": [CYCLES, slower], "apart": [], "same": []}
    with vector_add([case(N)]) as problem:
        for number in range(bench.options.duels):
            for name, (first, second) in kinds.items():
                a, b = (first, second) if number % 2 == 0 else (second, first)      # each stands first in half of them
                found[name].append(_duel(bench, problem, a, b) | {"swapped": bool(number % 2)})
                bench.keep("resolution", found | _shares(found))
    shares = _shares(found)
    print("resolution", shares, flush=True)
    return found | shares


def _slower_cycles(bench: Bench) -> int:
    """How many cycles make the whole entry 1 % slower: the addition takes some time too."""
    with vector_add([case(N)]) as problem:
        bench.warm(4)
        verdicts = [bench.run(spinning(cycles), problem)[0] for cycles in (CYCLES, 2 * CYCLES)]
    once, twice = (verdict.score_us for verdict in verdicts)
    if once is None or twice is None:
        raise RuntimeError(f"The spinning entry was not accepted: {[(v.outcome, v.message) for v in verdicts]}")
    cycles_a_us = CYCLES / (twice - once)
    print(f"resolution: {once:.2f} and {twice:.2f} µs, {cycles_a_us:.1f} cycles a µs", flush=True)
    return round(CYCLES + APART * once * cycles_a_us)


def _duel(bench: Bench, problem: Problem, a: str, b: str) -> dict[str, Any]:
    _refill(bench)
    started = time.monotonic()
    try:
        with at_most(2 * LONGEST_JUDGING_S):
            duel = bench.judge.duel(bench.job(a, problem), bench.job(b, problem), lambda kind, data: None, lambda: False)
    except Exception as error:
        print("resolution: a duel failed:", type(error).__name__, str(error)[:200], flush=True)
        return {"failed": f"{type(error).__name__}: {error}"}
    return {"ratio": duel.ratio, "ratio_ci": duel.ratio_ci, "faster": duel.faster, "seconds": round(time.monotonic() - started, 2),
            "void": getattr(duel, "void", None), "medians_us": _medians(duel)}


def _refill(bench: Bench) -> None:
    """Between duels alone: a box that starts takes processor time from a clock."""
    if len(bench.judge._pool(bench.device)._waiting) < BOXES_A_DUEL:
        bench.warm(BOXES)


def _medians(duel: Any) -> list[Any]:
    return [[[round(statistics.median(block), 3) for block in side if block] for side in (c.a_us, c.b_us)] for c in duel.cases]


def _shares(found: dict[str, Any]) -> dict[str, Any]:
    """Of the duels that were decided, how many are right."""
    apart = [duel for duel in found["apart"] if duel.get("ratio_ci")]
    same = [duel for duel in found["same"] if duel.get("ratio_ci")]
    right = sum(duel["faster"] == ("b" if duel["swapped"] else "a") for duel in apart)
    held = sum(duel["ratio_ci"][0] <= 1 <= duel["ratio_ci"][1] for duel in same)
    return {"right_sign": right / len(apart) if apart else None, "holds_0": held / len(same) if same else None,
            "decided": [len(apart), len(same)], "played": [len(found["apart"]), len(found["same"])]}
