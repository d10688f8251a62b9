"""Every broken key of a problem.yml is told by its place and what it should be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.errors import NotFound, ProblemBroken
from kernelderby.core.problem_folder import find_problem, load_problem
from kernelderby.core.settings import ROOT
from tests.problems.copying import copied, edit_yml
from tests.problems.loading import NAMES

Yml = dict[str, Any]
BROKEN: dict[str, tuple[Callable[[Yml], object], str]] = {
    "no name": (lambda y: y.pop("name"), "name: Field required"),
    "another name": (lambda y: y.update(name="other"), "They must agree"),
    "a name in capitals": (lambda y: y.update(name="Vector"), "name: a name is 2 to 64 lower-case letters"),
    "a family that is a path": (lambda y: y.update(family="../x"), "family: a name is 2 to 64 lower-case letters"),
    "no title": (lambda y: y.pop("title"), "title: Field required"),
    "no licence": (lambda y: y.pop("licence"), "licence: Field required"),
    "an unknown key": (lambda y: y.update(color="red"), "color: Extra inputs are not permitted"),
    "no inputs": (lambda y: y.update(inputs={}), "inputs: Dictionary should have at least 1 item"),
    "no outputs": (lambda y: y.update(outputs={}), "outputs: Dictionary should have at least 1 item"),
    "no cases": (lambda y: y.update(cases={}), "cases: Dictionary should have at least 1 item"),
    "an axis of two kinds": (lambda y: y["axes"]["n"].update(const=3), "axes.n: an axis is exactly one of const, var and derived"),
    "an axis of no kind": (lambda y: y["axes"].update(m={}), "axes.m: an axis is exactly one of"),
    "an axis nobody named": (lambda y: y["inputs"]["a"].update(shape=["m"]), "a uses the axis 'm', which `axes` does not name"),
    "an input of no kind": (lambda y: y["inputs"].update(s={}), "inputs.s: an input has a shape and a dtype, or is a scalar"),
    "an unknown dtype": (lambda y: y["inputs"]["a"].update(dtype="fp16"), "inputs.a.dtype: dtype 'fp16' is none of float32"),
    "a case's unknown dtype": (lambda y: y["cases"]["cpu"][0].update(dtype="half"), "cases.cpu.0.dtype: dtype 'half' is none of"),
    "an unknown bind": (lambda y: y["inputs"]["a"].update(bind="late"), "inputs.a.bind: Input should be 'reveal' or 'block'"),
    "a field that is a keyword": (lambda y: y["inputs"].update({"lambda": {"scalar": "float32"}}), "'lambda' cannot be a field of `data`"),
    "input and output": (lambda y: y["inputs"].update(c=y["inputs"]["a"]), "'c' is both an input and an output"),
    "no budget": (lambda y: y["outputs"]["c"].pop("budget"), "outputs.c.budget: Field required"),
    "two budgets": (lambda y: y["outputs"]["c"]["budget"].update(max_abs=1.0), "outputs.c.budget: a budget is relative_to"),
    "a budget of 0": (lambda y: y["outputs"]["c"].update(budget={"relative_to_baseline": 0}), "relative_to_baseline: Input should be"),
    "rows that do not lead": (lambda y: y["outputs"]["c"].update(rows=["x"]), "outputs.c: rows must name the leading axes of shape"),
    "mutable that is no input": (lambda y: y.update(mutable=["c"]), "mutable and plan name inputs; 'c' is none"),
    "a case without its axis": (lambda y: y["cases"]["cpu"][0].update(axes={}), "the case 'small' of cpu must set exactly the var axes"),
    "a case with another axis": (lambda y: y["cases"]["cpu"][0]["axes"].update(m=1), "look at 'm'"),
    "two cases of one name": (lambda y: y["cases"]["cpu"][1].update(name="small"), "two cases of cpu have the same name"),
    "hidden cases from nowhere": (lambda y: y["hidden"]["cpu"][0].update({"from": "x"}), "come from 'x', which is no case there"),
    "hidden cases of another axis": (lambda y: y["hidden"]["cpu"][0]["draw"].update(m={"range": [1, 2]}), "draw 'm', which is no var axis"),
    "an empty range": (lambda y: y["hidden"]["cpu"][0]["draw"]["n"].update(range=[5, 5]), "a range is [low, high) with low < high"),
    "a draw of two kinds": (lambda y: y["hidden"]["cpu"][0]["draw"]["n"].update(choice=[1]), "a draw is a range or a choice"),
    "an unknown gate": (lambda y: y["hidden"]["cpu"][0].update(gate="right"), "gate: Input should be 'any_input' or 'any_shape'"),
    "no time": (lambda y: y["limits"].update(time_s=0), "limits.time_s: Input should be greater than 0"),
    "no memory": (lambda y: y["limits"].update(memory_mb=16), "limits.memory_mb: Input should be greater than or equal to 256"),
    "an unknown library rule": (lambda y: y.update(libraries="some"), "libraries: Input should be 'none', 'listed' or 'any'"),
    "an unknown ranking": (lambda y: y.update(ranking="sum"), "ranking: Input should be 'geom'"),
    "a baseline elsewhere": (lambda y: y.update(baseline="../../../etc/passwd"), "baseline: the baseline's path is relative"),
    "a baseline that is not there": (lambda y: y.update(baseline="gone.py"), "needs gone.py, which is not there"),
}


@pytest.mark.parametrize("name", NAMES)
def test_our_problems_load(name: str) -> None:
    found = find_problem(name, ROOT / "problems")

    assert found.name == name
    assert found.statement.startswith("# ")
    assert {"starter.py", "starter_torch.py"} <= set(found.starters)
    assert set(found.spec.cases) == {"cpu", "gpu"}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_key_is_named(what: str, tmp_path: Path) -> None:
    break_it, sentence = BROKEN[what]
    folder = copied("vector_add", tmp_path)
    edit_yml(folder, break_it)

    with pytest.raises(ProblemBroken) as error:
        load_problem(folder)

    assert sentence in error.value.message


@pytest.mark.parametrize(("content", "sentence"), [
    (b"", "the file: Input should be"), (b"- a list", "the file: Input should be"), (b"a: [", "problem.yml is not YAML"),
    (b"\xff\xfe", "problem.yml is not YAML"), (b"name: !!python/object/apply:os.system [true]", "problem.yml is not YAML")])
def test_a_file_that_is_no_problem_is_told(content: bytes, sentence: str, tmp_path: Path) -> None:
    folder = copied("vector_add", tmp_path)
    (folder / "problem.yml").write_bytes(content)

    with pytest.raises(ProblemBroken) as error:
        load_problem(folder)

    assert sentence in error.value.message


@pytest.mark.parametrize("gone", ["reference.py", "problem.yml"])
def test_a_missing_file_is_named(gone: str, tmp_path: Path) -> None:
    folder = copied("vector_add", tmp_path)
    (folder / gone).unlink()

    with pytest.raises(ProblemBroken, match=gone):
        load_problem(folder)


def test_an_unknown_problem_names_the_known_ones() -> None:
    with pytest.raises(NotFound, match=r"no problem 'nonsense'. Known: .*vector_add"):
        find_problem("nonsense", ROOT / "problems")
