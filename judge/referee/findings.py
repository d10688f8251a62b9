"""What ends a judging early. The contestant's program did it, so it is a value; `Ended` carries it up to the story."""

from dataclasses import dataclass

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


def ended(outcome: Outcome, message: str, gate: Gate | None = None) -> Ended:
    """The exception for a finding."""
    return Ended(Finding(outcome=outcome, gate=gate, message=message))
