"""What a command prints: one JSON object, or short lines for a person. Progress goes to stderr."""

import json
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kernelderby.core.errors import OUR_FAULT
from kernelderby.core.text import clean_text
from kernelderby.core.verdict import CaseResult, CompileReport, Flag, Gate, Mode, Outcome, Verdict

RANK_IT = "derby submit {file} --problem {problem} --mode ranked --licence Apache-2.0 --ai-use none"
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

MARKS = {   # a flag in words
    Flag.LIBRARY: "it calls a kernel library, and stands apart from the entries that do not",
    Flag.LAUNCH_BOUND: "a case is so short that its time is mostly the start of a call",
    Flag.UNCERTIFIED: "no certificate vouches for this runner's clock",
    Flag.ABOVE_MEASURED_LIGHT: "faster than the best that was measured on such a device",
    Flag.NO_SANDBOX: "judged without a sandbox",
}


def print_json(data: Mapping[str, Any]) -> None:
    """One object on stdout; numbers are finite or null."""
    print(json.dumps(data, allow_nan=False, ensure_ascii=False))


def told(data: Mapping[str, Any], as_json: bool, *lines: str) -> None:
    """The answer as one JSON object, or as lines for a person."""
    if as_json:
        print_json(data)
    elif lines:
        print(clean_text("\n".join(lines), 100_000))


def say(text: str) -> None:
    """A line of progress, on stderr."""
    print(clean_text(text), file=sys.stderr, flush=True)


def print_verdict(verdict: Verdict, file: str | None = None) -> None:
    """A verdict for a person; `file` is what its advice calls the kernel."""
    print(clean_text("\n".join(verdict_lines(verdict, file or "FILE")), limit=20_000))


def exit_status(verdict: Verdict) -> int:
    """0 accepted, 1 not, 3 our fault."""
    if verdict.outcome is Outcome.JUDGE_ERROR:
        return OUR_FAULT
    return 0 if verdict.accepted else NOT_ACCEPTED


def verdict_lines(verdict: Verdict, file: str = "FILE") -> list[str]:
    """The verdict as a sentence, its cases, its compile reports, and what to do next."""
    lines = [_sentence(verdict)]
    if verdict.message:
        lines.append(f"  {verdict.message}")
    if verdict.flags:
        lines += [f"  marked {flag}: {MARKS[flag]}{_why(verdict, flag)}" for flag in verdict.flags]
    if verdict.cases:
        lines += ["", *_cases(verdict.cases)]
    lines += [f"  {c.name}: {c.message}" for c in verdict.cases if c.message and c.message not in (verdict.message or "")]
    if verdict.compile:
        untried = ", not run on them" if verdict.device == "cpu" else ""
        lines += ["", f"  Compiled for these GPUs{untried}:", *map(_compiled, verdict.compile)]
    if verdict.log and not (verdict.accepted and verdict.mode is Mode.RANKED):
        lines += ["", "Your program and its compilers printed:", *(f"  {line}" for line in verdict.log.splitlines()[-20:])]
    if advice := _next(verdict, shlex.quote(file)):
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


def ratio(value: float | None) -> str:
    """How many times as fast as the baseline: `1.38`, `0.0031`; `–` where nobody knows."""
    if value is None:
        return "–"
    return f"{value:,.2f}" if value >= 0.1 else f"{value:.2g}"


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
    if v.gate is Gate.DEVICE:
        said = f"{v.device} cannot run it"
    elif v.gate and not v.accepted:
        said += f" (gate {v.gate})"
    return f"{which}: {', '.join([said, *_figures(v)])}."


def _figures(v: Verdict) -> Iterator[str]:
    if v.score_us:
        yield f"{v.score_us:,.1f} µs" + (f" ({v.score_ci_us[0]:,.1f} to {v.score_ci_us[1]:,.1f})" if v.score_ci_us else "")
    if v.speedup:
        yield f"{ratio(v.speedup)} × the baseline"
    if v.speed_of_light:
        here = f", {v.of_measured:.0%} of what was measured here" if v.of_measured else ""
        yield f"{v.speed_of_light:.0%} of the speed of light ({v.bound}{here})"
    if v.rank:
        yield f"rank {places(v.rank)}"


def _why(v: Verdict, flag: Flag) -> str:
    """What keeps a runner from its certificate."""
    standing = str(v.environment.get("certificate") or "")
    return f" ({standing})" if flag is Flag.UNCERTIFIED and standing.startswith("failed") else ""


def _cases(cases: Sequence[CaseResult]) -> list[str]:
    """The table, without the columns that a mode leaves empty."""
    rows = [("case", "outcome", "time µs", "baseline µs", "speedup", "max error"), *map(_case, cases)]
    kept = [column for column in zip(*rows, strict=True) if any(cell != "–" for cell in column[1:])]
    head, *body = zip(*kept, strict=True)
    return table(head, body)


def _case(case: CaseResult) -> tuple[str, ...]:
    speedup = case.baseline_us / case.time_us if case.baseline_us and case.time_us else None
    error = "–" if case.max_abs_err is None else f"{case.max_abs_err:.1e}"
    return (case.name, case.outcome, number(case.time_us), number(case.baseline_us), ratio(speedup), error)


def _compiled(report: CompileReport) -> str:
    if report.message:
        return f"  {report.arch} {report.kernel}: does not compile: {report.message}"
    unit = f", {report.tensor_core}" if report.tensor_core else ""
    launch = "would launch" if report.would_launch else "would not launch"
    numbers = f"{report.registers} registers, {report.shared_bytes} B shared, {report.spills} spills"
    return f"  {report.arch} {report.kernel}: {numbers}{unit}, {launch}"


def _next(v: Verdict, file: str) -> str | None:
    if v.outcome is None:
        return f"Follow it: derby watch {v.submission}"
    if v.accepted and v.mode != "ranked":
        return f"Next: {RANK_IT.format(file=file, problem=v.problem)}"
    if v.accepted:
        return f"See the board: derby board {v.problem}" if v.submission else None
    if v.outcome is Outcome.JUDGE_ERROR:
        return "Nothing to change in your file. Send it again; if it stays, tell the organizers the number."
    if v.outcome is Outcome.CANCELLED or v.gate is Gate.DEVICE or not v.submission:    # without a number it was judged here
        return None
    mode = "" if v.mode is Mode.TEST else f" --mode {v.mode}"      # a test plays no hidden case
    return f"Try a change here, without a server: derby judge {file} --problem {v.problem}{mode}"


def _padded(text: str, width: int, is_number: bool) -> str:
    return text.rjust(width) if is_number else text.ljust(width)


def _looks_numeric(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in "–-"
