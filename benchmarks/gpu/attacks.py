"""Each timing attack of the gallery: what it gains where its defence is missing, and what it gets from us."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from benchmarks.gpu import plain_timer
from benchmarks.gpu.bench import Bench, case, vector_add
from benchmarks.gpu.gallery import GALLERY, PLAIN, Attack
from kernelderby.core.errors import DerbyError
from kernelderby.core.problem_folder import Problem
from kernelderby.core.verdict import Mode, Verdict
from kernelderby.judge import referees
from kernelderby.judge.acceptance.trials import allowed_us

Started = dict[str | None, referees.Referees]      # by the defence that they lack, None for whole ones

REFEREE = "kernelderby.judge.referee"
SPARE_BOXES = 6          # some cases are played again unarmed, in a box of their own
MOST_BOXES = 64          # waiting at once; each takes about half a GiB of the card


@dataclass
class Figures:
    """Judgings of one judge, whole or weakened; honest twins are judged once."""

    bench: Bench
    problems: dict[int, Problem]
    honest: dict[tuple[int, str, Mode], dict[str, Any]] = field(default_factory=dict)

    def compared(self, attack: Attack, n: int) -> dict[str, Any]:
        """The attack beside its honest twin, in µs."""
        mode = Mode.RANKED if attack.against_baseline else Mode.BENCHMARK
        key = n, attack.honest, mode
        if key not in self.honest:
            self.honest[key] = self._figure(attack, attack.honest, n, mode)
        honest, got = self.honest[key], self._figure(attack, attack.source, n, mode)
        gain_us = None if honest["us"] is None or got["us"] is None else honest["us"] - got["us"]
        if gain_us is not None and attack.against_baseline:
            gain_us = -gain_us
        return {"n": n, "honest_us": honest["us"], "got_us": got["us"], "gain_us": gain_us,
                "allowed_us": None if honest["us"] is None else allowed_us(honest["us"]), "honest_outcome": honest["outcome"], **got}

    def _figure(self, attack: Attack, source: str, n: int, mode: Mode) -> dict[str, Any]:
        try:
            verdict, seconds = self.bench.run(source, self.problems[n], mode)
        except (DerbyError, TimeoutError) as error:
            return {"us": None, "outcome": None, "gate": None, "message": f"{type(error).__name__}: {error}"[:300]}
        return {"us": _us(attack, verdict), "outcome": str(verdict.outcome), "gate": verdict.gate and str(verdict.gate),
                "message": verdict.message, "seconds": round(seconds, 2), "armed": [c.armed for c in verdict.cases],
                "claimed_us": [c.claimed_us for c in verdict.cases], "null_us": (verdict.receipt or {}).get("null_us")}


def measure(bench: Bench) -> Any:
    """A row an attack, and what they come to. All that must start starts at once, before anything is measured."""
    chosen = sorted((a for a in GALLERY if a.name in bench.options.attacks), key=lambda a: (a.wins_without == PLAIN, a.wins_without, a.n))
    began = time.monotonic()
    timers = {a.name: plain_timer.start(a) for a in chosen if a.wins_without == PLAIN}
    with ExitStack() as stack:
        problems = {n: stack.enter_context(vector_add([case(n)])) for a in chosen for n in (a.n, a.proof_n or a.n)}
        started = _start_referees(bench, problems, chosen)
        for some in started.values():
            stack.callback(some.close)
        bench.warm(min(MOST_BOXES, _boxes(chosen)), house_boxes=sum(len(some._warm) for some in started.values()))
        _wait_until_up(started)
        print(f"attacks: {_boxes(chosen)} boxes up after {time.monotonic() - began:.0f} s", flush=True)
        rows = {a.name: {"attack": a.name, "proof": plain_timer.ask(timers[a.name])} for a in chosen if a.name in timers}
        rows |= _proofs_without(bench, problems, [a for a in chosen if a.name not in timers], started)
        bench.keep("attacks", {"rows": list(rows.values())})
        print(f"attacks: proofs done after {time.monotonic() - began:.0f} s", flush=True)
        with _judging_with(bench, started[None]):
            _judge_all(bench, Figures(bench, problems), chosen, rows)
    return {"rows": list(rows.values()), **_summary(list(rows.values()))}


def _boxes(attacks: Sequence[Attack]) -> int:
    """How many they take: one a judging, of an attack or of a twin that some share, by us and, where that is the proof, by a weakened
    referee."""
    played = {(a.name, defence) for a in attacks for defence in {"", a.wins_without} - {PLAIN}}
    twins = {(a.honest, n, defence, a.against_baseline) for a in attacks
             for n, defence in {(a.n, ""), (a.proof_n or a.n, a.wins_without)} if defence != PLAIN}
    return len(played) + len(twins) + SPARE_BOXES


def _judge_all(bench: Bench, figures: Figures, chosen: Sequence[Attack], rows: dict[str, Any]) -> None:
    for attack in chosen:
        rows[attack.name] |= figures.compared(attack, attack.n)
        _print(rows[attack.name])
        bench.keep("attacks", {"rows": list(rows.values()), **_summary(list(rows.values()))})


def _proofs_without(bench: Bench, problems: dict[int, Problem], attacks: Sequence[Attack], started: Started) -> dict[str, Any]:
    """By attack, what it gains before a referee that lacks the one defence which it needs off."""
    rows: dict[str, Any] = {}
    for defence in sorted({attack.wins_without for attack in attacks}):
        with _judging_with(bench, started[defence]), _without(defence):
            figures = Figures(bench, problems)
            for attack in (a for a in attacks if a.wins_without == defence):
                found = figures.compared(attack, attack.proof_n or attack.n)
                gain, allowed = found["gain_us"], found["allowed_us"]
                rows[attack.name] = {"attack": attack.name, "proof": {"without": defence, **found,
                                                                      "wins": gain is not None and allowed is not None and gain > allowed}}
        started[defence].close()
    return rows


def _start_referees(bench: Bench, problems: dict[int, Problem], attacks: Sequence[Attack]) -> Started:
    """By the defence that they lack, None for whole ones: a referee for each size that is played so. They are not up yet."""
    wanted: set[tuple[str | None, int]] = {(None, a.n) for a in attacks}
    wanted |= {(a.wins_without, a.proof_n or a.n) for a in attacks if a.wins_without != PLAIN}
    started: Started = {}
    for defence, n in wanted:
        with _without(defence) if defence else nullcontext():
            process = referees.RefereeProcess(problems[n], bench.device, bench.judge._referees._gpu)
        started.setdefault(defence, referees.Referees())._warm[referees._key(problems[n], bench.device)] = process
    return started


def _wait_until_up(started: Started) -> None:
    """One that does not come up is left out: the first judging tries again, and says why."""
    for some in started.values():
        for key, process in list(some._warm.items()):
            try:
                process.wait_until_up()
            except DerbyError as error:
                print("attacks: a referee did not come up:", error, flush=True)
                del some._warm[key]
                process.close()


@contextmanager
def _judging_with(bench: Bench, others: referees.Referees) -> Iterator[None]:
    """The same judge with other referees."""
    kept, bench.judge._referees = bench.judge._referees, others
    try:
        yield
    finally:
        bench.judge._referees = kept


@contextmanager
def _without(defence: str) -> Iterator[None]:
    """Referees that are started meanwhile lack one defence. Raises ValueError when they are started in another way than is known here."""
    def popen(command: list[str], **options: Any) -> Any:
        place = command.index(REFEREE)
        return subprocess.Popen([sys.executable, "-m", "benchmarks.gpu.weakened_referee", defence, *command[place + 1 :]], **options)

    with patch.object(referees, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": popen})):
        yield


def _us(attack: Attack, verdict: Verdict) -> float | None:
    """What the attack is after: a small score, or a large time of the baseline."""
    if not verdict.accepted:
        return None
    return verdict.cases[0].baseline_us if attack.against_baseline else verdict.score_us


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """An attack that was not shown to win anywhere counts for nothing, unless it gains too much from us: that is shown by itself."""
    gains = [row for row in rows if row.get("gain_us") is not None]
    over = [row["attack"] for row in gains if row["gain_us"] > row["allowed_us"]]
    counted = [row for row in rows if row["proof"].get("wins") or row["attack"] in over]
    most = max((row for row in gains if row in counted), key=lambda row: row["gain_us"] - row["allowed_us"], default=None)
    return {"proven": len(counted), "refused": sum(row.get("outcome") is not None and row.get("gain_us") is None for row in counted),
            "unproven": [row["attack"] for row in rows if row not in counted], "over": over,
            "largest_gain": most and {key: most[key] for key in ("attack", "honest_us", "gain_us", "allowed_us")}}


def _print(row: dict[str, Any]) -> None:
    proof = row["proof"]
    why_not = "" if proof["wins"] else str(proof.get("failed") or proof.get("message") or "")[:90]
    print(f"{row['attack']:20s} {row['outcome']!s:13s} honest {_short(row['honest_us'])} got {_short(row['got_us'])} "
          f"gain {_short(row['gain_us'])} | without {proof['without']:12s} honest {_short(proof.get('honest_us'))} "
          f"got {_short(proof.get('got_us'))} {'WINS' if proof['wins'] else 'wins not: '}"
          f"{why_not} | {(row['message'] or '')[:70]}", flush=True)


def _short(us: float | None) -> str:
    return "      –" if us is None else f"{us:7.1f}"
