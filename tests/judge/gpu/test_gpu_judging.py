"""The judge on a real GPU, in real boxes: what a program does is seen for what it is, and no timing attack pays."""

import shutil
from pathlib import Path

import pytest
import yaml

from kernelderby.core.devices import device
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import ROOT
from kernelderby.core.verdict import Gate, Mode, Outcome, Verdict
from kernelderby.judge.judging import Job, Judge

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
HONEST = "import torch\n\ndef custom_kernel(data):\n    torch.add(data.a, data.b, out=data.c)\n"
OUTCOMES = {
    "returns": Outcome.ACCEPTED, "synchronises": Outcome.ACCEPTED, "wrong": Outcome.WRONG_VALUES, "null": Outcome.WRONG_VALUES,
    "crash_at_once": Outcome.ILLEGAL_MEMORY, "crash_in_a_call": Outcome.ILLEGAL_MEMORY, "endless": Outcome.TIMEOUT,
}
BOUND, BOUND_US = 0.01, 2.0       # how much less than its honest twin an accepted attack may take


@pytest.fixture(scope="session")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """vector_add with one case of about 90 µs on Hopper, and none hidden."""
    root = tmp_path_factory.mktemp("problems")
    folder = root / "problems/warmup/vector_add"
    shutil.copytree(ROOT / "problems/warmup/vector_add", folder)
    shutil.copytree(ROOT / "reference_kernels/vector_add", root / "reference_kernels/vector_add")
    spec = yaml.safe_load((folder / "problem.yml").read_text())
    spec["cases"]["gpu"] = [{"name": "n64m", "axes": {"n": 67_108_864}, "dtype": "float16"}]
    spec["hidden"].pop("gpu")
    (folder / "problem.yml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return load_problem(folder)


def judged(judge: Judge, problem: Problem, gpu: str, source: str, mode: Mode = Mode.BENCHMARK) -> Verdict:
    job = Job(submission=None, attempt=1, problem=problem, device=device(gpu), mode=mode, file_name="kernel.py", source=source.encode(),
              seed=bytes(range(32)))
    return judge.judge(job, lambda kind, data: None, lambda: False)


@pytest.fixture(scope="session")
def honest_us(judge: Judge, problem: Problem, gpu: str) -> float:
    verdict = judged(judge, problem, gpu, HONEST)
    assert verdict.score_us is not None, verdict.message
    return verdict.score_us


@pytest.mark.parametrize("name", OUTCOMES)
def test_what_a_program_does_is_seen_for_what_it_is(name: str, judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, (HERE / f"programs/{name}.py").read_text())

    assert verdict.outcome is OUTCOMES[name], verdict.message


def test_an_honest_kernel_is_timed_armed_and_in_agreement_with_its_own_events(judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, HONEST)

    case = verdict.cases[0]
    assert case.armed is True and case.calls == 100
    assert case.time_us is not None and case.claimed_us is not None
    assert abs(case.time_us - (case.claimed_us - 1.3)) <= 0.01 * case.time_us + 1      # a pair of events shows 1.3 µs around nothing
    assert case.speed_of_light is not None and 0.5 < case.speed_of_light <= 1.05 and verdict.bound == "memory"


def test_an_entry_that_waits_for_the_gpu_is_timed_unarmed(judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, (HERE / "programs/synchronises.py").read_text())

    assert verdict.cases[0].armed is False


@pytest.mark.parametrize("attack", sorted(path.stem for path in (HERE / "attacks").glob("*.py")))
def test_no_timing_attack_pays(attack: str, judge: Judge, problem: Problem, gpu: str, honest_us: float) -> None:
    verdict = judged(judge, problem, gpu, (HERE / f"attacks/{attack}.py").read_text())

    if verdict.accepted:
        assert verdict.score_us is not None and verdict.score_us >= honest_us * (1 - BOUND) - BOUND_US
    else:
        assert verdict.outcome is not Outcome.REFUSED or verdict.gate is Gate.HONEST_TIME
