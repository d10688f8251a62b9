"""A problem's Python, and the inputs it makes: seeds nobody else knows, shapes and dtypes held to what problem.yml says."""

import hashlib
import hmac
import importlib.util
import random
import sys
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import ProblemBroken
from kernelderby.core.problem import Case, HiddenSpec, InputSpec, OutputSpec, hidden_case, hidden_specs, public_cases
from kernelderby.core.problem_folder import Problem
from kernelderby.core.text import clean_text
from kernelderby.judge.referee.arena import Layout, lay_out
from kernelderby.judge.referee.kinds import CPU, Kind

FAILS = (Exception, SystemExit)     # what a problem's Python may raise; a run that ended in the middle would be laid at an entry's door
_NO_ROWS = torch.empty(0, dtype=torch.long)


class Seeds:
    """Everything drawn in one run, from its seed alone: `HMAC(seed, label)`, so that no draw tells of another."""

    def __init__(self, seed: bytes, torch_device: str = "cpu") -> None:
        self._seed = seed
        self._torch_device = torch_device

    def number(self, label: str) -> int:
        """A 63-bit number."""
        return int.from_bytes(self._keyed(label)[:8], "big") >> 1

    def generator(self, label: str) -> torch.Generator:
        """A generator of torch, on the device where data lies."""
        return torch.Generator(self._torch_device).manual_seed(self.number(label))

    def _keyed(self, label: str) -> bytes:
        return hmac.new(self._seed, label.encode(), hashlib.sha256).digest()


@dataclass(frozen=True)
class Drawn:
    """The inputs of one call, private to the referee, and the rows where a recipe planted something."""

    data: dict[str, Any]
    planted: torch.Tensor
    recipe: str | None = None


class ProblemCode:
    """The functions of reference.py and of the baseline, each checked and wrapped: what they do wrong is ProblemBroken."""

    def __init__(self, problem: Problem, kind: Kind = CPU) -> None:
        """Imports both files. Raises ProblemBroken."""
        self.spec = problem.spec
        self.kind = kind
        family = str(problem.folder.parent)
        if family not in sys.path:
            sys.path.insert(0, family)
        self._module = _import(problem.folder / "reference.py", "reference")
        self._baseline = _import(problem.baseline, "baseline")
        for module, name in ((self._module, "make_inputs"), (self._module, "reference"), (self._baseline, "custom_kernel")):
            if not callable(getattr(module, name, None)):
                raise ProblemBroken(f"{module.__name__}.py defines no function {name}.")
        # A named tuple's type is made anew for each problem, so no static type can name its fields.
        self._tuple = namedtuple("data", [*self.spec.inputs, *self.spec.outputs])  # type: ignore[misc]

    def draw(self, case: Case, generator: torch.Generator) -> Drawn:
        """Fresh inputs of a case, its recipe applied."""
        data = _ours("make_inputs", self._module.make_inputs, case, generator)
        if not isinstance(data, dict):
            raise ProblemBroken("make_inputs returned no dict.")
        for name, spec in self.spec.inputs.items():
            data[name] = _checked_input(name, spec, data, case)
        planted = _NO_ROWS
        if case.recipe is not None:
            recipe = getattr(self._module, "RECIPES", {}).get(case.recipe)
            if recipe is None:
                raise ProblemBroken(f"reference.py has no recipe {case.recipe!r}.")
            planted = _ours(f"the recipe {case.recipe}", recipe, data, case, generator)
        return Drawn(data, planted.long(), case.recipe)

    @property
    def planted(self) -> tuple[str, ...]:
        """Recipes that leave the work of a call as it is, so that timed inputs may hold them too: `PLANTED_WHILE_TIMED`."""
        return tuple(getattr(self._module, "PLANTED_WHILE_TIMED", ()))

    def reference(self, data: Mapping[str, Any], rows: torch.Tensor | None) -> dict[str, torch.Tensor]:
        """Every output in float64, of some rows or in full."""
        outputs: dict[str, torch.Tensor] = _ours("reference", self._module.reference, dict(data), rows)
        missing = set(self.spec.outputs) - set(outputs)
        if missing:
            raise ProblemBroken(f"reference returned no {min(missing)!r}.")
        if rows is None:
            return outputs
        for name in self.spec.outputs:
            if len(outputs[name]) != len(rows):
                raise ProblemBroken(f"reference(data, rows) returned {len(outputs[name])} rows of {name} for the {len(rows)} asked for.")
        return outputs

    def row_weights(self, data: Mapping[str, Any]) -> torch.Tensor | None:
        """The work of each row, where the problem tells it."""
        function = getattr(self._module, "row_weights", None)
        weights: torch.Tensor | None = _ours("row_weights", function, dict(data)) if function else None
        return weights

    def baseline(self, data: Mapping[str, Any], case: Case) -> dict[str, torch.Tensor]:
        """The honest baseline's outputs for private copies of these inputs."""
        outputs = {n: torch.empty(shape_of(s.shape, case, data), dtype=torch_dtype(s, case), device=self.kind.torch_device)
                   for n, s in self.spec.outputs.items()}
        inputs = [data[n].clone() if n in self.spec.mutable else data[n] for n in self.spec.inputs]
        returned = _ours("the baseline", self._baseline.custom_kernel, self._tuple(*inputs, *outputs.values()))
        if returned is not None:
            outputs = dict(zip(outputs, (returned,) if isinstance(returned, torch.Tensor) else returned, strict=True))
        return outputs

    def layout(self, case: Case, data: Mapping[str, Any]) -> Layout:
        """Where a case's tensors lie; the same for every draw of it."""
        tensors = [(n, tuple(data[n].shape), dtype_of(s, case)) for n, s in self.spec.inputs.items() if s.scalar is None]
        return lay_out(tensors, [(n, shape_of(s.shape, case, data), dtype_of(s, case)) for n, s in self.spec.outputs.items()])

    def scalars(self, data: Mapping[str, Any]) -> dict[str, int | float]:
        """The inputs that are plain numbers."""
        return {n: data[n] for n, s in self.spec.inputs.items() if s.scalar is not None}


def cases_for(problem: Problem, device: DeviceClass) -> list[Case]:
    """The public cases of a class. Raises ProblemBroken when there is none."""
    cases = public_cases(problem.spec, device)
    if not cases:
        raise ProblemBroken(f"{problem.name} has no cases for the class {device.name}.")
    return cases


def hidden_cases(problem: Problem, device: DeviceClass, seeds: Seeds) -> list[Case]:
    """The hidden cases of one run: axes drawn anew from its seed."""
    bases = {case.name: case for case in cases_for(problem, device)}
    return [_drawn_case(spec, bases, seeds, i) for i, spec in enumerate(hidden_specs(problem.spec, device))]


def shape_of(shape: tuple[str | int, ...], case: Case, data: Mapping[str, Any]) -> tuple[int, ...]:
    """A shape in numbers: set axes from the case, derived ones from what make_inputs returned."""
    return tuple(_axis(axis, case, data) for axis in shape)


def dtype_of(spec: InputSpec | OutputSpec, case: Case) -> str:
    """A tensor's dtype in this case."""
    return case.dtype if spec.dtype == "bfloat16" else spec.dtype


def torch_dtype(spec: InputSpec | OutputSpec, case: Case) -> torch.dtype:
    """The same as torch's object."""
    dtype: torch.dtype = getattr(torch, dtype_of(spec, case))
    return dtype


def _drawn_case(spec: HiddenSpec, bases: Mapping[str, Case], seeds: Seeds, index: int) -> Case:
    if spec.from_ not in bases:
        raise ProblemBroken(f"The hidden case {index} is made from {spec.from_!r}, which is no public case of this class.")
    chance = random.Random(seeds.number(f"hidden{index}/axes"))
    drawn = {axis: chance.randrange(*draw.range) if draw.range else chance.choice(draw.choice or ()) for axis, draw in spec.draw.items()}
    return hidden_case(spec, bases[spec.from_], drawn, index)


def _checked_input(name: str, spec: InputSpec, data: Mapping[str, Any], case: Case) -> Any:
    value = data.get(name)
    if spec.scalar is not None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ProblemBroken(f"make_inputs({case.name}) returned {type(value).__name__} for {name!r}; it is to be a number.")
        return value
    if not isinstance(value, torch.Tensor):
        raise ProblemBroken(f"make_inputs({case.name}) returned {type(value).__name__} for {name!r}; it is to be a tensor, or declared in "
                            f"problem.yml as a number: {name}: {{scalar: float32}}.")
    expected = shape_of(spec.shape or (), case, data), torch_dtype(spec, case)
    if (tuple(value.shape), value.dtype) != expected:
        raise ProblemBroken(f"make_inputs({case.name}) returned {name} as {value.dtype} {tuple(value.shape)}; "
                            f"problem.yml says {expected[1]} {expected[0]}.")
    return value.contiguous()


def _axis(axis: str | int, case: Case, data: Mapping[str, Any]) -> int:
    value = axis if isinstance(axis, int) else case.axes.get(axis, data.get(axis))
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProblemBroken(f"The axis {axis!r} of case {case.name} has no length: set it in the case, or return it from make_inputs.")
    return value


def _ours(what: str, function: Any, *arguments: Any) -> Any:
    """Call a problem's function; whatever it raises is the problem's fault."""
    try:
        with torch.no_grad():
            return function(*arguments)
    except FAILS as error:
        raise ProblemBroken(f"{what} raised {_said(error)}") from error


def _import(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ProblemBroken(f"{path.name} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except FAILS as error:
        raise ProblemBroken(f"{path.name} cannot be imported: {_said(error)}") from error
    return module


def _said(error: BaseException) -> str:
    return clean_text(f"{type(error).__name__}: {error}", 300)
