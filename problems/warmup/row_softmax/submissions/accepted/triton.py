"""Online softmax: rows of any width in blocks, the running maximum and sum first, then the answer. In base 2, as attention kernels do it."""
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def softmax(x, y, cols, BLOCK: tl.constexpr):
    LOG2E: tl.constexpr = 1.4426950408889634
    start = tl.program_id(0).to(tl.int64) * cols
    top = tl.full([BLOCK], -float("inf"), tl.float32)          # a running maximum and sum for each lane
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, cols, BLOCK):
        at = first + tl.arange(0, BLOCK)
        part = tl.load(x + start + at, mask=at < cols, other=-float("inf")).to(tl.float32) * LOG2E
        new_top = tl.maximum(top, part)
        seen = new_top > -float("inf")                         # -inf - -inf would be NaN
        total = tl.where(seen, total * tl.exp2(tl.where(seen, top - new_top, 0.0)) + tl.exp2(tl.where(seen, part - new_top, 0.0)), 0.0)
        top = new_top
    row_top = tl.max(top, axis=0)
    row_total = tl.sum(total * tl.exp2(top - row_top), axis=0)
    for first in range(0, cols, BLOCK):
        at = first + tl.arange(0, BLOCK)
        part = tl.load(x + start + at, mask=at < cols, other=-float("inf")).to(tl.float32) * LOG2E
        tl.store(y + start + at, (tl.exp2(part - row_top) / row_total).to(y.dtype.element_ty), mask=at < cols)


def custom_kernel(data):
    rows, cols = data.x.shape
    softmax[(rows,)](data.x, data.y, cols, BLOCK=BLOCK)
