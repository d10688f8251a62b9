"""y = factor * x * w, and the sum of each row of it."""

import torch


def make_inputs(case, generator):
    rows, cols = case.axes["rows"], case.axes["cols"]
    return {"x": torch.randn(rows, cols, generator=generator), "w": torch.randn(cols, generator=generator), "factor": 2.0}


def reference(data, rows=None):
    x = data["x"].double() if rows is None else data["x"][rows].double()
    y = data["factor"] * x * data["w"].double()
    return {"y": y, "total": y.sum(1)}


def spike(data, case, generator):
    row = torch.randint(len(data["x"]), (1,), generator=generator)
    data["x"][row, 0] = 1000.0
    return row


RECIPES = {"spike": spike}
PLANTED_WHILE_TIMED = ("spike",)
