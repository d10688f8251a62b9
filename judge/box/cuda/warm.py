"""One Triton kernel, compiled while a box warms up."""

import torch
import triton
import triton.language as tl


@triton.jit    # type: ignore[untyped-decorator]
def _touch(at, BLOCK: tl.constexpr):    # type: ignore[no-untyped-def]  # noqa: N803
    tl.store(at + tl.arange(0, BLOCK), 1.0)


def touch() -> None:
    """Compile and run it."""
    _touch[(1,)](torch.empty(32, device="cuda"), BLOCK=32)
    torch.cuda.synchronize()
