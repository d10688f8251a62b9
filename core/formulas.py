"""The small formulas in a problem.yml: numbers of flops and bytes, sizes of derived axes."""

import math
from collections.abc import Mapping
from typing import Any

from simpleeval import EvalWithCompoundTypes, InvalidExpression

from kernelderby.core.errors import ProblemBroken

_FUNCTIONS = {"sum": sum, "max": max, "min": min, "ceil": math.ceil, "log2": math.log2}


def evaluate(formula: str | int | float, names: Mapping[str, Any], itemsizes: Mapping[str, int] | None = None) -> float:
    """The value of `formula` over `names` (numbers and lists of numbers).

    `itemsize(input)` is the bytes of one element of that input. Raises ProblemBroken with the formula in the message.
    """
    if isinstance(formula, int | float):
        return float(formula)
    sizes = dict(itemsizes or {})
    evaluator = EvalWithCompoundTypes(
        names={**names, **{n: n for n in sizes if n not in names}},
        functions={**_FUNCTIONS, "itemsize": lambda name: sizes[name]},
    )
    try:
        return float(evaluator.eval(formula))
    except (InvalidExpression, SyntaxError, TypeError, ValueError, KeyError, ZeroDivisionError, OverflowError) as error:
        raise ProblemBroken(f"The formula {formula!r} cannot be evaluated: {error}.") from None
