"""The problems of this repository, and their Python as the referee imports it."""

import os
from functools import cache
from typing import Any

import torch

from kernelderby.core.devices import CPU
from kernelderby.core.problem import Case
from kernelderby.core.problem_folder import Problem, load_problem, problem_folders
from kernelderby.core.settings import ROOT
from kernelderby.judge.referee.inputs import ProblemCode, Seeds, cases_for, hidden_cases

NAMES = [folder.name for folder in problem_folders(ROOT / "problems")]
_FOLDERS = {folder.name: folder for folder in problem_folders(ROOT / "problems")}


@cache
def problem(name: str) -> Problem:
    return load_problem(_FOLDERS[name])


@cache
def code_of(name: str) -> ProblemCode:
    return ProblemCode(problem(name))


def public(name: str) -> list[Case]:
    return cases_for(problem(name), CPU)


def hidden(name: str, seeds: Seeds) -> list[Case]:
    return hidden_cases(problem(name), CPU, seeds)


def fresh_seeds() -> Seeds:
    """Other inputs in every run: what holds, holds for any seed."""
    return Seeds(os.urandom(32))


def case_of(name: str, **changes: Any) -> Case:
    """The first public case with other axes, dtype, recipe or extra keys."""
    base = public(name)[0]
    axes = {k: v for k, v in changes.items() if k in base.axes}
    extra = {k: v for k, v in changes.items() if k in base.extra}
    return Case(name="made", axes={**base.axes, **axes}, extra={**base.extra, **extra}, dtype=changes.get("dtype", "float32"),
                recipe=changes.get("recipe"))


def inputs(name: str, case: Case, seed: int = 0) -> dict[str, Any]:
    return code_of(name).draw(case, torch.Generator().manual_seed(seed)).data
