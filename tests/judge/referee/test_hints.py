"""A failed comparison says what the output looks like."""

import math

import pytest
import torch

from kernelderby.core.problem import OutputSpec
from kernelderby.judge.referee.compare import Worst, compare_rows

MATRIX = OutputSpec.model_validate({"shape": ["a", "b"], "dtype": "float32", "rows": ["a"], "budget": {"relative_to_baseline": 2.0}})
LSE = OutputSpec.model_validate({"shape": ["a"], "dtype": "float32", "rows": ["a"], "budget": {"max_abs": 1e-3}, "base": 2})
EXACT = torch.randn(20, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
EXACT_LSE = EXACT.logsumexp(1) / math.log(2)


def last_rows() -> torch.Tensor:
    output = EXACT.clone()
    output[-3:] += 1
    return output


def last_columns() -> torch.Tensor:
    output = EXACT.clone()
    output[:, -4:] = 0.5
    return output


HINTS = {
    "is all zeros": (MATRIX, EXACT, torch.zeros_like(EXACT)),
    "Every value of the output is 7": (MATRIX, EXACT, torch.full_like(EXACT, 7)),
    "it is 0.125 times what is expected": (MATRIX, EXACT, EXACT / 8),
    "axes 0 and 1 are swapped": (MATRIX, EXACT, EXACT.T.reshape(EXACT.shape)),
    "Only the last 3 of 20 along axis 0 are wrong": (MATRIX, EXACT, last_rows()),
    "Only the last 4 of 24 along axis 1 are wrong": (MATRIX, EXACT, last_columns()),
    "a log-sum-exp in base e; this problem asks for base 2": (LSE, EXACT_LSE, EXACT_LSE * math.log(2)),
}


@pytest.mark.parametrize("hint", HINTS)
def test_a_pattern_is_named(hint: str) -> None:
    spec, exact, got = HINTS[hint]

    seen = compare_rows("y", spec, got.float(), exact.float(), exact, None, Worst())

    assert seen.message is not None
    assert hint in seen.message


def test_no_pattern_no_hint() -> None:
    got = torch.randn(20, 24)

    seen = compare_rows("y", MATRIX, got, EXACT.float(), EXACT, None, Worst())

    assert seen.message == f"y[0, 0] is {got[0, 0]:.6g}, expected {EXACT[0, 0]:.6g}; 480 of 480 checked values are wrong."
