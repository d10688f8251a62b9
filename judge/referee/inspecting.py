"""Looking into a problem's Python before anyone competes on it: inputs, oracle, recipes, budgets, formulas.

Every check is a row of `{"what", "ok", "message"}`; a failed one's message says what to change.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import ProblemBroken
from kernelderby.core.problem import Case
from kernelderby.core.problem_folder import Problem
from kernelderby.judge.referee.cheats import surviving
from kernelderby.judge.referee.checking import CaseCheck
from kernelderby.judge.referee.inputs import Drawn, ProblemCode, Seeds, cases_for, hidden_cases
from kernelderby.judge.referee.work import work_of

Row = dict[str, Any]
_CLOSE = 1e-9      # two float64 sums of the same terms in another order


def inspect(problem: Problem, code: ProblemCode, device: DeviceClass, seeds: Seeds) -> list[Row]:
    """Every check on every case of a class, hidden ones drawn once."""
    try:
        public, hidden = cases_for(problem, device), hidden_cases(problem, device, seeds)
    except ProblemBroken as error:
        return [_row("cases", [error.message])]
    rows = [_row(f"case {case.name}", list(_case_faults(code, case, seeds))) for case in public]
    rows += [_row(f"case {case.name}, timed with {recipe}", list(_case_faults(code, replace(case, recipe=recipe), seeds)))
             for case in public for recipe in code.planted]
    rows += [_row(f"{case.name} ({case.recipe or 'drawn shapes'})", list(_case_faults(code, case, seeds))) for case in hidden]
    rows += [_row(f"cheats on {case.name}", list(_surviving_cheats(code, case, seeds))) for case in public]
    return rows + [_row(f"work of {case.name}", list(_work_faults(code, case, seeds))) for case in public]


def _case_faults(code: ProblemCode, case: Case, seeds: Seeds) -> Iterator[str]:
    """What is wrong with one case, a sentence each."""
    try:
        drawn, again = (code.draw(case, seeds.generator(f"{case.name}/{i}")) for i in range(2))
        if code.layout(case, drawn.data) != code.layout(case, again.data):
            yield "make_inputs returned other shapes for another generator; shapes may depend on the case alone."
        if not case.hidden and _is_same(code, drawn, again):      # drawn shapes may be so small that values repeat
            yield "make_inputs returned the same inputs for two generators; draw their values from the generator."
        if not _is_same(code, drawn, code.draw(case, seeds.generator(f"{case.name}/0"))):
            yield "make_inputs returned other inputs for the same generator; draw from it alone, so that a run can be repeated."
        yield from _recipe_faults(code, case, seeds)
        yield from _oracle_faults(code, case, drawn, seeds)
    except ProblemBroken as error:
        yield error.message


def _recipe_faults(code: ProblemCode, case: Case, seeds: Seeds) -> Iterator[str]:
    if case.recipe is None:
        return
    plain, planted = (code.draw(c, seeds.generator(f"{case.name}/recipe")) for c in (replace(case, recipe=None), case))
    if code.layout(case, plain.data) != code.layout(case, planted.data):
        yield f"The recipe {case.recipe} changed a shape; it may change values alone."
    if _is_same(code, plain, planted):
        yield f"The recipe {case.recipe} changed nothing; it must change `data` in place."


def _oracle_faults(code: ProblemCode, case: Case, drawn: Drawn, seeds: Seeds) -> Iterator[str]:
    whole, baseline = code.reference(drawn.data, None), code.baseline(drawn.data, case)
    for name, spec in code.spec.outputs.items():
        if whole[name].dtype is not torch.float64 or whole[name].shape != baseline[name].shape:
            yield (f"reference returned {name} as {whole[name].dtype} {tuple(whole[name].shape)}; "
                   f"it must be float64 {tuple(baseline[name].shape)}.")
            return
        leading = whole[name].shape[: len(spec.rows)]
        if not spec.rows or not leading.numel():
            continue
        generator = seeds.generator(f"{case.name}/rows")
        rows = torch.randint(leading.numel(), (8,), generator=generator, device=generator.device)
        part, expected = code.reference(drawn.data, rows)[name], whole[name].flatten(0, len(spec.rows) - 1)[rows]
        if part.shape != expected.shape or not torch.allclose(part, expected, rtol=_CLOSE, atol=_CLOSE):
            yield f"reference(data, rows) is not reference(data)[rows] for {name}; rows index its axes {', '.join(spec.rows)} flattened."
        if drawn.planted.numel() and not 0 <= int(drawn.planted.min()) <= int(drawn.planted.max()) < leading.numel():
            yield f"The recipe {case.recipe} returned a row that {name} does not have."
    failure = CaseCheck(code, case, seeds).check(f"{case.name}/baseline", drawn, baseline)
    if failure is not None:
        yield f"The baseline does not pass its own budget: {failure.message}"


def _surviving_cheats(code: ProblemCode, case: Case, seeds: Seeds) -> Iterator[str]:
    try:
        for cheat, name in surviving(code, case, seeds):
            yield f"The answer {cheat!r} for {name} passes; the inputs or the budget are too kind."
    except ProblemBroken as error:
        yield error.message


def _work_faults(code: ProblemCode, case: Case, seeds: Seeds) -> Iterator[str]:
    """Every formula of `work` must give a number that is not negative; bytes must be positive."""
    try:
        work = work_of(code.spec, case, code.draw(case, seeds.generator(f"{case.name}/work")).data)
    except ProblemBroken as error:
        yield error.message
        return
    for what, value in vars(work).items():
        if value < 0 or (what == "bytes" and not value):
            yield f"work.{what} is {value:g}; it is a lower bound of what every entry must do."


def _is_same(code: ProblemCode, first: Drawn, second: Drawn) -> bool:
    """Whether two draws have the same inputs, bit for bit."""
    def same(a: Any, b: Any) -> bool:
        if not isinstance(a, torch.Tensor):
            return bool(a == b)
        return a.shape == b.shape and bool(torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)))

    return all(same(first.data[name], second.data[name]) for name in code.spec.inputs)


def _row(what: str, faults: list[str]) -> Row:
    return {"what": what, "ok": not faults, "message": " ".join(faults)}
