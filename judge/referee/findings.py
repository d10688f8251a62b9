"""What ends a judging early. The contestant's program did it, so it is a value; `Ended` carries it up to the story."""

from dataclasses import dataclass, replace

from kernelderby.core.problem import Limits
from kernelderby.core.verdict import Gate, Outcome


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was seen, where, and a sentence that says what to do."""

    outcome: Outcome
    gate: Gate | None = None
    message: str


class Ended(Exception):
    """The judging is over, with this finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class NotArmable(Exception):
    """The entry waits for the GPU while a call is launched, so that it cannot be launched ahead. Its box is of no use any more."""


def ended(outcome: Outcome, message: str, gate: Gate | None = None) -> Ended:
    """The exception for a finding."""
    return Ended(Finding(outcome=outcome, gate=gate, message=message))


def with_limit(finding: Finding, limits: Limits) -> Finding:
    """The finding, with the number of the limit that it says was reached."""
    if finding.outcome is Outcome.TIMEOUT:
        return replace(finding, message=f"{finding.message} It is {limits.time_s:g} s, once to load the file and again for each case.")
    if finding.outcome is Outcome.OUT_OF_MEMORY:
        return replace(finding, message=f"{finding.message} The limit is {limits.memory_mb:,} MiB.")
    return finding
