"""Honest programs of many habits are accepted: none of them looks like a cheat to the judge."""

import hashlib
from pathlib import Path

import pytest

from kernelderby.core.devices import CPU
from kernelderby.core.submission import read_directives
from kernelderby.core.verdict import Mode, Outcome
from kernelderby.judge.judging import Job, Judge
from tests.problems.judges import judge
from tests.problems.loading import problem

__all__ = ["judge"]
ENTRIES = sorted((Path(__file__).parent / "entries").glob("*.py"))


@pytest.mark.parametrize("path", ENTRIES, ids=lambda p: p.stem)
def test_an_honest_entry_is_accepted(path: Path, judge: Judge) -> None:
    source = path.read_bytes()
    name = read_directives(source.decode()).problem
    assert name is not None

    verdict = judge.judge(Job(submission=None, attempt=1, problem=problem(name), device=CPU, mode=Mode.RANKED, file_name=path.name,
                              source=source, seed=hashlib.sha256(source).digest()), lambda kind, data: None, lambda: False)
    judge.idle()

    assert verdict.outcome is Outcome.ACCEPTED, verdict.message
    assert all(case.outcome is Outcome.ACCEPTED for case in verdict.cases)
