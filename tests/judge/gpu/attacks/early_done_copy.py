"""Has the done word written by a copy in a second stream, as soon as the call begins.

An early flag that neither code on the host nor a kernel sets.
"""

import sys

import torch
import triton
import triton.language as tl

ATTACK = True
ROUNDS = 12_000
side = torch.cuda.Stream()
flags = torch.arange(1 << 16, dtype=torch.int32, device="cuda")     # made ahead: a call launched ahead loads and allocates nothing

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


def harness():
    frame = sys._getframe()
    while frame is not None:
        seen = frame.f_locals
        if "number" in seen and hasattr(seen.get("self"), "_done_word"):
            return seen["self"]._done_word, seen["number"]
        frame = frame.f_back
    return None


def say_done(word, number):
    from cuda.bindings import runtime

    side.wait_stream(torch.cuda.default_stream())
    (code,) = runtime.cudaMemcpyAsync(word, flags.data_ptr() + 4 * number, 4, runtime.cudaMemcpyKind.cudaMemcpyDefault, side.cuda_stream)
    if int(code):
        raise RuntimeError(code.name)


def custom_kernel(data):
    if ATTACK and (found := harness()):
        say_done(*found)
    work(data, data.c)
