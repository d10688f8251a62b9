"""Vector addition that takes as long as its size asks for: memory-bound, compute-bound, many launches, or a CUDA graph."""

import torch
import triton
import triton.language as tl

ROUNDS = {1_000_001: 3_000, 1_000_003: 30_000, 1_000_005: 160_000}      # n: rounds of arithmetic
LAUNCHES = {33_554_432: 5}
GRAPHS = {50_331_648}
graphs = {}


@triton.jit
def slow_add(a, b, c, n, rounds, BLOCK: tl.constexpr):    # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    z = tl.load(a + at, mask=inside).to(tl.float32) + tl.load(b + at, mask=inside).to(tl.float32)
    t = z
    for _ in range(rounds):
        t = t * 0.999999 + 0.000001
    tl.store(c + at, z + (t - t), mask=inside)


def custom_kernel(data):
    n = data.c.numel()
    if n in ROUNDS:
        slow_add[(triton.cdiv(n, 1024),)](data.a, data.b, data.c, n, ROUNDS[n], BLOCK=1024)
        return
    if n in GRAPHS:
        replay(data)
        return
    for _ in range(LAUNCHES.get(n, 1)):
        torch.add(data.a, data.b, out=data.c)


def replay(data):
    key = data.c.data_ptr(), data.c.numel()
    if key not in graphs:
        torch.add(data.a, data.b, out=data.c)
        torch.cuda.synchronize()
        graphs[key] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[key]):
            torch.add(data.a, data.b, out=data.c)
    graphs[key].replay()
