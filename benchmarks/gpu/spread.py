"""The score of an unchanged kernel over separate judgings, beside two rules of timers inside the contestant's process."""

import statistics
from typing import Any

import torch

from benchmarks.gpu.bench import Bench, case, vector_add
from benchmarks.gpu.gallery import HONEST
from kernelderby.core.verdict import Mode

N = 67_108_864
RULES = ("judge", "do_bench", "incumbent")
ENOUGH, MOST_CALLS = 0.001, 100     # the incumbent stops at this relative error of the mean, or after so many calls


def measure(bench: Bench) -> Any:
    """Scores in µs by rule, and each one's coefficient of variation."""
    found: dict[str, Any] = _judgings(bench)
    both = [in_process(N) for _ in range(bench.options.judgings)]
    found |= {"do_bench": [median for median, _ in both], "incumbent": [mean for _, mean in both]}
    found["variation"] = {rule: statistics.stdev(found[rule]) / statistics.mean(found[rule]) for rule in RULES}
    for rule in RULES:
        print(f"spread {rule:10s} mean {statistics.mean(found[rule]):8.2f} µs, coefficient of variation "
              f"{found['variation'][rule]:.3%}", flush=True)
    return found


def _judgings(bench: Bench) -> dict[str, Any]:
    scores, seconds, rows = [], [], []
    with vector_add([case(N)]) as problem:
        bench.warm(bench.options.judgings + 2)
        bench.run(HONEST, problem, Mode.TEST)
        for _ in range(bench.options.judgings):
            verdict, took = bench.run(HONEST, problem)
            if verdict.score_us is None:
                print("spread: a judging without a score:", verdict.outcome, verdict.message, flush=True)
                continue
            scores.append(verdict.score_us)
            seconds.append(took)
            receipt = verdict.receipt or {}
            rows.append({"null_us": receipt.get("null_us"), "claimed_us": verdict.cases[0].claimed_us, "net_us": receipt.get("blocks_us")})
    return {"rows": rows, "judge": scores, "seconds": seconds}


def in_process(n: int) -> tuple[float, float]:
    """Triton's do_bench median, and a mean of events that stops at 0.1 % error or 100 calls: µs."""
    import triton

    a, b = (torch.randn(n, device="cuda").half() for _ in "ab")
    c = torch.empty_like(a)
    median = triton.testing.do_bench(lambda: torch.add(a, b, out=c), return_mode="median") * 1000
    taken: list[float] = []
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    while len(taken) < MOST_CALLS:
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        begin.record()
        torch.add(a, b, out=c)
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) * 1000)
        if len(taken) > 2 and statistics.stdev(taken) / len(taken) ** 0.5 < ENOUGH * statistics.mean(taken):
            break
    return median, statistics.mean(taken)
