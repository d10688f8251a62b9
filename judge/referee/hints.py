"""Saying what is wrong with an output: where, what was expected, how much of it, and which pattern it looks like."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from kernelderby.core.problem import OutputSpec

_CLOSE = 1e-2   # of the whole's norm: a pattern that explains all but this much is named
_SHARE = 0.5    # of an axis: "only the last" is said of at most this much


@dataclass(frozen=True)
class Wrong:
    """A comparison that failed. `have` and `want` are [rows looked at, row length]; `bad` marks their wrong elements."""

    name: str
    spec: OutputSpec
    got: torch.Tensor              # the whole output
    have: torch.Tensor
    want: torch.Tensor
    rows: torch.Tensor | None      # flat indices of the rows looked at; None: all
    bad: torch.Tensor


def describe(wrong: Wrong) -> str:
    """One or two sentences for the contestant."""
    index, got, expected = _worst(wrong)
    count, of = int(wrong.bad.sum()), wrong.bad.numel()
    place = f"[{', '.join(map(str, index))}]" if index else ""
    said = f"{wrong.name}{place} is {got:.6g}, expected {expected:.6g}; {count:,} of {of:,} checked values are wrong."
    hint = next(filter(None, (look(wrong) for look in PATTERNS)), None)
    return f"{said} {hint}" if hint else said


def _worst(wrong: Wrong) -> tuple[tuple[int, ...], float, float]:
    """Index in the whole output, value and expected value of the first wrong element."""
    row, column = (int(i) for i in wrong.bad.nonzero()[0])
    whole_row = row if wrong.rows is None else int(wrong.rows[row])
    flat = whole_row * wrong.bad.shape[1] + column
    return _unravel(flat, tuple(wrong.got.shape)), float(wrong.have[row, column]), float(wrong.want[row, column])


def _all_one_value(wrong: Wrong) -> str | None:
    first = float(wrong.have.flatten()[0])
    if wrong.have.numel() < 2 or not bool((wrong.have == first).all()):
        return None
    return "The output is all zeros." if first == 0 else f"Every value of the output is {first:.6g}."


def _lse_base(wrong: Wrong) -> str | None:
    if wrong.spec.base is None:
        return None
    factor = math.log(2) if wrong.spec.base == 2 else 1 / math.log(2)
    if not _explains(wrong, wrong.have / factor):
        return None
    wanted, given = ("base 2", "base e") if wrong.spec.base == 2 else ("base e", "base 2")
    return f"It looks like a log-sum-exp in {given}; this problem asks for {wanted}."


def _scaled(wrong: Wrong) -> str | None:
    have, want = _finite(wrong)
    if not (norm := float(want.square().sum())):
        return None
    ratio = float((have * want).sum()) / norm
    if not math.isfinite(ratio) or abs(ratio) < 1e-6 or abs(ratio - 1) < 1e-3 or not _explains(wrong, wrong.have / ratio):
        return None
    return f"The output looks scaled: it is {ratio:.4g} times what is expected."


def _transposed(wrong: Wrong) -> str | None:
    if wrong.rows is not None:
        return None
    shape = list(wrong.got.shape)
    want = wrong.want.reshape(shape)
    for a, b in ((i, j) for i in range(len(shape)) for j in range(i + 1, len(shape))):
        if min(shape[a], shape[b]) < 2:
            continue
        swapped = list(shape)
        swapped[a], swapped[b] = shape[b], shape[a]
        if _explains(wrong, wrong.have.reshape(swapped).transpose(a, b).reshape(wrong.want.shape), want.reshape(wrong.want.shape)):
            return f"The output looks transposed: axes {a} and {b} are swapped."
    return None


def _last_part(wrong: Wrong) -> str | None:
    if wrong.rows is not None:
        return None
    bad = wrong.bad.reshape(wrong.got.shape)
    for axis, size in enumerate(bad.shape):
        others = [i for i in range(bad.dim()) if i != axis]
        along = bad.any(others) if others else bad
        first = int(along.nonzero()[0])
        if 0 < size - first <= _SHARE * size and bool(along[first:].all()):
            return f"Only the last {size - first} of {size} along axis {axis} are wrong: is the last block complete, its mask right?"
    return None


def _explains(wrong: Wrong, corrected: torch.Tensor, want: torch.Tensor | None = None) -> bool:
    """Whether the corrected output is what was expected, but for a small share."""
    want = wrong.want if want is None else want
    mask = want.isfinite() & corrected.isfinite()
    if not bool(mask.any()) or int(mask.sum()) < 2:
        return False
    error, norm = (float(t[mask].square().sum()) for t in (corrected - want, want))
    return norm > 0 and error <= _CLOSE**2 * norm


def _finite(wrong: Wrong) -> tuple[torch.Tensor, torch.Tensor]:
    mask = wrong.want.isfinite() & wrong.have.isfinite()
    return wrong.have[mask], wrong.want[mask]


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(reversed(list(_digits(flat, shape))))


def _digits(flat: int, shape: tuple[int, ...]) -> Iterator[int]:
    for size in reversed(shape):
        yield flat % size
        flat //= size


PATTERNS: tuple[Callable[[Wrong], str | None], ...] = (_all_one_value, _lse_base, _scaled, _transposed, _last_part)
