"""A verdict as its page tells it: reading, ruler, cases, bars, run card."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelderby.core.verdict import CaseResult, Verdict
from kernelderby.leaderboard_web.present import charts, numbers
from kernelderby.leaderboard_web.present.charts import Ruler
from kernelderby.leaderboard_web.present.numbers import Unit, unit_for
from kernelderby.storage.boards import BoardRow, BoardView
from kernelderby.storage.submissions import SubmissionView

STATES = {"queued": "Waiting for a worker", "building": "Starting", "running": "Judging"}
HIDDEN = "a hidden case"     # its name is not told
STAGES = ("queue", "build", "box", "load", "check", "time", "total")


@dataclass(frozen=True, kw_only=True)
class Step:
    """A line of the live page."""

    seq: int
    text: str
    outcome: str = ""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A time of one case as a bar: the longest is the slowest."""

    name: str
    text: str
    share: float        # per cent of the slowest
    fill: str           # class of the bar
    ink: str            # class of its words


@dataclass(frozen=True, kw_only=True)
class Dots:
    """Every timed call of one case."""

    label: str
    count: int
    median_text: str
    dots: list[tuple[float, int]]
    median: float
    band: tuple[float, float] | None
    ticks: list[tuple[float, str]]
    is_log: bool


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the template writes beside the verdict itself."""

    unit: Unit
    ruler: Ruler | None
    row: BoardRow | None            # the board's row of this very submission
    best: BoardRow | None           # the board's row of its person
    board: BoardView | None
    units: dict[str, Unit]          # of each case
    has_light: bool
    has_times: bool
    bars: dict[str, list[Bar]]
    dots: dict[str, Dots]
    environment: list[tuple[str, str]]
    stages: list[tuple[str, str]]
    receipt: str


def step(kind: str, data: dict[str, Any], seq: int) -> Step | None:
    """An event in words; None for what the page shows elsewhere."""
    if kind == "state":
        return Step(seq=seq, text=STATES.get(str(data.get("state")), "Done"))
    if kind == "build":
        return Step(seq=seq, text=str(data.get("message") or "Built"))
    if kind == "check":
        text = f"Checked {data.get('case') or HIDDEN}, {data.get('done')} of {data.get('of')}"
        return Step(seq=seq, text=text, outcome=str(data.get("outcome") or ""))
    if kind == "time":
        return Step(seq=seq, text=f"Timed {data.get('case')}, block {data.get('block')} of {data.get('of')}")
    return None


def doing(kind: str, data: dict[str, Any]) -> str | None:
    """What goes on after such an event, for the heading of the live page; None: what went on before."""
    if kind == "state":
        return STATES.get(str(data.get("state")), "Done")
    if kind == "build":
        return "Building"
    return {"check": "Checking {}", "time": "Timing {}"}[kind].format(data.get("case") or HIDDEN) if kind in ("check", "time") else None


def verdict_report(verdict: Verdict, board: BoardView | None, view: SubmissionView, leader: Verdict | None, name: str) -> Report:
    """All that the page of `verdict` shows. `board`: None where the problem has moved on to another version. `name`: of this entry."""
    unit = unit_for([verdict.score_us])
    rows = board.rows if board else []
    timed = verdict.cases if verdict.accepted else []      # no time is shown for a wrong answer
    return Report(
        unit=unit, board=board, ruler=_ruler(verdict, rows, name),
        row=next((r for r in rows if r.submission == view.id), None), best=next((r for r in rows if r.person_id == view.person_id), None),
        units={c.name: unit_for([c.time_us, c.baseline_us]) for c in verdict.cases},
        has_light=any(c.speed_of_light is not None for c in timed),
        has_times=any(c.time_us is not None for c in timed),
        bars={c.name: _bars(c, leader, name) for c in timed if c.time_us and c.baseline_us},
        dots={c.name: _dots(c, calls) for c in timed if (calls := _calls(verdict.receipt, c.name)) and c.time_us},
        environment=[(key.replace("_", " ").capitalize(), _plain(v)) for key, v in verdict.environment.items() if v not in (None, "")],
        stages=[(name.capitalize(), numbers.seconds(verdict.stages_s[name])) for name in STAGES if name in verdict.stages_s],
        receipt=json.dumps(verdict.receipt, indent=2, ensure_ascii=False) if verdict.receipt else "")


def _ruler(verdict: Verdict, rows: Sequence[BoardRow], name: str) -> Ruler | None:
    if verdict.score_us is None:
        return None
    leads = bool(rows) and rows[0].submission == verdict.submission
    named = [(f"{name}, leader" if leads else name, verdict.score_us)]
    if rows and not leads:
        named.append(("leader", rows[0].score_us))
    if verdict.speedup:
        named.append(("baseline", verdict.score_us * verdict.speedup))
    return charts.ruler(named, [r.score_us for r in rows[1:] if r.submission != verdict.submission])


def _bars(case: CaseResult, leader: Verdict | None, name: str) -> list[Bar]:
    theirs = next((c.time_us for c in leader.cases if c.name == case.name), None) if leader else None
    own, other = (("f-own", "own"), ("f-ink", "ink")) if name == "you" else (("f-ink", "ink"), ("f-field", ""))   # the accent means you
    times = [("leader", theirs, *other), (name, case.time_us, *own), ("baseline", case.baseline_us, "f-field", "")]
    unit, slowest = unit_for(t for _, t, _, _ in times), max(t or 0.0 for _, t, _, _ in times)
    return [Bar(name=who, text=unit.time(t), share=100 * t / slowest, fill=fill, ink=ink) for who, t, fill, ink in times if t]


def _dots(case: CaseResult, calls: list[float]) -> Dots:
    unit, scale = unit_for(calls), charts.scale_of(calls)
    middle = case.time_us or calls[0]
    ends = f"between {unit.time(min(calls))} and {unit.time(max(calls))}"
    label = f"{len(calls)} timed calls of {case.name} {ends}, median {unit.time(middle)}"
    return Dots(
        label=label, count=len(calls), median_text=unit.time(middle), dots=charts.dots(calls, scale), median=scale.x(middle),
        band=(scale.x(case.ci_us[0]), scale.x(case.ci_us[1])) if case.ci_us else None, is_log=scale.is_log,
        ticks=[(x, unit.number(scale.at(x))) for x in (0.0, 25.0, 50.0, 75.0, 100.0)])


def _calls(receipt: dict[str, Any], case: str) -> list[float]:
    """Every timed call of a case, as the receipt keeps its blocks."""
    blocks = receipt.get("blocks_us")
    found = blocks.get(case) if isinstance(blocks, dict) else None
    return [float(t) for block in found or [] if isinstance(block, list) for t in block if isinstance(t, int | float) and t > 0]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
