"""A compile report is a box's own word: what is kept of it can be stored and shown."""

from typing import Any

import pytest

from kernelderby.judge.referee.playing import _reports

SANE = {"kernel": "add", "arch": "sm_90a", "registers": 32, "shared_bytes": 0, "spills": 0, "would_launch": True}
NONSENSE: list[Any] = [
    {**SANE, "registers": 10**400}, {**SANE, "shared_bytes": -1}, {**SANE, "spills": 1.5}, {**SANE, "kernel": None}, {**SANE, "more": 1},
    {**SANE, "registers": [1]}, "add", None, [], 7,
]


@pytest.mark.parametrize("item", NONSENSE, ids=lambda item: str(item)[:40])
def test_nonsense_is_dropped_and_the_rest_stays(item: Any) -> None:
    assert [report.registers for report in _reports([item, SANE])] == [32]


@pytest.mark.parametrize("answer", [None, {}, "x", 1, [[]] * 10_000])
def test_an_answer_that_is_no_list_of_reports_is_none(answer: Any) -> None:
    assert _reports(answer) == []


def test_names_and_messages_are_made_safe_to_show() -> None:
    report, = _reports([{**SANE, "kernel": "a\ud800\x1b[2J\u202eb" * 100, "message": "\x00" * 9000}])

    assert len(report.kernel) == 80 and report.message and len(report.message) <= 500
    assert not {"\ud800", "\x1b", "\u202e", "\x00"} & set(report.kernel + report.message)
