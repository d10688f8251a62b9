"""Gate `serves` on a real GPU: a call that an engine could capture and replay passes, and every other is told what keeps it from that."""

from pathlib import Path

import pytest
import yaml

from kernelderby.core.devices import device
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.verdict import Mode, Outcome, Verdict
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge
from tests.judge.gpu.serving import PROGRAMS, small_decode

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return small_decode(tmp_path_factory.mktemp("problems"))


def judged(judge: Judge, problem: Problem, gpu: str, source: str, mode: Mode = Mode.RANKED) -> Verdict:
    job = Job(submission=None, attempt=1, problem=problem, device=device(gpu), mode=mode, file_name="kernel.py", source=source.encode(),
              seed=bytes(range(32)))
    return judge.judge(job, lambda kind, data: None, lambda: False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_an_engine_could_not_capture_and_replay_is_told(name: str, judge: Judge, problem: Problem, gpu: str) -> None:
    program = PROGRAMS[name]

    verdict = judged(judge, problem, gpu, program.source)

    assert (verdict.outcome, verdict.gate) == (program.outcome, program.gate), verdict.message
    assert program.says in (verdict.message or "")


def test_the_receipt_says_what_was_replayed_and_how_much_memory_it_took(judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, PROGRAMS["as it is"].source)

    served = verdict.receipt["serves"]
    assert (served["case"], served["replays"]) == ("mixed", 6)
    assert 0 <= served["workspace_mb"] < 128      # all of it overhead: the starter has no workspace


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.BENCHMARK])
def test_the_gate_belongs_to_ranked_runs(mode: Mode, judge: Judge, problem: Problem, gpu: str) -> None:
    verdict = judged(judge, problem, gpu, PROGRAMS["waits on the host"].source, mode)

    assert verdict.outcome is Outcome.ACCEPTED, verdict.message


def test_a_problem_that_does_not_ask_for_the_gate_has_it_not(judge: Judge, gpu: str, tmp_path: Path) -> None:
    path = small_decode(tmp_path).folder / "problem.yml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "serves": False}, sort_keys=False))

    verdict = judged(judge, load_problem(path.parent), gpu, PROGRAMS["waits on the host"].source)

    assert verdict.outcome is Outcome.ACCEPTED, verdict.message
