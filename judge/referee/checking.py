"""Holding the outputs of one case's calls to the oracle: which rows, which budgets, how far off."""

import math

import torch

from kernelderby.core.problem import Case
from kernelderby.judge.referee.compare import Compared, Worst, compare_rows, compare_whole, differs
from kernelderby.judge.referee.inputs import Drawn, ProblemCode, Seeds

ALL_ROWS = 1024              # so few rows are all checked
ALL_ELEMENTS = 2**15         # also where a row's work is its length, as it is when the problem gives no weights
SECRET_ROWS = 256            # else: this many, half of them by their work, half evenly; planted rows beside them

Outputs = dict[str, torch.Tensor]


class CaseCheck:
    """The checks of one case: budgets grow with what the baseline shows, errors are the largest of all calls."""

    def __init__(self, code: ProblemCode, case: Case, seeds: Seeds) -> None:
        self._code = code
        self._case = case
        self._seeds = seeds
        self._worst = {name: Worst() for name in code.spec.outputs}
        self.max_abs_err = 0.0
        self.worst_row_rel_l2 = 0.0

    def check(self, label: str, drawn: Drawn, outputs: Outputs) -> Compared | None:
        """The first failure of this call's outputs, or None. `label` makes the secret rows its own."""
        baseline = self._code.baseline(drawn.data, self._case)
        rows = self._rows(label, drawn, outputs)
        expected = self._code.reference(drawn.data, rows)
        for name, spec in self._code.spec.outputs.items():
            if failure := self._failed(compare_rows(name, spec, outputs[name], baseline[name], expected[name], rows, self._worst[name])):
                return failure
        if rows is None:
            return None
        for name, spec in self._code.spec.outputs.items():
            if failure := self._failed(compare_whole(name, spec, outputs[name], baseline[name], self._worst[name])):
                return failure
        return None

    def is_repeatable(self, results: list[Outputs]) -> bool:
        """Whether results for the same input agree, as well as two honest ones would."""
        first, *others = results
        return not any(differs(spec, first[name], other[name], self._worst[name])
                       for other in others for name, spec in self._code.spec.outputs.items())

    def _failed(self, seen: Compared) -> Compared | None:
        if math.isfinite(seen.max_abs) and math.isfinite(seen.worst_row_rel_l2):
            self.max_abs_err = max(self.max_abs_err, seen.max_abs)
            self.worst_row_rel_l2 = max(self.worst_row_rel_l2, seen.worst_row_rel_l2)
        return seen if seen.outcome is not None else None

    def _rows(self, label: str, drawn: Drawn, outputs: Outputs) -> torch.Tensor | None:
        """The rows to hold to float64, drawn after the call; None: all of them."""
        specs = self._code.spec.outputs
        if len({spec.rows for spec in specs.values()}) > 1 or not next(iter(specs.values())).rows:
            return None
        name, spec = next(iter(specs.items()))
        count = math.prod(outputs[name].shape[: len(spec.rows)])
        weights = self._code.row_weights(drawn.data)
        if count <= ALL_ROWS or (weights is None and outputs[name].numel() <= ALL_ELEMENTS):
            return None
        generator = self._seeds.generator(f"{label}/rows")
        evenly = torch.randint(count, (SECRET_ROWS // 2,), generator=generator, device=generator.device)
        by_work = _weighted(weights, count, SECRET_ROWS // 2, generator)
        return torch.cat([evenly, by_work, drawn.planted.to(evenly.device)]).unique()


def _weighted(weights: torch.Tensor | None, count: int, draws: int, generator: torch.Generator) -> torch.Tensor:
    if weights is None:
        return torch.randint(count, (draws,), generator=generator, device=generator.device)
    total = weights.flatten().double().cumsum(0)
    drawn = torch.rand(draws, generator=generator, dtype=torch.float64, device=generator.device)
    return torch.searchsorted(total, drawn * total[-1]).clamp(max=count - 1)
