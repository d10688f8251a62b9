"""Vector addition: the inputs, the float64 answer, and what is planted in hidden cases."""

import torch


def make_inputs(case, generator):
    """Two vectors of standard normal numbers."""
    dtype = getattr(torch, case.dtype)
    a, b = (torch.randn(case.axes["n"], generator=generator, device=generator.device, dtype=dtype) for _ in range(2))
    return {"a": a, "b": b}


def reference(data, rows=None):
    """The sum in float64; `rows` are element indices."""
    a, b = (data["a"], data["b"]) if rows is None else (data["a"][rows], data["b"][rows])
    return {"c": a.double() + b.double()}


def outlier(data, case, generator):
    """A few elements as large as every dtype can still add."""
    rows = _some_rows(data, generator)
    data["a"][rows] = 30_000.0
    return rows


def cancelling(data, case, generator):
    """Everywhere b is nearly -a, so that the sum is small beside its terms."""
    rows = _some_rows(data, generator)
    nearly = 1 + 0.01 * torch.randn(len(data["a"]), generator=generator, device=generator.device)
    data["b"].copy_(-data["a"] * nearly)
    data["b"][rows] = -data["a"][rows]
    return rows


RECIPES = {"outlier": outlier, "cancelling": cancelling}
PLANTED_WHILE_TIMED = tuple(RECIPES)     # none changes how much work there is


def _some_rows(data, generator):
    n = len(data["a"])
    return torch.randint(n, (min(n, 8),), generator=generator, device=generator.device)
