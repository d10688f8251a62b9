"""Honest programs of many habits are accepted: none of them looks like a cheat to the judge."""

from pathlib import Path

import pytest

from kernelderby.core.submission import read_directives
from kernelderby.core.verdict import Mode, Outcome
from kernelderby.judge.judging import Judge
from tests.problems.judges import judge, judged
from tests.problems.loading import problem

__all__ = ["judge"]
ENTRIES = sorted((Path(__file__).parent / "entries").glob("*.py"))


@pytest.mark.parametrize("path", ENTRIES, ids=lambda p: p.stem)
def test_an_honest_entry_is_accepted(path: Path, judge: Judge) -> None:
    name = read_directives(path.read_text()).problem
    assert name is not None

    verdict = judged(judge, path, problem(name), Mode.RANKED)

    assert verdict.outcome is Outcome.ACCEPTED, verdict.message
    assert all(case.outcome is Outcome.ACCEPTED for case in verdict.cases)
