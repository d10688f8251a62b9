"""Forgets the mask: the last program writes past the end of c."""
import triton
import triton.language as tl


@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(c + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside))


def custom_kernel(data):
    n = data.c.numel()
    add[(triton.cdiv(n, 2048),)](data.a, data.b, data.c, n, BLOCK=2048)
