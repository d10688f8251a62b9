"""What `derby problem check` finds, one broken thing at a time, and the sentence it says."""

from pathlib import Path

import pytest

from kernelderby.core.devices import CPU
from kernelderby.core.errors import ProblemBroken
from kernelderby.core.problem_folder import load_problem
from kernelderby.core.verdict import Mode, Outcome
from kernelderby.judge.judging import Judge
from kernelderby.judge.problem_check import CheckRow, bundled, check_problem
from kernelderby.judge.referee.inputs import ProblemCode, Seeds
from kernelderby.judge.referee.inspecting import inspect
from tests.problems.copying import copied, edit_file, edit_yml
from tests.problems.loading import NAMES, problem

SEEDS = Seeds(b"check")
BROKEN_PYTHON = {   # what is replaced in vector_add's reference.py, by what, and what is said
    "another shape each time": ('torch.randn(case.axes["n"],', 'torch.randn(case.axes["n"] + generator.initial_seed() % 2,',
                                "make_inputs(small) returned a as"),
    "no generator": ("return {\"a\": a,", "a, b = torch.randn(2, case.axes['n']).to(dtype)\n    return {\"a\": a.clone(),",
                     "other inputs for the same generator"),
    "constant inputs": ("return {\"a\": a,", "a, b = torch.ones(2, case.axes['n']).to(dtype)\n    return {\"a\": a.clone(),",
                        "the same inputs for two generators"),
    "other rows": ("(data[\"a\"][rows], data[\"b\"][rows])", "(data[\"a\"][rows - 1], data[\"b\"][rows - 1])",
                   "reference(data, rows) is not reference(data)[rows] for c"),
    "rows ignored": ("(data[\"a\"][rows], data[\"b\"][rows])", "(data[\"a\"], data[\"b\"])",
                     "reference(data, rows) returned 1000 rows of c for the 8 asked for"),
    "no float64": ("a.double() + b.double()", "a + b", "it must be float64"),
    "a wrong oracle's NaN": ("a.double() + b.double()", "a.double() / 0 * 0", "holds NaN"),
    "a recipe that does nothing": ("data[\"a\"][rows] = 30_000.0", "pass", "The recipe outlier changed nothing"),
    "a recipe's row out of range": ("= 30_000.0\n    return rows", "= 30_000.0\n    return rows + 10**6",
                                    "The recipe outlier returned a row that c does not have"),
    "no such recipe": ("\"outlier\": outlier, ", "", "reference.py has no recipe 'outlier'"),
    "an exception": ("def reference(data, rows=None):", "def reference(data, rows=None):\n    raise KeyError('x')",
                     "reference raised KeyError"),
}


@pytest.mark.parametrize("what", BROKEN_PYTHON)
def test_broken_python_is_found(what: str, tmp_path: Path) -> None:
    old, new, sentence = BROKEN_PYTHON[what]
    folder = copied("vector_add", tmp_path)
    edit_file(folder / "reference.py", old, new)

    assert sentence in said(folder)


def test_a_baseline_outside_its_own_budget_is_found(tmp_path: Path) -> None:
    folder = copied("vector_add", tmp_path)
    edit_yml(folder, lambda y: y["outputs"]["c"].update(budget={"max_abs": 0.0}))
    baseline = tmp_path / "reference_kernels/vector_add/baseline.py"
    edit_file(baseline, "torch.add(data.a, data.b, out=data.c)", "data.c.copy_(data.a * 1.5 + data.b)")

    assert "The baseline does not pass its own budget" in said(folder)


def test_a_budget_that_lets_cheats_through_is_found(tmp_path: Path) -> None:
    folder = copied("vector_add", tmp_path)
    edit_yml(folder, lambda y: y["outputs"]["c"].update(budget={"max_abs": 100.0}))

    found = said(folder)

    assert all(f"The answer {cheat!r} for c passes" in found for cheat in ("zeros", "an input", "1.01 times the answer"))
    assert "'one NaN'" not in found


def test_a_formula_that_cannot_be_evaluated_is_found(tmp_path: Path) -> None:
    folder = copied("vector_add", tmp_path)
    edit_yml(folder, lambda y: y["work"].update(bytes="3*m"))

    assert "The formula '3*m' cannot be evaluated" in said(folder)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wrong_with_our_problems_python(name: str) -> None:
    found = problem(name)

    rows = inspect(found, ProblemCode(found), CPU, SEEDS)

    assert [row for row in rows if not row["ok"]] == []
    assert len(rows) == (3 + len(ProblemCode(found).planted)) * len(found.spec.cases["cpu"]) + len(found.spec.hidden["cpu"])


def test_a_check_goes_through_the_judge_and_reports_each_row(tmp_path: Path, judge: Judge) -> None:
    folder = copied("vector_add", tmp_path)
    keep(folder, "wrong_values/scaled.py", "accepted/torch.py")
    (folder / "submissions/wrong_values/right.py").write_text("def custom_kernel(data):\n    return data.a + data.b\n")
    edit_file(folder / "statement.md", "`cancelling`", "the other")
    reported: list[CheckRow] = []

    rows = check_problem(load_problem(folder), CPU, judge, reported.append)

    assert rows == reported
    assert {row.what: row.message for row in rows if not row.ok} == {
        "statement.md": "The statement does not name `cancelling`.",
        "wrong_values/right.py": "It must get wrong_values, and got accepted.",
    }
    assert {"accepted/torch.py", "wrong_values/scaled.py", "vector_add/starter.py"} <= {row.what for row in rows}


def test_a_check_of_python_that_does_not_import_ends_with_that(tmp_path: Path, judge: Judge) -> None:
    folder = copied("vector_add", tmp_path)
    (folder / "reference.py").write_text("import nothing_of_that_name\n")

    rows = check_problem(load_problem(folder), CPU, judge, lambda row: None)

    assert rows[-1].what == "reference.py"
    assert "reference.py cannot be imported: ModuleNotFoundError" in rows[-1].message


def test_a_folder_named_for_no_outcome_is_told(tmp_path: Path) -> None:
    folder = copied("vector_add", tmp_path)
    (folder / "submissions/accepted").rename(folder / "submissions/correct")

    with pytest.raises(ProblemBroken, match="submissions/correct is named for no outcome"):
        bundled(load_problem(folder), CPU)


def test_a_header_sets_the_mode_and_the_class() -> None:
    files = {file.name: file for file in bundled(problem("vector_add"), CPU)}

    assert files["wrong_values/short_vectors.py"].mode is Mode.RANKED
    assert files["wrong_values/scaled.py"].mode is Mode.TEST
    assert files["accepted/torch.py"].mode is Mode.RANKED
    assert files["refused/add.cu"].device == "cpu"
    assert files["vector_add/starter.cu"].expected is Outcome.REFUSED


def said(folder: Path) -> str:
    """Every sentence about a problem's Python."""
    found = load_problem(folder)
    return " ".join(row["message"] for row in inspect(found, ProblemCode(found), CPU, SEEDS) if not row["ok"])


def keep(folder: Path, *names: str) -> None:
    """Remove the other bundled submissions."""
    for path in folder.glob("submissions/*/*"):
        if f"{path.parent.name}/{path.name}" not in names:
            path.unlink()
