"""Comparing one output with the float64 oracle, row by row, and whole with the honest baseline.

Every row has a budget of its own. Accepting asks for `error <= tolerance`, never for the absence of the opposite: NaN fails.
"""

import math
from dataclasses import dataclass, replace

import torch

from kernelderby.core.errors import ProblemBroken
from kernelderby.core.problem import OutputSpec
from kernelderby.core.verdict import Outcome
from kernelderby.judge.referee import hints

LOOSE = 4.0   # of both budgets together, where the baseline's output stands in for the oracle


@dataclass
class Worst:
    """The baseline's largest error in a row over that row's RMS, over all rows of a case looked at so far."""

    rel_l2: float = 0.0
    rel_max: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What a comparison saw: the entry's errors in rows that passed for finite, and a failure or None."""

    max_abs: float = 0.0
    worst_row_rel_l2: float = 0.0
    outcome: Outcome | None = None
    message: str | None = None


@dataclass(frozen=True)
class _Tolerance:
    """Upper bounds a row; `rms` is the row's scale."""

    l2: torch.Tensor
    max: torch.Tensor
    rms: torch.Tensor


def compare_rows(name: str, spec: OutputSpec, got: torch.Tensor, baseline: torch.Tensor, expected: torch.Tensor,
                 rows: torch.Tensor | None, worst: Worst) -> Compared:
    """Hold `rows` (flat indices; None: all) of the whole outputs `got` and `baseline` to the oracle's `expected` for these rows.

    Updates `worst` by these rows first. Raises ProblemBroken when the oracle says NaN, or the baseline is not finite where it is.
    """
    if expected.isnan().any():
        raise ProblemBroken(f"The reference's {name} holds NaN.")
    if expected.numel() == 0:
        return Compared()
    want = expected.double().reshape(-1, row_length(spec, got))
    have, base = (_rows(t, spec, rows).double() for t in (got, baseline))
    base_l2, base_max = _errors(base, want)
    if not (base_max < torch.inf).all():
        raise ProblemBroken(f"The baseline's {name} is not finite, or is no infinity, where the reference says otherwise.")
    tolerance = _budgeted(spec, got.dtype, want, base_l2, base_max, worst)
    return _judged(name, spec, got, have, want, rows, tolerance)


def compare_whole(name: str, spec: OutputSpec, got: torch.Tensor, baseline: torch.Tensor, worst: Worst) -> Compared:
    """Hold every row to the baseline's at a loose bound: what the secret rows do not show at once, this does."""
    if _is_same(got, baseline):
        return Compared()
    have, want = (_rows(t, spec, None).to(_working(got.dtype)) for t in (got, baseline))
    return replace(_judged(name, spec, got, have, want, None, _loose(spec, got.dtype, want, worst)), max_abs=0.0, worst_row_rel_l2=0.0)


def differs(spec: OutputSpec, first: torch.Tensor, second: torch.Tensor, worst: Worst) -> bool:
    """Whether two results for the same input lie further apart than two honest ones could."""
    if _is_same(first, second):
        return False
    a, b = (_rows(t, spec, None).to(_working(first.dtype)) for t in (first, second))
    tolerance = _loose(spec, first.dtype, b, worst)
    l2, largest = _errors(a, b)
    return not bool(((l2 <= tolerance.l2) & (largest <= tolerance.max)).all())


def row_length(spec: OutputSpec, output: torch.Tensor) -> int:
    """How many elements one row of a whole output has."""
    return math.prod(output.shape[len(spec.rows) :])


def _judged(name: str, spec: OutputSpec, got: torch.Tensor, have: torch.Tensor, want: torch.Tensor, rows: torch.Tensor | None,
            tolerance: _Tolerance) -> Compared:
    l2, largest = _errors(have, want)
    passed = (l2 <= tolerance.l2) & (largest <= tolerance.max)
    scaled = (l2 / tolerance.rms)[tolerance.rms > 0] if spec.budget.max_abs is None else l2[:0]
    seen = Compared(max_abs=_largest(largest), worst_row_rel_l2=_largest(scaled))
    if bool(passed.all()):
        return seen
    nonfinite = ~have.isfinite() & (want.isfinite() | have.isnan())
    bound = torch.where(largest <= tolerance.max, tolerance.l2, tolerance.max)     # what the row fails by
    wrong = ~(_difference(have, want) <= bound[:, None]) & ~passed[:, None]
    outcome, bad = (Outcome.NONFINITE, nonfinite) if bool(nonfinite.any()) else (Outcome.WRONG_VALUES, wrong)
    message = hints.describe(hints.Wrong(name, spec, got, have, want, rows, bad))
    return replace(seen, outcome=outcome, message=message)


def _budgeted(spec: OutputSpec, dtype: torch.dtype, want: torch.Tensor, base_l2: torch.Tensor, base_max: torch.Tensor,
              worst: Worst) -> _Tolerance:
    rms, floor_l2, floor_max = _scale(want, dtype)
    if spec.budget.max_abs is not None:
        return _Tolerance(torch.full_like(rms, torch.inf), floor_max.clamp(min=spec.budget.max_abs), rms)
    scaled = rms > 0
    worst.rel_l2 = max(worst.rel_l2, _largest((base_l2 / rms)[scaled]))
    worst.rel_max = max(worst.rel_max, _largest((base_max / rms)[scaled]))
    factor = spec.budget.relative_to_baseline or 0.0
    l2 = torch.where(scaled, torch.maximum(factor * worst.rel_l2 * rms, floor_l2), factor * base_l2)     # a row of zeros is exact,
    largest = torch.where(scaled, torch.maximum(factor * worst.rel_max * rms, floor_max), factor * base_max)    # as the baseline's is
    return _Tolerance(l2, largest, rms)


def _loose(spec: OutputSpec, dtype: torch.dtype, want: torch.Tensor, worst: Worst) -> _Tolerance:
    rms, floor_l2, floor_max = _scale(want, dtype)
    if spec.budget.max_abs is not None:
        return _Tolerance(torch.full_like(rms, torch.inf), LOOSE * floor_max.clamp(min=spec.budget.max_abs), rms)
    factor = LOOSE * ((spec.budget.relative_to_baseline or 0.0) + 1)
    return _Tolerance(torch.maximum(factor * worst.rel_l2 * rms, LOOSE * floor_l2),
                      torch.maximum(factor * worst.rel_max * rms, LOOSE * floor_max), rms)


def _scale(want: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """RMS of each row's finite values, and the output dtype's rounding at that scale in both norms."""
    finite = torch.where(want.isfinite(), want, torch.zeros_like(want))
    rms = _rms(finite)
    if not dtype.is_floating_point:
        return rms, torch.zeros_like(rms), torch.zeros_like(rms)
    info = torch.finfo(dtype)
    least = info.smallest_normal * info.eps       # the smallest subnormal number
    return rms, info.eps * rms + least, info.eps * _top(finite.abs()) + least


def _errors(have: torch.Tensor, want: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """RMS and largest of each row's errors; where an infinity is expected, anything else is an infinite error."""
    error = _difference(have, want)
    return _rms(error), _top(error)


def _difference(have: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    exact = torch.where(have == want, torch.zeros_like(want), torch.full_like(want, torch.inf))
    return torch.where(want.isfinite(), (have - want).abs(), exact)


def _rms(rows: torch.Tensor) -> torch.Tensor:
    return rows[:, 0].abs() if rows.shape[1] == 1 else rows.square().mean(1).sqrt()      # reducing single elements is slow


def _top(rows: torch.Tensor) -> torch.Tensor:
    return rows[:, 0] if rows.shape[1] == 1 else rows.amax(1)


def _is_same(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Bit for bit; also true of two empty ones."""
    a, b = (t.contiguous().reshape(-1).view(torch.uint8) for t in (first, second))
    return bool(torch.equal(a, b))


def _rows(whole: torch.Tensor, spec: OutputSpec, rows: torch.Tensor | None) -> torch.Tensor:
    plain = whole.view(torch.uint8) if whole.dtype is torch.bool else whole     # a bool's byte may be neither 0 nor 1
    flat = plain.reshape(-1, row_length(spec, whole))
    return flat if rows is None else flat[rows]


def _working(dtype: torch.dtype) -> torch.dtype:
    """Precise enough for a loose bound, and quick."""
    return torch.float32 if dtype.is_floating_point and dtype.itemsize <= 4 else torch.float64


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
