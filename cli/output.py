"""What a command prints: one JSON object, or short lines for a person. Progress goes to stderr."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kernelderby.core.errors import OUR_FAULT
from kernelderby.core.text import clean_text
from kernelderby.core.verdict import CaseResult, CompileReport, Outcome, Verdict

RANK_IT = "derby submit FILE --problem {problem} --mode ranked --licence Apache-2.0 --ai-use none"
NOT_ACCEPTED = 1
SENTENCES = {   # an outcome in words
    Outcome.ACCEPTED: "accepted",
    Outcome.COMPILE_ERROR: "it does not compile",
    Outcome.WRONG_SHAPE: "an output has the wrong shape",
    Outcome.WRONG_DTYPE: "an output has the wrong dtype",
    Outcome.WRONG_VALUES: "wrong values",
    Outcome.NONFINITE: "NaN or infinity in an output",
    Outcome.NONDETERMINISTIC: "two calls on the same input differ",
    Outcome.RUNTIME_ERROR: "it raised an error",
    Outcome.ILLEGAL_MEMORY: "it touched memory it may not",
    Outcome.TIMEOUT: "it took too long",
    Outcome.OUT_OF_MEMORY: "it ran out of memory",
    Outcome.OUTPUT_LIMIT: "it printed too much",
    Outcome.REFUSED: "refused, since a rule was broken",
    Outcome.UNSTABLE: "the timing did not settle",
    Outcome.CANCELLED: "cancelled",
    Outcome.JUDGE_ERROR: "the judge failed; that is our fault, not yours",
}


def print_json(data: Mapping[str, Any]) -> None:
    """One object on stdout; numbers are finite or null."""
    print(json.dumps(data, allow_nan=False, ensure_ascii=False))


def say(text: str) -> None:
    """A line of progress, on stderr."""
    print(clean_text(text), file=sys.stderr, flush=True)


def print_verdict(verdict: Verdict) -> None:
    """A verdict for a person."""
    print(clean_text("\n".join(verdict_lines(verdict)), limit=20_000))


def exit_status(verdict: Verdict) -> int:
    """0 accepted, 1 not, 3 our fault."""
    if verdict.outcome is Outcome.JUDGE_ERROR:
        return OUR_FAULT
    return 0 if verdict.accepted else NOT_ACCEPTED


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict as a sentence, its cases, its compile reports, and what to do next."""
    lines = [_sentence(verdict)]
    if verdict.message:
        lines.append(f"  {verdict.message}")
    if verdict.flags:
        lines.append(f"  marked: {', '.join(verdict.flags)}")
    if verdict.cases:
        lines += ["", *table(("case", "outcome", "time µs", "baseline µs", "speedup", "max error"), map(_case, verdict.cases))]
    lines += [f"  {c.name}: {c.message}" for c in verdict.cases if c.message]
    if verdict.compile:
        lines += ["", *map(_compiled, verdict.compile)]
    if verdict.log and not verdict.accepted:
        lines += ["", "Your program printed:", *(f"  {line}" for line in verdict.log.splitlines()[-20:])]
    if advice := _next(verdict):
        lines += ["", advice]
    return lines


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Aligned columns: the first to the left, numbers to the right."""
    cells = [tuple(head), *(tuple(r) for r in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    numeric = [all(_looks_numeric(row[i]) for row in cells[1:]) for i in range(len(head))]
    return ["  " + "  ".join(_padded(*cell) for cell in zip(row, widths, numeric, strict=True)).rstrip() for row in cells]


def number(value: float | None, digits: int = 1) -> str:
    """A number for a column, `–` where there is none."""
    return "–" if value is None else f"{value:,.{digits}f}"


def places(rank: Sequence[int] | None) -> str:
    """A rank interval: `3`, or `3–5` where the clock cannot tell."""
    if not rank:
        return "–"
    return str(rank[0]) if rank[0] == rank[1] else f"{rank[0]}–{rank[1]}"


def _sentence(v: Verdict) -> str:
    what = f"{v.problem} on {v.device}, {v.mode}"
    which = f"Submission {v.submission}, {what}" if v.submission else what
    if v.outcome is None:
        return f"{which}: {v.state}."
    said = SENTENCES[v.outcome]
    if v.gate and not v.accepted:
        said += f" (gate {v.gate})"
    return f"{which}: {', '.join([said, *_figures(v)])}."


def _figures(v: Verdict) -> Iterator[str]:
    if v.score_us:
        yield f"{v.score_us:,.1f} µs" + (f" ({v.score_ci_us[0]:,.1f} to {v.score_ci_us[1]:,.1f})" if v.score_ci_us else "")
    if v.speedup:
        yield f"{v.speedup:.2f} × the baseline"
    if v.rank:
        yield f"rank {places(v.rank)}"


def _case(case: CaseResult) -> tuple[str, ...]:
    speedup = case.baseline_us / case.time_us if case.baseline_us and case.time_us else None
    error = "–" if case.max_abs_err is None else f"{case.max_abs_err:.1e}"
    return (case.name, case.outcome, number(case.time_us), number(case.baseline_us), "–" if speedup is None else f"{speedup:.2f}", error)


def _compiled(report: CompileReport) -> str:
    if report.message:
        return f"  {report.arch} {report.kernel}: does not compile: {report.message}"
    unit = f", {report.tensor_core}" if report.tensor_core else ""
    launch = "would launch" if report.would_launch else "would not launch"
    numbers = f"{report.registers} registers, {report.shared_bytes} B shared, {report.spills} spills"
    return f"  {report.arch} {report.kernel}: {numbers}{unit}, {launch}"


def _next(v: Verdict) -> str | None:
    if v.outcome is None:
        return f"Follow it: derby watch {v.submission}"
    if v.accepted and v.mode != "ranked":
        return f"Next: {RANK_IT.format(problem=v.problem)}"
    if v.accepted:
        return f"See the board: derby board {v.problem}" if v.submission else None
    if v.outcome is Outcome.JUDGE_ERROR:
        return "Nothing to change in your file. Send it again; if it stays, tell the organizers the number."
    if v.outcome is Outcome.CANCELLED:
        return None
    return f"Try a change here, without a server: derby judge FILE --problem {v.problem}"


def _padded(text: str, width: int, is_number: bool) -> str:
    return text.rjust(width) if is_number else text.ljust(width)


def _looks_numeric(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in "–-"
