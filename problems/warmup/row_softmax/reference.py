"""Softmax over rows: the inputs, the float64 answer, and what is planted in hidden cases."""

import torch

PLANTED_ROWS = 4   # rows that a recipe changes


def make_inputs(case, generator):
    """Normal logits with the case's `spread`; a share `masked` of them is -inf, but never a whole row."""
    shape = (case.axes["rows"], case.axes["cols"])
    x = case.extra["spread"] * torch.randn(shape, generator=generator, device=generator.device)
    masked = torch.rand(shape, generator=generator, device=generator.device) < case.extra["masked"]
    kept = torch.randint(shape[1], (shape[0], 1), generator=generator, device=generator.device)
    masked.scatter_(1, kept, False)
    return {"x": x.masked_fill_(masked, -torch.inf).to(getattr(torch, case.dtype))}


def reference(data, rows=None):
    """The softmax in float64, over the rows asked for."""
    x = data["x"] if rows is None else data["x"][rows]
    x = x.double()
    weights = (x - x.amax(1, keepdim=True)).exp()
    return {"y": weights / weights.sum(1, keepdim=True)}


def large_logits(data, case, generator):
    """Rows shifted far up and far down: exp of the logits alone overflows, or vanishes altogether."""
    rows = _some_rows(data, generator)
    shift = torch.where(torch.arange(len(rows), device=rows.device) % 2 == 0, 300.0, -300.0)
    data["x"][rows] += shift[:, None].to(data["x"].dtype)
    return rows


def outlier(data, case, generator):
    """Rows where the last entry stands far above the others, so that nearly all weight is on it."""
    rows = _some_rows(data, generator)
    data["x"][rows, -1] = 40.0
    return rows


def near_equal(data, case, generator):
    """Rows whose entries are all equal, or differ in the last bits alone."""
    rows = _some_rows(data, generator)
    noise = torch.randn(len(rows), data["x"].shape[1], generator=generator, device=generator.device)
    noise[::2] = 0.0
    data["x"][rows] = (5.0 + 1e-3 * noise).to(data["x"].dtype)
    return rows


RECIPES = {"large_logits": large_logits, "outlier": outlier, "near_equal": near_equal}
PLANTED_WHILE_TIMED = tuple(RECIPES)     # none changes how much work there is


def _some_rows(data, generator):
    return torch.randperm(len(data["x"]), generator=generator, device=generator.device)[:PLANTED_ROWS]
