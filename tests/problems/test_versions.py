"""A version is what an entry's result depends on; hidden cases, budgets and gates have a hash of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.problem_folder import Problem, archive, load_problem, unpack
from tests.problems.copying import copied, edit_file, edit_yml
from tests.problems.loading import NAMES, problem

Yml = dict[str, Any]
NAME = "gqa_paged_decode"
GATES: dict[str, Callable[[Yml], object]] = {
    "a hidden family": lambda y: y["hidden"]["cpu"].pop(),
    "a hidden draw": lambda y: y["hidden"]["cpu"][0]["draw"]["batch"].update(range=[1, 3]),
    "a recipe": lambda y: y["hidden"]["cpu"][1].update(recipe="sink"),
    "a budget": lambda y: y["outputs"]["output"]["budget"].update(relative_to_baseline=4.0),
    "serves": lambda y: y.update(serves=False),
    "libraries": lambda y: y.update(libraries="any"),
    "min_effect": lambda y: y.update(min_effect=0.01),
}
KEYS: dict[str, Callable[[Yml], object]] = {
    "a case's axis": lambda y: y["cases"]["cpu"][0]["axes"].update(batch=1),
    "a case's lengths": lambda y: y["cases"]["cpu"][0].update(lengths={"fixed": 7}),
    "a constant": lambda y: y["axes"]["q_heads"].update(const=16),
    "an output's dtype": lambda y: y["outputs"]["lse"].update(dtype="float16"),
    "an empty row": lambda y: y["outputs"]["lse"].update(empty_row=0.0),
    "a limit": lambda y: y["limits"].update(time_s=61),
    "the work": lambda y: y["work"].update(exps="1"),
    "the order of inputs": lambda y: y.update(inputs=dict(reversed(y["inputs"].items()))),
}
FILES = ["reference.py", "../oracle.py", "../../../reference_kernels/gqa_paged_decode/baseline.py"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copied(NAME, tmp_path)


def test_a_copy_is_the_same_version(folder: Path) -> None:
    assert hashes(load_problem(folder)) == hashes(problem(NAME))


@pytest.mark.parametrize("name", NAMES)
def test_an_archive_unpacks_to_the_same_version(name: str, tmp_path: Path) -> None:
    original = problem(name)

    unpacked = unpack(archive(original), tmp_path)

    assert hashes(unpacked) == hashes(original)
    assert archive(unpacked) == archive(original)
    assert unpacked.baseline.read_bytes() == original.baseline.read_bytes()
    assert unpacked.baseline.is_relative_to(tmp_path)


@pytest.mark.parametrize("what", GATES)
def test_a_gate_changes_the_gate_set_alone(what: str, folder: Path) -> None:
    edit_yml(folder, GATES[what])
    changed = load_problem(folder)

    assert changed.version == problem(NAME).version
    assert changed.gate_set != problem(NAME).gate_set


@pytest.mark.parametrize("what", KEYS)
def test_any_other_key_changes_the_version_alone(what: str, folder: Path) -> None:
    edit_yml(folder, KEYS[what])
    changed = load_problem(folder)

    assert changed.version != problem(NAME).version
    assert changed.gate_set == problem(NAME).gate_set


@pytest.mark.parametrize("file", FILES)
def test_the_problems_python_changes_the_version(file: str, folder: Path) -> None:
    edit_file(folder / file, '"""', '"""Changed. ')

    assert load_problem(folder).version != problem(NAME).version


def test_a_module_beside_reference_py_changes_the_version(folder: Path) -> None:
    (folder / "helper.py").write_text("ONE = 1\n")

    assert load_problem(folder).version != problem(NAME).version


@pytest.mark.parametrize("file", ["statement.md", "starter.py", "submissions/accepted/torch.py"])
def test_what_no_result_depends_on_keeps_the_version(file: str, folder: Path) -> None:
    (folder / file).write_text("another text\n")

    assert hashes(load_problem(folder)) == hashes(problem(NAME))


def test_comments_and_caches_keep_the_version(folder: Path) -> None:
    (folder / "problem.yml").write_text("# a comment\n" + (folder / "problem.yml").read_text())
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "reference.cpython-311.pyc").write_bytes(b"x")

    assert hashes(load_problem(folder)) == hashes(problem(NAME))


def test_the_version_does_not_depend_on_where_the_folder_lies(tmp_path: Path) -> None:
    folder = copied(NAME, tmp_path / "submissions" / "starter")

    assert hashes(load_problem(folder)) == hashes(problem(NAME))


def hashes(found: Problem) -> tuple[str, str]:
    return found.version, found.gate_set
