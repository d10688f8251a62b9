"""What an outcome, a gate and a language are called, and what a failure asks for."""

import shlex
from dataclasses import dataclass

from kernelderby.core.verdict import Gate, Mode, Outcome, Verdict

LANGUAGES = {"triton": "Triton", "torch": "PyTorch", "cuda": "CUDA"}
MODES = {
    Mode.TEST: "public cases once, a few seconds, not on the board",
    Mode.BENCHMARK: "public cases timed, score shown, not on the board",
    Mode.RANKED: "public and hidden cases, every gate, on the board",
}
LICENCES = ("Apache-2.0", "MIT", "BSD-3-Clause")
TITLES = {
    Outcome.COMPILE_ERROR: "The file does not compile",
    Outcome.WRONG_SHAPE: "An output has the wrong shape",
    Outcome.WRONG_DTYPE: "An output has the wrong dtype",
    Outcome.WRONG_VALUES: "Some values are wrong",
    Outcome.NONFINITE: "There is a NaN or an infinity where none belongs",
    Outcome.NONDETERMINISTIC: "Two runs of the same input differ",
    Outcome.RUNTIME_ERROR: "The kernel crashed",
    Outcome.ILLEGAL_MEMORY: "The kernel wrote where it must not",
    Outcome.TIMEOUT: "The time limit passed",
    Outcome.OUT_OF_MEMORY: "The memory limit was reached",
    Outcome.OUTPUT_LIMIT: "The kernel printed too much",
    Outcome.REFUSED: "A rule was broken",
    Outcome.UNSTABLE: "The times spread too far to give a number",
    Outcome.CANCELLED: "Cancelled",
    Outcome.JUDGE_ERROR: "The judge failed, not your kernel",
}
RESENT = frozenset({Outcome.UNSTABLE, Outcome.CANCELLED, Outcome.JUDGE_ERROR})   # the same file may pass: send it again
_RUN_ORDER = (Gate.RIGHT, Gate.REAL_TRACES, Gate.HONEST_TIME, Gate.ANY_INPUT, Gate.ANY_SHAPE, Gate.DOES_WORK, Gate.SERVES)


@dataclass(frozen=True, kw_only=True)
class GateLine:
    """One gate as a verdict shows it."""

    name: str
    status: str        # passed, failed, not run, not asked
    mark: str          # class of its line: empty, x, w


def gates(verdict: Verdict, of_problem: frozenset[Gate]) -> list[GateLine]:
    """The seven gates in order, each with what is known of it. `of_problem`: those that a ranked entry meets there."""
    asked = _asked(verdict, of_problem)
    passed = asked if verdict.accepted else asked & set(_before(verdict.gate))
    return [_gate_line(gate, verdict, asked, passed) for gate in Gate if gate is not Gate.DEVICE]


def gates_note(verdict: Verdict, of_problem: frozenset[Gate]) -> str:
    """What stands beside the heading of the gates."""
    asked = _asked(verdict, of_problem)
    if verdict.accepted:
        these = "these" if len(asked) > 1 else "this one"
        return f"{len(asked)} of {len(asked)} passed; mode {verdict.mode} on {verdict.device} asks for {these}"
    if verdict.gate is Gate.DEVICE:
        return f"{verdict.device} cannot run this entry"
    return "stopped at the first failure; no time is shown for a wrong answer" if verdict.gate else "not reached"


def plain(value: object) -> str:
    """A case's own key in a table: `uniform 1, 200`."""
    if isinstance(value, dict):
        return "; ".join(f"{key} {plain(item)}" for key, item in value.items())
    return ", ".join(map(plain, value)) if isinstance(value, list | tuple) else str(value)


def failed_case(verdict: Verdict) -> str | None:
    """The public case that decided a failure."""
    return next((case.name for case in verdict.cases if case.outcome is not Outcome.ACCEPTED), None)


def title(verdict: Verdict) -> str:
    """A failure as a heading."""
    if verdict.gate is Gate.DEVICE:
        return f"This entry cannot run on {verdict.device}"
    return TITLES.get(verdict.outcome, "") if verdict.outcome else ""


def to_try(verdict: Verdict, file_name: str) -> list[tuple[str, str]]:
    """What may help after a failure: each a sentence and a command."""
    if verdict.accepted or verdict.outcome in RESENT or verdict.gate is Gate.DEVICE:
        return []
    file = shlex.quote(file_name)
    tries = [
        ("See it at home, by the same judge.",
         f"derby judge {file} \\\n  --problem {verdict.problem} \\\n  --device {verdict.device} --mode {verdict.mode}"),
        ("Send it in mode test first: public cases only, a few seconds, not on the board.",
         f"derby submit {file} \\\n  --problem {verdict.problem} --mode test"),
    ]
    return tries if verdict.mode is not Mode.TEST else tries[:1]


def _asked(verdict: Verdict, of_problem: frozenset[Gate]) -> frozenset[Gate]:
    return of_problem if verdict.mode is Mode.RANKED else frozenset({Gate.RIGHT})


def _before(gate: Gate | None) -> tuple[Gate, ...]:
    return _RUN_ORDER[:_RUN_ORDER.index(gate)] if gate in _RUN_ORDER else ()


def _gate_line(gate: Gate, verdict: Verdict, asked: frozenset[Gate], passed: frozenset[Gate]) -> GateLine:
    if gate is verdict.gate:
        return GateLine(name=gate, status="failed", mark="x")
    if gate in passed:
        return GateLine(name=gate, status="passed", mark="")
    return GateLine(name=gate, status="not run" if gate in asked else "not asked", mark="w")
