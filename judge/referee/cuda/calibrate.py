"""`python -m kernelderby.judge.referee.cuda.calibrate`: what this GPU reaches, as one JSON object on the last line of stdout.

Each rate is the best of many launches: a ceiling is what nobody gets past, not what is usual. Nothing else may run on the GPU.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch

from kernelderby.core.light import Ceilings
from kernelderby.judge.referee.cuda import rates
from kernelderby.judge.referee.cuda.machine import machine, this_gpu
from kernelderby.judge.referee.steadiness import Gauge, Reading

SIDES = (4096, 8192)         # of square matrices; which is quicker depends on how tiles fall on multiprocessors, and on power
MEMORY_BYTES = 4 << 30       # many times every cache
LAUNCHES = 20
LOAD_S = 1.0                 # sustained, of each kind
READ_EVERY_S = 0.05
MATRIX_DTYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2", "int8")


def main() -> None:
    """Measure, and print."""
    torch.set_float32_matmul_precision("high")      # TF32: the highest rate that float32 operands can reach, as in the data sheets
    seconds: dict[str, float] = {}
    flops = _timed("matrix", seconds, matrix_rates)
    memory = _timed("memory", seconds, memory_rates)
    exps = _timed("exp", seconds, exp_rate)
    load = _timed("load", seconds, lambda: under_load(this_gpu()))
    ceilings = Ceilings(flops={name: rate for name, rate in flops.items() if rate}, bytes=max(memory.values()), exps=exps,
                        cache_bytes=machine()["l2_bytes"])
    print(json.dumps({"measured": asdict(ceilings), "memory": memory, "load": load, "seconds": seconds, "torch": str(torch.__version__)}))


def matrix_rates() -> dict[str, float | None]:
    """Floating-point operations a second by operand dtype; None where this torch has no such product."""
    return {name: max((rate for side in SIDES if (rate := _matrix_rate(name, side))), default=None) for name in MATRIX_DTYPES}


def memory_rates() -> dict[str, float]:
    """Bytes a second: reading, and copying (each byte counts twice)."""
    source = torch.zeros(MEMORY_BYTES // 4, dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    return {"read": MEMORY_BYTES / best_s(lambda: rates.read(source, target)),
            "copy": 2 * MEMORY_BYTES / best_s(lambda: target.copy_(source))}


def exp_rate() -> float:
    """Exponentials a second."""
    programs = 16 * int(torch.cuda.get_device_properties(0).multi_processor_count)
    target = torch.empty(rates.EXP_BLOCK, device="cuda")
    return programs * rates.EXP_BLOCK * rates.EXP_ROUNDS / best_s(lambda: rates.exp(target, programs))


def under_load(gauged: Gauge) -> dict[str, list[dict[str, Any]]]:
    """How the GPU is while it copies, and while it multiplies, for a second each."""
    source = torch.empty(MEMORY_BYTES // 4, dtype=torch.int32, device="cuda")
    target, matrix = torch.empty_like(source), torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    product = torch.empty_like(matrix)
    return {"copy": _readings(gauged, lambda: target.copy_(source)),
            "matrix": _readings(gauged, lambda: torch.mm(matrix, matrix, out=product))}


def best_s(launch: Callable[[], Any], launches: int = LAUNCHES) -> float:
    """The shortest of some launches, in seconds, by device events; the first, which compiles, is left out."""
    launch()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(launches)]
    torch.cuda.synchronize()
    for begin, end in events:
        begin.record()
        launch()
        end.record()
    torch.cuda.synchronize()
    return float(min(begin.elapsed_time(end) for begin, end in events)) / 1000


def _matrix_rate(name: str, side: int) -> float | None:
    try:
        return 2 * side**3 / best_s(_product(name, side))
    except (RuntimeError, AttributeError, ValueError):
        return None


def _product(name: str, side: int) -> Callable[[], Any]:
    """One product of square matrices with operands of this dtype. Raises RuntimeError or AttributeError where torch has none."""
    dtype = getattr(torch, name)
    if name == "int8":
        a, b = (torch.randint(-128, 127, (side, side), dtype=dtype, device="cuda") for _ in "ab")
        return lambda: torch._int_mm(a, b.t())
    a, b = (torch.randn(side, side, device="cuda").to(dtype) for _ in "ab")
    if not name.startswith("float8"):
        out = torch.empty_like(a)
        return lambda: torch.mm(a, b, out=out)
    other, one = b.to(torch.float8_e4m3fn).t(), torch.ones((), device="cuda")     # torch has no product of two e5m2 operands
    return lambda: torch._scaled_mm(a, other, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)


def _readings(gauged: Gauge, launch: Callable[[], Any]) -> list[dict[str, Any]]:
    """Never an idle moment: a few launches wait all the time, and the gauge is read while they run."""
    readings: list[Reading] = []
    launch()
    torch.cuda.synchronize()
    began = read_at = time.monotonic()
    while (now := time.monotonic()) - began < LOAD_S:
        done = torch.cuda.Event()
        for _ in range(4):
            launch()
        done.record()
        if now - read_at > READ_EVERY_S:
            readings.append(gauged.read())
            read_at = now
        done.synchronize()
    return [asdict(reading) for reading in readings]


def _timed(name: str, seconds: dict[str, float], measure: Callable[[], Any]) -> Any:
    started = time.monotonic()
    found = measure()
    torch.cuda.empty_cache()
    seconds[name] = round(time.monotonic() - started, 3)
    return found


if __name__ == "__main__":
    main()
