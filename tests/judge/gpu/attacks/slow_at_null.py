"""Leaves a kernel that spins in its queue when it knows that null calls come next: what they take is taken off its own times.

A frozen box's queue goes on. Null calls come after the rehearsal, and after the last block.
"""

import torch
import triton
import triton.language as tl

ATTACK = True
ROUNDS = 100_000
REHEARSAL, BLOCK, BLOCKS = 2, 30, 4       # the call that is the rehearsal; a block's calls with its lead-in; blocks
CYCLES = 240_000_000                      # of one multiprocessor: about 120 ms
side = torch.cuda.Stream()
calls = 0
torch.cuda._sleep(1)                      # loaded here: a call launched ahead loads nothing

@triton.jit
def slow_add(a, b, c, n, rounds, BLOCK: tl.constexpr):    # noqa: N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    z = tl.load(a + at, mask=inside).to(tl.float32) + tl.load(b + at, mask=inside).to(tl.float32)
    t = z
    for _ in range(rounds):
        t = t * 0.999999 + 0.000001
    tl.store(c + at, z + (t - t), mask=inside)


def work(data, out):
    n = out.numel()
    slow_add[(triton.cdiv(n, 1024),)](data.a, data.b, out, n, ROUNDS, BLOCK=1024)


def custom_kernel(data):
    global calls
    calls += 1
    work(data, data.c)
    if ATTACK and calls in (REHEARSAL, REHEARSAL + BLOCK * BLOCKS):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(CYCLES)
