"""On a real GPU: what cannot be launched ahead is played again unarmed, nothing outlives a box, a broken context costs one attempt."""

import shutil
from pathlib import Path

import pytest

from kernelderby.core.errors import DerbyError
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.verdict import Mode, Outcome
from kernelderby.judge.judging import Judge
from tests.judge.gpu.addition import addition, judged

pytestmark = pytest.mark.gpu

PROGRAMS = Path(__file__).parent / "programs"
HONEST = "import torch\n\ndef custom_kernel(data):\n    torch.add(data.a, data.b, out=data.c)\n"
LAUNCHES_US = 45.0      # what a launch and a synchronisation of its own may cost an entry: 18 to 35 µs were seen on an H200
BREAKS_ONCE = """
import pathlib
_mark, _right = pathlib.Path(__file__).with_name("failed"), reference

def reference(data, rows=None):
    if not _mark.exists():
        _mark.touch()
        torch.zeros(4, device="cuda")[torch.tensor([10**7], device="cuda")].sum().item()
    return _right(data, rows)
"""


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """One case of about 25 µs on Hopper."""
    return addition(tmp_path_factory.mktemp("problems"), 16_777_216)


@pytest.mark.parametrize("name", ["synchronises", "synchronises_late"])
def test_an_entry_that_waits_for_the_gpu_is_played_again_unarmed(name: str, judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, (PROGRAMS / f"{name}.py").read_text())

    assert verdict.accepted, verdict.message
    assert [case.armed for case in verdict.cases] == [False]


def test_an_unarmed_time_is_the_armed_one_and_the_launches(judge: Judge, problem: Problem, gpu: str) -> None:
    armed = judged(judge, problem, gpu, HONEST).score_us
    unarmed = [judged(judge, problem, gpu, (PROGRAMS / "synchronises.py").read_text()).score_us for _ in range(3)]

    assert armed is not None
    for time_us in unarmed:
        assert time_us is not None and armed - 2 <= time_us <= armed + LAUNCHES_US


def test_nothing_outlives_its_box(judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, (PROGRAMS / "outlives.py").read_text(), Mode.TEST)

    assert verdict.outcome is Outcome.TIMEOUT and judge.fault is None
    assert judged(judge, problem, gpu, HONEST, Mode.TEST).accepted and judge.fault is None


def test_after_an_error_in_its_context_a_referee_is_replaced(judge: Judge, problem: Problem, gpu: str, tmp_path: Path) -> None:
    shutil.copytree(problem.folder.parents[2], tmp_path / "broken")
    folder = tmp_path / "broken" / problem.folder.relative_to(problem.folder.parents[2])
    with (folder / "reference.py").open("a") as file:
        file.write(BREAKS_ONCE)
    broken = load_problem(folder)
    with pytest.raises(DerbyError):
        judged(judge, broken, gpu, HONEST, Mode.TEST)

    assert judged(judge, broken, gpu, HONEST, Mode.TEST).accepted
