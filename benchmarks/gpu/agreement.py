"""The referee's number beside the box's own device events of the very same calls: an honest box's events are right."""

import statistics
import time
from typing import Any

import torch

from benchmarks.gpu.bench import Bench, case, vector_add
from kernelderby.core.settings import ROOT

SHARE, US = 0.01, 1.0      # they may lie so far apart
SIZES = [2_097_152, 4_194_304, 16_777_216, 67_108_864, 268_435_456, 1_000_001, 1_000_003, 1_000_005, 33_554_432, 50_331_648]
KERNEL = ROOT / "benchmarks/gpu_kernels/slow_add.py"


def measure(bench: Bench) -> Any:
    """A row a kernel, 10 µs to 5 ms: memory-bound, compute-bound, many launches, a CUDA graph."""
    empty_us = event_of_nothing()
    bench.warm(2)
    with vector_add([case(n) for n in SIZES]) as problem:
        verdict, seconds = bench.run(KERNEL.read_bytes(), problem)
    print("agreement", verdict.outcome, verdict.message, round(seconds, 2), "s; an event pair around nothing", empty_us, flush=True)
    rows = [_row(result, empty_us) for result in verdict.cases if result.time_us is not None]
    return {"empty_event_us": empty_us, "rows": rows, "seconds": seconds, "verdict": verdict.model_dump(mode="json")}


def _row(result: Any, empty_us: float) -> dict[str, Any]:
    event_us = result.claimed_us - empty_us
    apart_us = result.time_us - event_us
    holds = abs(apart_us) <= SHARE * event_us + US
    print(f"{result.name:14s} referee {result.time_us:9.2f}  event {event_us:9.2f}  difference {apart_us:+7.2f} µs "
          f"{'ok' if holds else 'NOT'} armed {result.armed}", flush=True)
    return {"case": result.name, "referee_us": result.time_us, "event_us": event_us, "difference_us": apart_us, "holds": holds}


def event_of_nothing() -> float:
    """What a pair of events shows around no work at all, behind a wait as calls have it, in µs."""
    from kernelderby.judge.box.cuda import driver

    word = torch.zeros(2, dtype=torch.int64).pin_memory()
    taken = []
    for i in range(1, 101):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        driver.wait_until(driver.LEGACY, word.data_ptr(), i)
        begin.record(torch.cuda.default_stream())
        end.record(torch.cuda.default_stream())
        driver.write_word(driver.LEGACY, word.data_ptr() + 8, i)
        time.sleep(0.0002)
        word[0] = i
        torch.cuda.synchronize()
        taken.append(float(begin.elapsed_time(end)) * 1000)
    return statistics.median(taken)
