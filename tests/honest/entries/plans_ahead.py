#!POPCORN leaderboard vector_add
"""Chooses its launch in `plan`, keeps it by shape, and looks it up in every call."""
import triton
import triton.language as tl

launches = {}


@triton.jit
def add(a, b, c, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(c + at, tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)


def plan(data):
    n = data.c.numel()
    block = min(8192, triton.next_power_of_2(n))
    launches[n] = ((triton.cdiv(n, block),), block)


def custom_kernel(data):
    n = data.c.numel()
    grid, block = launches[n]
    add[grid](data.a, data.b, data.c, n, block=block)
