"""Budgets are a row's own; accepting asks for `error <= tolerance`."""

from collections.abc import Callable

import pytest
import torch

from kernelderby.core.errors import ProblemBroken
from kernelderby.core.problem import OutputSpec
from kernelderby.core.verdict import Outcome
from kernelderby.judge.referee.compare import Worst, compare_rows, compare_whole, differs

ROWS, COLS = 64, 32
RELATIVE = OutputSpec.model_validate({
    "shape": ["rows", "cols"], "dtype": "float16", "rows": ["rows"], "budget": {"relative_to_baseline": 2.0}})
ABSOLUTE = OutputSpec.model_validate({"shape": ["rows"], "dtype": "float32", "rows": ["rows"], "budget": {"max_abs": 1e-3}, "base": 2})
Change = Callable[[torch.Tensor], None]


def scene() -> tuple[torch.Tensor, torch.Tensor]:
    """The oracle's output, rows of very unequal size, and the honest baseline's."""
    exact = torch.randn(ROWS, COLS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    exact *= torch.logspace(0, -3, ROWS, dtype=torch.float64)[:, None]
    return exact, exact.half()


def put(index: tuple[int, ...], value: float) -> Change:
    def change(output: torch.Tensor) -> None:
        output[index] = value
    return change


def zero_smallest_row(output: torch.Tensor) -> None:
    output[-1] = 0


def scale_row(output: torch.Tensor) -> None:
    output[40] *= 1.02


WRONG: dict[str, tuple[Change, Outcome]] = {
    "a NaN": (put((3, 4), torch.nan), Outcome.NONFINITE),
    "an infinity": (put((3, 4), torch.inf), Outcome.NONFINITE),
    "a row of zeros that is small beside the others": (zero_smallest_row, Outcome.WRONG_VALUES),
    "a row off by 2 %": (scale_row, Outcome.WRONG_VALUES),
    "one element": (put((5, 6), 9.0), Outcome.WRONG_VALUES),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_one_row_fails(name: str) -> None:
    change, outcome = WRONG[name]
    exact, baseline = scene()
    got = baseline.clone()
    change(got)

    assert compare_rows("y", RELATIVE, got, baseline, exact, None, Worst()).outcome is outcome


def test_the_honest_baseline_passes_in_every_row() -> None:
    exact, baseline = scene()
    worst = Worst()

    seen = compare_rows("y", RELATIVE, baseline, baseline, exact, None, worst)

    assert seen.outcome is None
    assert 0 < seen.worst_row_rel_l2 <= worst.rel_l2 < 1e-3


def test_another_rounding_of_the_same_passes() -> None:
    exact, baseline = scene()
    other = (exact.float() * (1 + 2**-12)).half()

    assert compare_rows("y", RELATIVE, other, baseline, exact, None, Worst()).outcome is None


def test_a_dtype_s_rounding_is_allowed_where_the_baseline_is_exact() -> None:
    exact = torch.ones(4, COLS, dtype=torch.float64)

    assert compare_rows("y", RELATIVE, exact.half() + 2**-10, exact.half(), exact, None, Worst()).outcome is None
    assert compare_rows("y", RELATIVE, exact.half() + 2**-8, exact.half(), exact, None, Worst()).outcome is Outcome.WRONG_VALUES


@pytest.mark.parametrize(("got", "outcome"), [
    (0.0, None), (-0.0, None), (1e-7, Outcome.WRONG_VALUES), (torch.nan, Outcome.NONFINITE), (-torch.inf, Outcome.NONFINITE)])
def test_a_row_of_zeros_is_held_to_zero(got: float, outcome: Outcome | None) -> None:
    exact, baseline = scene()
    exact[7], baseline[7] = 0, 0
    entry = baseline.clone()
    entry[7, 0] = got

    assert compare_rows("y", RELATIVE, entry, baseline, exact, None, Worst()).outcome is outcome


@pytest.mark.parametrize(("got", "outcome"), [
    (-torch.inf, None), (torch.inf, Outcome.WRONG_VALUES), (-1e30, Outcome.WRONG_VALUES), (torch.nan, Outcome.NONFINITE)])
def test_an_expected_infinity_is_held_to_exactly(got: float, outcome: Outcome | None) -> None:
    exact = torch.tensor([1.0, -torch.inf, 3.0], dtype=torch.float64)

    assert compare_rows("lse", ABSOLUTE, torch.tensor([1.0, got, 3.0]), exact.float(), exact, None, Worst()).outcome is outcome


@pytest.mark.parametrize(("error", "outcome"), [(9e-4, None), (1.2e-3, Outcome.WRONG_VALUES)])
def test_an_absolute_budget_is_one_for_every_element(error: float, outcome: Outcome | None) -> None:
    exact = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    got = exact.float()
    got[1] += error

    assert compare_rows("lse", ABSOLUTE, got, exact.float(), exact, None, Worst()).outcome is outcome


def test_an_oracle_that_says_nan_is_our_fault() -> None:
    exact, baseline = scene()
    exact[0, 0] = torch.nan

    with pytest.raises(ProblemBroken):
        compare_rows("y", RELATIVE, baseline, baseline, exact, None, Worst())


def test_rows_name_their_place_in_the_whole_output() -> None:
    exact, baseline = scene()
    got = baseline.clone()
    got[50, 3] = 5.0
    rows = torch.tensor([2, 50])

    seen = compare_rows("y", RELATIVE, got, baseline, exact[rows], rows, Worst())

    assert seen.message is not None
    assert seen.message.startswith("y[50, 3] is 5, expected ")


@pytest.mark.parametrize("name", WRONG)
def test_the_whole_output_is_held_to_the_baseline_s(name: str) -> None:
    change, outcome = WRONG[name]
    exact, baseline = scene()
    worst = Worst()
    compare_rows("y", RELATIVE, baseline, baseline, exact, None, worst)
    got = baseline.clone()
    change(got)

    assert compare_whole("y", RELATIVE, baseline, baseline, worst).outcome is None
    assert compare_whole("y", RELATIVE, got, baseline, worst).outcome is outcome


def test_two_results_differ_only_beyond_what_honest_ones_do() -> None:
    exact, baseline = scene()
    worst = Worst()
    compare_rows("y", RELATIVE, baseline, baseline, exact, None, worst)
    noise = baseline + 0.1 * torch.randn(ROWS, COLS).half()

    assert not differs(RELATIVE, baseline, (exact.float() * (1 + 2**-12)).half(), worst)
    assert differs(RELATIVE, baseline, noise, worst)
    assert not differs(RELATIVE, noise, noise.clone(), worst)


@pytest.mark.parametrize("shape", [(0, COLS), (ROWS, 0)])
def test_empty_outputs_pass(shape: tuple[int, int]) -> None:
    empty = torch.empty(shape)

    assert compare_rows("y", RELATIVE, empty.half(), empty.half(), empty.double(), None, Worst()).outcome is None
    assert compare_whole("y", RELATIVE, empty.half(), empty.half(), Worst()).outcome is None
