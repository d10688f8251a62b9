"""What a peer may say is a number only when it is one, finite and in range."""

import json
from typing import Any

import pytest

from kernelderby.judge.box.wire import Breach, number, parse

NONE = [float("nan"), float("inf"), -float("inf"), -1, -1e-9, 101, 10**400, -(10**4000), True, "1", None, [1], {}]


@pytest.mark.parametrize("value", NONE, ids=lambda value: str(value)[:12])
def test_what_is_no_number_in_range_is_a_breach(value: Any) -> None:
    with pytest.raises(Breach):
        number({"x": value}, "x", 0.0, 100.0)


@pytest.mark.parametrize("value", [0, 100, 0.0, 1e-300, 99.9])
def test_a_number_in_range_is_taken(value: float) -> None:
    assert number({"x": value}, "x", 0.0, 100.0) == value


@pytest.mark.parametrize("line", ["NaN", "[NaN]", '{"x": Infinity}', "[1]", "1" * 60_000, "[" * 60_000, '{"x":' * 10_000, "", '{"x": 1}}'])
def test_a_line_that_is_no_object_of_finite_numbers_is_a_breach(line: str) -> None:
    with pytest.raises(Breach):
        parse(line.encode())


def test_a_number_of_thousands_of_digits_is_read_and_then_refused() -> None:
    with pytest.raises(Breach):
        number(parse(json.dumps({"x": 10**4000}).encode()), "x", 0.0, 1e300)
