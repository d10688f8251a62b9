"""Two vectors, and their sum in float64."""

import torch

RECIPES = {}


def make_inputs(case, generator):
    a, b = torch.randn(2, case.axes["n"], generator=generator, device=generator.device).to(getattr(torch, case.dtype))
    return {"a": a.clone(), "b": b.clone()}


def reference(data, rows=None):
    a, b = (data["a"], data["b"]) if rows is None else (data["a"][rows], data["b"][rows])
    return {"c": a.double() + b.double()}
