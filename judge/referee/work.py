"""The work of one call by the problem's own formulas."""

from collections.abc import Mapping
from typing import Any

import torch

from kernelderby.core.formulas import evaluate
from kernelderby.core.light import Work
from kernelderby.core.problem import DTYPES, Case, ProblemFile
from kernelderby.judge.referee.inputs import dtype_of


def work_of(spec: ProblemFile, case: Case, data: Mapping[str, Any]) -> Work:
    """What these inputs ask for. Raises ProblemBroken for a formula that gives no number."""
    names = {**case.axes, **{n: v.tolist() if isinstance(v, torch.Tensor) else v for n, v in data.items() if _is_plain(v)}}
    sizes = {n: DTYPES[dtype_of(s, case)] for n, s in spec.inputs.items() if s.scalar is None}
    for name, formula in spec.work.let.items():
        names[name] = evaluate(formula, names, sizes)
    flops, moved, exps = (evaluate(formula, names, sizes) for formula in (spec.work.flops, spec.work.bytes, spec.work.exps))
    return Work(flops=flops, bytes=moved, exps=exps)


def _is_plain(value: object) -> bool:
    """Whether formulas may use it: numbers, and lists of whole numbers."""
    if isinstance(value, torch.Tensor):
        return value.dim() == 1 and not value.is_floating_point()
    return isinstance(value, int | float)
