"""The rules of admission, one by one."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from kernelderby.core import rules
from kernelderby.core.errors import BoardClosed, ConflictingDirectives, DeadlinePassed, DerbyError, NotFound, QuotaSpent, RequestError
from kernelderby.core.rules import Quota
from kernelderby.core.submission import Directives
from kernelderby.core.verdict import Mode
from tests.small_world import NOON

NONE, ONE, TWO = Directives(), Directives(problem="p", devices=("h100",)), Directives(devices=("h100", "h200"))


@pytest.mark.parametrize(("asked", "header", "problem", "inferred"), [
    ("p", NONE, "p", []), (None, ONE, "p", ["problem"]), ("p", ONE, "p", []),
])
def test_the_problem_is_the_requests_or_the_headers(asked: str | None, header: Directives, problem: str, inferred: list[str]) -> None:
    found: list[str] = []
    assert rules.choose_problem(asked, header, found) == problem
    assert found == inferred


@pytest.mark.parametrize(("asked", "header", "offered", "device", "inferred"), [
    ("CPU", NONE, ["cpu", "h100"], "cpu", []), (None, ONE, ["cpu", "h100"], "h100", ["device"]), ("h200", TWO, ["h200"], "h200", []),
    (None, NONE, ["cpu"], "cpu", ["device"]),
])
def test_the_device_is_the_requests_the_headers_or_the_only_one(
    asked: str | None, header: Directives, offered: list[str], device: str, inferred: list[str]
) -> None:
    found: list[str] = []
    assert rules.choose_device(asked, header, offered, found) == device
    assert found == inferred


WRONG: list[tuple[Callable[[], object], type[DerbyError], str]] = [
    (lambda: rules.choose_problem("q", ONE, []), ConflictingDirectives, "header names the problem 'p'"),
    (lambda: rules.choose_problem(None, NONE, []), RequestError, "Which problem"),
    (lambda: rules.choose_device("cpu", ONE, ["cpu"], []), ConflictingDirectives, "header names the device 'h100'"),
    (lambda: rules.choose_device(None, TWO, ["h100"], []), ConflictingDirectives, "2 devices"),
    (lambda: rules.choose_device(None, NONE, ["cpu", "h100"], []), RequestError, "boards for cpu, h100"),
    (lambda: rules.choose_device(None, NONE, [], []), RequestError, "none"),
    (lambda: rules.choose_device("h100", NONE, ["cpu"], []), NotFound, "It has: cpu"),
    (lambda: rules.choose_device("abacus", NONE, ["cpu"], []), NotFound, "abacus"),
    (lambda: rules.choose_device(None, Directives(devices=("abacus",)), ["cpu"], []), NotFound, "abacus"),
    (lambda: rules.check_licence("", Mode.RANKED), RequestError, "needs a licence"),
    (lambda: rules.check_licence("<script>", Mode.TEST), RequestError, "SPDX"),
    (lambda: rules.check_ai_use("a bit"), RequestError, "none, assisted, agent"),
    (lambda: rules.check_key(""), RequestError, "Idempotency-Key"),
    (lambda: rules.check_key("a\0b"), RequestError, "Idempotency-Key"),
    (lambda: rules.check_key("k" * 201), RequestError, "Idempotency-Key"),
    (lambda: rules.check_open(False, None, NOON), BoardClosed, "no submissions now"),
    (lambda: rules.check_open(True, NOON, NOON), DeadlinePassed, "2026-06-01 12:00 UTC"),
    (lambda: rules.check_quota(Mode.RANKED, [NOON] * 120, 0, Quota(), NOON), QuotaSpent, "120 ranked"),
    (lambda: rules.check_quota(Mode.TEST, [], 100, Quota(), NOON), QuotaSpent, "wait already"),
    (lambda: rules.check_file_name("folder/"), RequestError, "no name"),
]


@pytest.mark.parametrize(("broken", "error", "says"), WRONG, ids=[w[2] for w in WRONG])
def test_a_broken_rule_says_what_to_do(broken: Callable[[], object], error: type[DerbyError], says: str) -> None:
    with pytest.raises(error, match=says):
        broken()


def test_what_keeps_the_rules_passes() -> None:
    assert rules.check_licence(" Apache-2.0 ", Mode.RANKED) == "Apache-2.0"
    assert rules.check_licence("GPL-2.0-only WITH Classpath-exception-2.0", Mode.RANKED)
    assert rules.check_licence("", Mode.TEST) == ""
    assert rules.check_ai_use("Agent: wrote all of it\nin a loop") == "Agent: wrote all of it in a loop"
    assert rules.check_ai_use("") == ""
    assert rules.check_key(None) is None
    rules.check_open(True, NOON + timedelta(seconds=1), NOON)
    rules.check_quota(Mode.RANKED, [NOON] * 119, 99, Quota(), NOON)


def test_an_hourly_quota_says_when_it_has_room_again() -> None:
    sent = [NOON + timedelta(minutes=m) for m in (0, 10, 20)]
    two_an_hour = Quota(an_hour={Mode.TEST: 2})

    with pytest.raises(QuotaSpent, match="at 2026-06-01 13:10:00 UTC, in 45 minutes") as caught:     # when the second one leaves the hour
        rules.check_quota(Mode.TEST, sent, 0, two_an_hour, NOON + timedelta(minutes=25))

    assert caught.value.retry_after_s == 45 * 60


@pytest.mark.parametrize(("name", "tidy"), [
    ("/tmp/a.py", "a.py"), ("C:\\kernels\\a.cu", "a.cu"), ("a\0b.py", "a\N{REPLACEMENT CHARACTER}b.py"), ("x" * 500 + ".py", None),
])
def test_a_file_name_is_tidied_and_keeps_its_suffix(name: str, tidy: str | None) -> None:
    found = rules.check_file_name(name)
    assert found == tidy or (tidy is None and len(found) == 120)


@pytest.mark.parametrize(("file_name", "text", "language"), [
    ("k.cu", "", "cuda"), ("k.py", "import torch\n", "torch"), ("k.py", "import triton.language as tl\n", "triton"),
    ("k.py", "def f():\n    from triton import jit\n", "triton"), ("k.py", "# import triton\n", "torch"),
    ("k.py", "import tritonic\n", "torch"),
])
def test_the_language_is_told_from_suffix_and_imports(file_name: str, text: str, language: str) -> None:
    assert rules.language(file_name, text) == language
