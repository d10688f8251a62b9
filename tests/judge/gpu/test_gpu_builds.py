"""Compiled entries on a real GPU: a `.cu` by TVM-FFI, an extension by `load_inline`, from source to verdict."""

from pathlib import Path

import pytest

from kernelderby.core.devices import device
from kernelderby.core.problem_folder import Problem
from kernelderby.core.settings import ROOT
from kernelderby.core.verdict import Mode, Outcome, Verdict
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge
from tests.judge.gpu.addition import addition

pytestmark = pytest.mark.gpu

STARTER = (ROOT / "problems/warmup/vector_add/starter.cu").read_text()
INLINE = (Path(__file__).parent / "programs/inline_hello.py").read_text()


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return addition(tmp_path_factory.mktemp("problems"), 67_108_864)


def judged(judge: Judge, problem: Problem, gpu: str, source: str, file_name: str, mode: Mode = Mode.BENCHMARK) -> Verdict:
    job = Job(submission=None, attempt=1, problem=problem, device=device(gpu), mode=mode, file_name=file_name, source=source.encode(),
              seed=bytes(range(32)))
    return judge.judge(job, lambda kind, data: None, lambda: False)


@pytest.mark.parametrize(("source", "file_name"), [(STARTER, "starter.cu"), (INLINE, "hello.py")], ids=["cu", "load_inline"])
def test_a_compiled_entry_is_accepted_armed_with_its_report_and_is_built_once(
        source: str, file_name: str, judge: Judge, problem: Problem, gpu: str) -> None:
    first, again = (judged(judge, problem, gpu, source, file_name) for _ in range(2))

    assert first.accepted, first.message
    assert first.compile and first.compile[0].arch == "sm_90a"
    assert first.cases[0].armed is True
    assert again.accepted and again.stages_s["build"] < 0.05


def test_work_on_another_stream_than_the_judges_gains_nothing(judge: Judge, problem: Problem, gpu: str) -> None:
    ours = "const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));"
    own = STARTER.replace(ours, "static cudaStream_t stream = [] { cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); "
                                "return s; }();")
    assert own != STARTER

    assert not judged(judge, problem, gpu, own, "starter.cu").accepted


def test_a_compile_error_takes_no_box(judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, STARTER.replace("T(float(a[i])", "T(float(z[i])"), "starter.cu", Mode.TEST)

    assert verdict.outcome is Outcome.COMPILE_ERROR
    assert verdict.message == 'starter.cu:20: identifier "z" is undefined'
    assert verdict.stages_s["box"] == 0
