import triton
import triton.language as tl


@triton.jit
def far_away(p):
    tl.store(p + (tl.program_id(0).to(tl.int64) << 44), 1.0)


def custom_kernel(data):
    far_away[(64,)](data.c)
