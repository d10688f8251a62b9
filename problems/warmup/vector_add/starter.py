#!POPCORN leaderboard vector_add
"""Vector addition in Triton: each program adds one block of elements."""

import triton
import triton.language as tl

BLOCK = 4096   # elements a program; on the CPU class Triton is interpreted, and few large programs run fastest


@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n                      # n need not be a multiple of BLOCK
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


def custom_kernel(data):
    n = data.c.numel()
    add[(triton.cdiv(n, BLOCK),)](data.a, data.b, data.c, n, BLOCK=BLOCK)
