"""Each bundled submission, and each starter, gets the outcome it stands for: through the judge, its referee and its sandbox."""

import pytest

from kernelderby.core.devices import CPU
from kernelderby.core.verdict import Gate, Mode, Outcome
from kernelderby.judge.judging import Judge
from kernelderby.judge.problem_check import Bundled, bundled, judge_bundled
from tests.problems.loading import NAMES, problem

FILES = [(name, file) for name in NAMES for file in bundled(problem(name), CPU)]
INDEPENDENT = set(Outcome) - {Outcome.UNSTABLE, Outcome.CANCELLED, Outcome.JUDGE_ERROR}      # these are no program's doing


@pytest.mark.parametrize(("name", "file"), FILES, ids=lambda x: x.name if isinstance(x, Bundled) else x)
def test_each_bundled_submission_gets_the_outcome_of_its_folder(name: str, file: Bundled, judge: Judge) -> None:
    verdict = judge_bundled(file, problem(name), CPU, judge)
    judge.idle()

    assert verdict.outcome is file.expected, verdict.message
    assert verdict.version == problem(name).version
    if verdict.accepted:
        assert file.mode is Mode.RANKED
        assert verdict.score_us is not None
    else:
        assert verdict.message
        assert verdict.score_us is None


def test_vector_add_bundles_every_outcome_that_a_program_can_cause() -> None:
    assert {file.expected for name, file in FILES if name == "vector_add"} == INDEPENDENT


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_bundles_an_accepted_triton_and_an_accepted_pytorch_entry(name: str) -> None:
    accepted = {file.path.stem for n, file in FILES if n == name and file.path.parent.name == "accepted"}

    assert accepted == {"triton", "torch"}


def test_a_hidden_failure_says_its_gate_and_its_kind_and_nothing_else(judge: Judge) -> None:
    verdict = judge_bundled(named("vector_add", "wrong_values/short_vectors.py"), problem("vector_add"), CPU, judge)

    assert (verdict.outcome, verdict.gate) == (Outcome.WRONG_VALUES, Gate.ANY_SHAPE)
    assert verdict.message == "A hidden case failed (drawn shapes)."


def test_a_recipe_s_failure_belongs_to_any_input_wherever_it_was_planted(judge: Judge) -> None:
    verdict = judge_bundled(named("row_softmax", "nonfinite/no_maximum.py"), problem("row_softmax"), CPU, judge)

    assert (verdict.outcome, verdict.gate) == (Outcome.NONFINITE, Gate.ANY_INPUT)


def named(name: str, file: str) -> Bundled:
    return next(f for n, f in FILES if n == name and f.name == file)
