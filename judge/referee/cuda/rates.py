"""Two kernels that do one thing as fast as a GPU can: read memory, compute exponentials."""

from typing import Any

import torch
import triton
import triton.language as tl

READ_BLOCK = 8192
EXP_BLOCK, EXP_ROUNDS = 1024, 2048     # values a program, exponentials of each
_READ_WARPS, _EXP_WARPS = 8, 4


@triton.jit    # type: ignore[untyped-decorator]
def _read(source, target, BLOCK: tl.constexpr):    # type: ignore[no-untyped-def]  # noqa: N803
    words = tl.load(source + tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK))
    if tl.sum(words) == 1:      # never, as the memory is zero: the sum must be made, and nothing is written
        tl.store(target, 1)


@triton.jit    # type: ignore[untyped-decorator]
def _exp(target, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):    # type: ignore[no-untyped-def]  # noqa: N803
    x = tl.arange(0, BLOCK).to(tl.float32) / BLOCK
    for _ in range(ROUNDS):
        x = tl.exp2(-x)      # stays between 0 and 1
    tl.store(target + tl.arange(0, BLOCK), x)


def read(source: torch.Tensor, target: torch.Tensor) -> None:
    """Read every word of `source` (int32, zeros, a multiple of READ_BLOCK long)."""
    _launched(_read, source.numel() // READ_BLOCK, source, target, BLOCK=READ_BLOCK, num_warps=_READ_WARPS)


def exp(target: torch.Tensor, programs: int) -> None:
    """EXP_BLOCK × EXP_ROUNDS exponentials in each of so many programs. `target` holds EXP_BLOCK float32."""
    _launched(_exp, programs, target, BLOCK=EXP_BLOCK, ROUNDS=EXP_ROUNDS, num_warps=_EXP_WARPS)


def _launched(kernel: Any, programs: int, *arguments: Any, **options: Any) -> None:
    kernel[(programs,)](*arguments, **options)
