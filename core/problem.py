"""A problem as its `problem.yml` states it: YAML is data, checked here, and read-only afterwards."""

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from kernelderby.core.devices import DeviceClass

DTYPES: dict[str, int] = {   # torch's names, bytes an element
    "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
}
NAME = re.compile(r"[a-z][a-z0-9_]{1,63}")
NAME_RULE = "a name is 2 to 64 lower-case letters, digits and _, starting with a letter"


def _known_dtype(name: str) -> str:
    if name not in DTYPES:
        raise ValueError(f"dtype {name!r} is none of {', '.join(DTYPES)}")
    return name


Dtype = Annotated[str, AfterValidator(_known_dtype)]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Bind(StrEnum):
    """How an input is marked in the file. Whichever it says, contents are new before every call, but for those that `plan` names."""

    REVEAL = "reveal"
    BLOCK = "block"


class Axis(_Data):
    """A length: constant, set by each case, or derived by `make_inputs` (the text says how)."""

    const: int | None = None
    var: bool = False
    derived: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "Axis":
        if (self.const is not None) + self.var + (self.derived is not None) != 1:
            raise ValueError("an axis is exactly one of const, var and derived")
        return self


class InputSpec(_Data):
    """A tensor (shape and dtype) or a number (scalar)."""

    shape: tuple[str | int, ...] | None = None
    dtype: Dtype = "bfloat16"
    scalar: Literal["float32", "int32", "int64"] | None = None
    bind: Bind = Bind.REVEAL
    views: dict[str, tuple[str | int, ...]] = Field(default_factory=dict)   # extra names for export and the oracle

    @model_validator(mode="after")
    def _tensor_or_number(self) -> "InputSpec":
        if (self.shape is None) == (self.scalar is None):
            raise ValueError("an input has a shape and a dtype, or is a scalar")
        return self


class Budget(_Data):
    """How far a row may lie from the float64 oracle: a factor on the baseline's own worst row, or an absolute bound an element."""

    relative_to_baseline: Annotated[float, Field(gt=0)] | None = None
    max_abs: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "Budget":
        if (self.relative_to_baseline is None) == (self.max_abs is None):
            raise ValueError("a budget is relative_to_baseline or max_abs")
        return self


class OutputSpec(_Data):
    """A tensor the entry fills. `rows` names its leading axes; the rest is one row. Empty list: the whole tensor is one row."""

    shape: tuple[str | int, ...]
    dtype: Dtype = "bfloat16"
    rows: tuple[str, ...] = ()
    budget: Budget
    empty_row: float | None = None            # what a row without any key holds, for statement and export
    base: Literal[2] | Literal["e"] | None = None   # of a log-sum-exp

    @model_validator(mode="after")
    def _rows_lead(self) -> "OutputSpec":
        if tuple(self.shape[: len(self.rows)]) != self.rows:
            raise ValueError("rows must name the leading axes of shape")
        return self


class CaseSpec(_Data):
    """A public case. Keys beyond these belong to `make_inputs` and stand in `extra`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    axes: dict[str, int] = Field(default_factory=dict)
    dtype: Dtype = "bfloat16"                   # replaces every bfloat16 of the problem
    model: str | None = None                  # whose shapes these are


class Draw(_Data):
    """How a hidden axis is drawn: `range` [low, high) or one of `choice`."""

    range: tuple[int, int] | None = None
    choice: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "Draw":
        if (self.range is None) == (self.choice is None):
            raise ValueError("a draw is a range or a choice")
        if self.range and self.range[0] >= self.range[1]:
            raise ValueError("a range is [low, high) with low < high")
        return self


class HiddenSpec(_Data):
    """A family of hidden cases: a public case with axes drawn anew for each submission, and a recipe's planted feature."""

    model_config = ConfigDict(extra="allow", frozen=True)     # extra keys override the case's own
    from_: str = Field(alias="from")
    draw: dict[str, Draw] = Field(default_factory=dict)
    recipe: str | None = None
    gate: Literal["any_input", "any_shape"] | None = None     # None: any_input with a recipe, else any_shape

    @property
    def failed_gate(self) -> str:
        """The gate that a failure of these cases belongs to."""
        return self.gate or ("any_input" if self.recipe else "any_shape")


class WorkSpec(_Data):
    """Lower bounds of the work, as formulas over axes, integer inputs and `let`."""

    let: dict[str, str | int | float] = Field(default_factory=dict)
    flops: str | int | float = 0
    bytes: str | int | float = 0
    exps: str | int | float = 0


class Limits(_Data):
    """What one entry may use."""

    time_s: Annotated[float, Field(gt=0, le=3600)] = 60.0     # to load, and for each case: bind, warm-up and every call
    memory_mb: Annotated[int, Field(ge=256)] = 8192           # the box's host memory
    workspace_mb: int = 256                                   # device memory beside inputs and outputs (gate `serves`)


class ProblemFile(_Data):
    """`problem.yml`, key by key."""

    name: str
    fi_trace: str | None = None
    title: str
    family: str
    axes: dict[str, Axis] = Field(default_factory=dict)
    inputs: Annotated[dict[str, InputSpec], Field(min_length=1)]
    outputs: Annotated[dict[str, OutputSpec], Field(min_length=1)]
    mutable: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    cases: Annotated[dict[str, tuple[CaseSpec, ...]], Field(min_length=1)]
    hidden: dict[str, tuple[HiddenSpec, ...]] = Field(default_factory=dict)
    work: WorkSpec = WorkSpec()
    limits: Limits = Limits()
    serves: bool = False
    libraries: Literal["none", "listed", "any"] = "any"
    baseline: str
    ranking: Literal["geom"] = "geom"
    min_effect: float = 0.005
    licence: str

    @field_validator("name", "family")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError(NAME_RULE)
        return value

    @field_validator("baseline")
    @classmethod
    def _stays_here(cls, value: str) -> str:
        if value.startswith("/") or ".." in value.split("/"):
            raise ValueError("the baseline's path is relative to the problem's folder or to the root, without ..")
        return value

    @model_validator(mode="after")
    def _refers_to_what_exists(self) -> "ProblemFile":
        shapes = {n: i.shape or () for n, i in self.inputs.items()} | {n: o.shape for n, o in self.outputs.items()}
        for name, shape in shapes.items():
            missing = [a for a in shape if isinstance(a, str) and a not in self.axes]
            if missing:
                raise ValueError(f"{name} uses the axis {missing[0]!r}, which `axes` does not name")
        if both := set(self.inputs) & set(self.outputs):
            raise ValueError(f"{min(both)!r} is both an input and an output")
        if unfit := [n for n in shapes if not n.isidentifier() or keyword.iskeyword(n) or n.startswith("_")]:
            raise ValueError(f"{unfit[0]!r} cannot be a field of `data`; use a plain Python name")
        for name in (*self.mutable, *self.plan):
            if name not in self.inputs:
                raise ValueError(f"mutable and plan name inputs; {name!r} is none")
        return self

    @model_validator(mode="after")
    def _cases_set_the_axes(self) -> "ProblemFile":
        var = {name for name, axis in self.axes.items() if axis.var}
        for device, specs in self.cases.items():
            for spec in specs:
                if odd := var ^ set(spec.axes):
                    raise ValueError(f"the case {spec.name!r} of {device} must set exactly the var axes; look at {min(odd)!r}")
            if len({spec.name for spec in specs}) < len(specs):
                raise ValueError(f"two cases of {device} have the same name")
        return self

    @model_validator(mode="after")
    def _hidden_cases_have_a_base(self) -> "ProblemFile":
        var = {name for name, axis in self.axes.items() if axis.var}
        for device, families in self.hidden.items():
            bases = {spec.name for spec in self.cases.get(device) or self.cases.get("cpu" if device == "cpu" else "gpu", ())}
            for family in families:
                if family.from_ not in bases:
                    raise ValueError(f"hidden cases of {device} come from {family.from_!r}, which is no case there")
                if odd := set(family.draw) - var:
                    raise ValueError(f"hidden cases of {device} draw {min(odd)!r}, which is no var axis")
        return self


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case to play: what `make_inputs(case, generator)` receives."""

    name: str
    axes: Mapping[str, int]              # constant and set axes; derived ones come back from make_inputs
    dtype: str                           # in place of every bfloat16
    recipe: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)   # the case's other keys, such as lengths
    model: str | None = None
    hidden: bool = False
    gate: str = "right"                  # the gate a failure of this case belongs to


def public_cases(problem: ProblemFile, device: DeviceClass) -> list[Case]:
    """The public cases of a device class: those listed for it by name, else its kind's."""
    return [_case(problem, spec) for spec in problem.cases.get(device.name) or problem.cases.get(device.kind, ())]


def hidden_specs(problem: ProblemFile, device: DeviceClass) -> tuple[HiddenSpec, ...]:
    """The hidden families of a device class, found the same way."""
    return problem.hidden.get(device.name) or problem.hidden.get(device.kind, ())


def hidden_case(spec: HiddenSpec, base: Case, drawn: Mapping[str, int], index: int) -> Case:
    """The hidden case that `spec` makes of the public case `base` with the axes `drawn`."""
    return Case(name=f"hidden{index}", axes={**base.axes, **drawn}, dtype=base.dtype, recipe=spec.recipe,
                extra={**base.extra, **(spec.model_extra or {})}, model=base.model, hidden=True, gate=spec.failed_gate)


def _case(problem: ProblemFile, spec: CaseSpec) -> Case:
    constants = {name: axis.const for name, axis in problem.axes.items() if axis.const is not None}
    return Case(name=spec.name, axes={**constants, **spec.axes}, dtype=spec.dtype, extra=spec.model_extra or {}, model=spec.model,
                gate="real_traces" if spec.model else "right")
