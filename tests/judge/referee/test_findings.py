"""What a finding tells the contestant."""

import pytest

from kernelderby.core.problem import Limits
from kernelderby.core.verdict import Outcome
from kernelderby.judge.referee.findings import Finding, with_limit


@pytest.mark.parametrize(("outcome", "says"), [
    (Outcome.TIMEOUT, "Too much. It is 2.5 s, once to load the file and again for each case."),
    (Outcome.OUT_OF_MEMORY, "Too much. The limit is 1,024 MiB."),
    (Outcome.RUNTIME_ERROR, "Too much."),
])
def test_a_limit_that_was_reached_is_told_with_its_number(outcome: Outcome, says: str) -> None:
    found = with_limit(Finding(outcome=outcome, message="Too much."), Limits(time_s=2.5, memory_mb=1024))

    assert (found.outcome, found.message) == (outcome, says)
