#!POPCORN leaderboard row_softmax
"""Lets Triton choose among two launches."""
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({}, num_warps=4), triton.Config({}, num_warps=8)], key=["cols"])
@triton.jit
def softmax(x, y, cols, block: tl.constexpr):
    start = tl.program_id(0) * cols
    at = tl.arange(0, block)
    row = tl.load(x + start + at, mask=at < cols, other=-float("inf")).to(tl.float32)
    weights = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + start + at, (weights / tl.sum(weights, axis=0)).to(y.dtype.element_ty), mask=at < cols)


def custom_kernel(data):
    rows, cols = data.x.shape
    softmax[(rows,)](data.x, data.y, cols, block=triton.next_power_of_2(cols))
