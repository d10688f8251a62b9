"""Seeds tell nothing of each other; a problem's Python is held to its problem.yml."""

import shutil
from pathlib import Path

import pytest
import torch

from kernelderby.core.devices import CPU
from kernelderby.core.errors import ProblemBroken
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.text import clean_text
from kernelderby.judge.referee.inputs import ProblemCode, Seeds, cases_for, hidden_cases

TINY = Path(__file__).parent.parent / "tiny"


def changed(folder: Path, old: str, new: str) -> Problem:
    """The tiny problem with a change in its reference.py."""
    shutil.copytree(TINY, folder / "tiny")
    path = folder / "tiny/problems/warmup/double/reference.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return load_problem(path.parent)


@pytest.fixture(scope="module")
def tiny() -> Problem:
    return load_problem(TINY / "problems/warmup/double")


def test_draws_depend_on_seed_and_label_alone() -> None:
    assert Seeds(b"a").number("case/0/1") == Seeds(b"a").number("case/0/1")
    assert len({Seeds(seed).number(label) for seed in (b"a", b"b") for label in ("case/0/1", "case/0/2", "case/1/1")}) == 6
    assert all(0 <= Seeds(b"a").number(str(i)) < 2**63 for i in range(100))


def test_hidden_axes_are_drawn_anew_for_each_run_within_their_range(tiny: Problem) -> None:
    drawn = [hidden_cases(tiny, CPU, Seeds(bytes([i]))) for i in range(50)]

    assert {case.axes["rows"] for cases in drawn for case in cases if case.recipe is None} == {1, 2, 3, 4}
    assert {case.axes["cols"] for cases in drawn for case in cases if case.recipe} == {64, 100}
    assert [case.gate for case in drawn[0]] == ["any_shape", "any_input"]


def test_a_recipe_plants_and_says_where(tiny: Problem) -> None:
    code, case = ProblemCode(tiny), hidden_cases(tiny, CPU, Seeds(b"a"))[1]

    drawn = code.draw(case, Seeds(b"a").generator("x"))

    assert drawn.data["x"][drawn.planted, 0] == 1000


def test_the_baseline_agrees_with_the_oracle(tiny: Problem) -> None:
    code, case = ProblemCode(tiny), cases_for(tiny, CPU)[0]
    data = code.draw(case, Seeds(b"a").generator("x")).data

    torch.testing.assert_close(code.baseline(data, case)["y"].double(), code.reference(data, None)["y"], rtol=1e-6, atol=1e-6)


BROKEN = {
    "a shape": ("torch.randn(cols, ", "torch.randn(cols + 1, "),
    "a dtype": ("torch.randn(cols, generator=generator)", "torch.randn(cols, generator=generator).half()"),
    "an input missing": ('"factor": 2.0', '"other": 2.0'),
    "a number that is none": ('"factor": 2.0', '"factor": "2.0"'),
    "an exception": ("rows, cols = ", "rows, cols = 1 / 0, "),
    "an exit": ("rows, cols = ", "raise SystemExit; rows, cols = "),
    "an exit when it is imported": ("import torch", "import torch\nraise SystemExit"),
    "words that no terminal should see": ("import torch", "raise ValueError('\\ud800\\x00\\x1b[2J')"),
    "no import": ("import torch", "import no_such_module"),
    "no function": ("def reference(", "def oracle("),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_make_inputs_does_wrong_is_the_problem_s_fault(what: str, tmp_path: Path) -> None:
    problem = changed(tmp_path, *BROKEN[what])

    with pytest.raises(ProblemBroken) as caught:
        ProblemCode(problem).draw(cases_for(problem, CPU)[0], Seeds(b"a").generator("x"))

    assert caught.value.message == clean_text(caught.value.message)
