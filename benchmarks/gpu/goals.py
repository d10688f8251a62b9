"""What the GPU judge must show, each goal beside its figure."""

from collections.abc import Callable
from statistics import median
from typing import Any

Row = tuple[str, str, bool | None]      # the goal, the figure, whether it holds; None: not measured
ACCEPTED = "accepted"
DUELS = 40                              # of each kind


def print_goals(results: dict[str, Any]) -> list[dict[str, Any]]:
    """A table of the goals whose sections were run; the same as data."""
    rows = [row for section, goals in _GOALS.items() if section in results for row in _rows(goals, results[section])]
    width = max((len(goal) for goal, *_ in rows), default=0)
    for goal, figure, holds in rows:
        print(f"{goal:{width}s}  {figure:44s}  {_WORDS[holds]}", flush=True)
    return [{"goal": goal, "figure": figure, "holds": holds} for goal, figure, holds in rows]


def _rows(goals: Callable[[Any], list[Row]], found: Any) -> list[Row]:
    """A section that failed, or that was cut short, tells so in a row of its own."""
    if isinstance(found, dict) and "failed" in found:
        return [(goals.__name__.strip("_"), "the section failed", None)]
    try:
        return goals(found)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        return [(goals.__name__.strip("_"), f"incomplete: {type(error).__name__} {error}"[:44], None)]


def _outcomes(found: Any) -> list[Row]:
    right = sum(row["wanted"] == row["got"] for row in found)
    return [("every program of ours gets its outcome", f"{right} of {len(found)}", right == len(found))]


def _speed(found: Any) -> list[Row]:
    rows = [_addition(found["vector_add"])]
    for name in ("gqa_paged_decode", "prefill_causal"):
        rows += _ranked(name, found.get(name))
    return rows + _cu(found.get("cu")) + _inline(found.get("load_inline"))


def _addition(runs: Any) -> Row:
    goal = "vector_add 16384², 100 calls: 4 s"
    if not runs:
        return goal, "", None
    seconds = max(run["seconds"] for run in runs)
    good = all(run["verdict"]["outcome"] == ACCEPTED and run["verdict"]["cases"][0]["calls"] == 100 for run in runs)
    return goal, f"{seconds:.2f} s{'' if good else ', not all accepted'}", seconds <= 4 and good


def _ranked(name: str, run: Any) -> list[Row]:
    goal = f"{name} ranked: 20 s, checks less than half"
    if not run:
        return [(goal, "", None)]
    total, check, outcome = run["seconds"], run["verdict"]["stages_s"].get("check", 0.0), run["verdict"]["outcome"]
    return [(goal, f"{outcome}, {total:.1f} s, checks {check:.1f} s", total <= 20 and check < total / 2 and outcome == ACCEPTED)]


def _cu(runs: Any) -> list[Row]:
    if not runs:
        return [(".cu built: 6 s on 2 cores", "", None), (".cu from the cache: 0.05 s", "", None)]
    cold, *cached = (run["verdict"]["stages_s"].get("build", 0.0) for run in runs)
    good = all(run["verdict"]["outcome"] == ACCEPTED for run in runs)
    return [(".cu built: 6 s on 2 cores", f"{cold:.2f} s{'' if good else ', not accepted'}", cold <= 6 and good),
            (".cu from the cache: 0.05 s", f"{median(cached):.3f} s", median(cached) <= 0.05 and good)]


def _inline(run: Any) -> list[Row]:
    goal = "load_inline hello built: 15 s on 16 cores"
    if not run:
        return [(goal, "", None)]
    seconds, outcome = run["verdict"]["stages_s"].get("build", 0.0), run["verdict"]["outcome"]
    return [(goal, f"{outcome}, {seconds:.2f} s on this machine's cores", seconds <= 15 and outcome == ACCEPTED)]


def _agreement(found: Any) -> list[Row]:
    rows = found["rows"]
    worst = max((row["difference_us"] for row in rows), key=abs)
    return [("referee and device events: 1 % + 1 µs, ≥ 8 kernels", f"{len(rows)} kernels, most apart {worst:+.2f} µs",
             len(rows) >= 8 and all(row["holds"] for row in rows))]


def _spread(found: Any) -> list[Row]:
    variation, figures = found["variation"], len(found["judge"])
    shown = f"{variation['judge']:.2%} (do_bench {variation['do_bench']:.2%}, incumbent {variation['incumbent']:.2%})"
    return [(f"spread of {figures} judgings: 0.5 %", shown, variation["judge"] <= 0.005 and figures >= 20)]


def _resolution(found: Any) -> list[Row]:
    apart, same = found["decided"]
    return [_duels("two kernels 1 % apart: right in 95 % of 40 duels", found["right_sign"], 0.95, apart),
            _duels("a kernel against itself: the interval holds 1 in 90 %", found["holds_0"], 0.9, same)]


def _duels(goal: str, share: float | None, wanted: float, decided: int) -> Row:
    """Of 40 duels, one that was not decided counts as wrong: too few prove the goal only where even so enough are right."""
    if share is None:
        return goal, f"n = {decided}", None
    holds = round(share * decided) >= wanted * max(DUELS, decided)
    return goal, f"{share:.1%}, n = {decided}", True if holds else False if decided >= DUELS else None


def _attacks(found: Any) -> list[Row]:
    most = found["largest_gain"]
    shown = "none accepted" if most is None else f"{most['attack']}: {most['gain_us']:+.1f} µs of {most['honest_us']:.0f}"
    proven = found["proven"]
    return [("attacks that win where their defence is missing: 12", f"{proven} ({found['refused']} refused)", proven >= 12),
            ("largest accepted gain: 1 % + 2 µs", shown, not found["over"])]


def _questions(found: Any) -> list[Row]:
    return [(row["question"], row["answer"] or row.get("failed", "")[:60], bool(row["answer"]) or None) for row in found]


_WORDS = {True: "holds", False: "DOES NOT HOLD", None: "not measured"}
_GOALS: dict[str, Callable[[Any], list[Row]]] = {
    "outcomes": _outcomes, "speed": _speed, "agreement": _agreement, "spread": _spread, "resolution": _resolution, "attacks": _attacks,
    "questions": _questions,
}
