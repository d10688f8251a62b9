"""What is known of a runner travels as plain data, and says its standing in a word."""

import json

import pytest

from kernelderby.core.light import DATASHEET, Work, light
from kernelderby.core.runner import UNKNOWN_RUNNER, RunnerFacts

KNOWN = RunnerFacts(gpu="GPU-1", measured=DATASHEET["h200"], certificate="c0ffee", bound_share=0.001, bound_us=0.3)


@pytest.mark.parametrize("facts", [UNKNOWN_RUNNER, KNOWN], ids=["unknown", "known"])
def test_a_runner_comes_through_json_as_it_was(facts: RunnerFacts) -> None:
    assert RunnerFacts.from_json(json.loads(json.dumps(facts.as_json()))) == facts


@pytest.mark.parametrize(("facts", "standing"), [
    (UNKNOWN_RUNNER, "none"), (KNOWN, "c0ffee"), (RunnerFacts(failed_check="counters"), "failed: counters"),
])
def test_a_runner_says_its_standing(facts: RunnerFacts, standing: str) -> None:
    assert facts.standing == standing


def test_exponentials_make_a_time_remarkable_and_never_impossible() -> None:
    found = light(Work(flops=1e9, bytes=1e6, exps=1e12), DATASHEET["h200"], "bfloat16")

    assert found.bound == "exp"
    assert found.firm_us < 2 < found.likely_us == found.us
