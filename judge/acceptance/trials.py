"""Judgings by which a runner is tried: an honest kernel and a short gallery of timing attacks, on one case."""

import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.problem_folder import load_problem
from kernelderby.core.verdict import Gate, Mode, Outcome, Verdict
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge

HERE = Path(__file__).parent
CASE = "sum"
GALLERY = ("early_done", "unpoison_first", "null_inflate", "side_stream")
WITHIN_S = 540.0                     # for all of them together; what still runs then is cancelled
GAIN_SHARE, GAIN_US = 0.01, 2.0      # the goal: how much less than its honest twin an accepted attack may take


class Trials:
    """A judge, and what it is tried with."""

    def __init__(self, judge: Judge, device: DeviceClass, say: Callable[[str], None] = lambda line: None) -> None:
        self._judge, self._device, self._say = judge, device, say
        self._problem, self._ends = load_problem(HERE / "add"), time.monotonic() + WITHIN_S
        self.honest = (HERE / "add" / "baseline.py").read_bytes()

    def judged(self, source: bytes) -> Verdict:
        """The verdict on a program, by a seed that nobody knows. Raises DerbyError."""
        job = Job(submission=None, attempt=1, problem=self._problem, device=self._device, mode=Mode.BENCHMARK, file_name="kernel.py",
                  source=source, seed=secrets.token_bytes(32))
        return self._judge.judge(job, lambda kind, data: None, lambda: time.monotonic() > self._ends)

    def repeated(self, times: int) -> list[Verdict]:
        """Separate judgings of the honest kernel."""
        verdicts = []
        for number in range(times):
            verdicts.append(self.judged(self.honest))
            self._say(f"honest kernel, {number + 1} of {times}: {_said(verdicts[-1])}")
        return verdicts

    def attacked(self) -> dict[str, Verdict]:
        """What each attack of the gallery gets."""
        verdicts = {}
        for name in GALLERY:
            verdicts[name] = self.judged(attack(name))
            self._say(f"attack {name}: {_said(verdicts[name])}")
        return verdicts


def attack(name: str) -> bytes:
    """The source of an attack."""
    return (HERE / "gallery" / f"{name}.py").read_bytes()


def allowed_us(honest_us: float) -> float:
    """How much an accepted attack may gain over so long an honest time."""
    return GAIN_SHARE * honest_us + GAIN_US


def spread_of(scores_us: Sequence[float]) -> float:
    """The coefficient of variation of two scores or more."""
    return stdev(scores_us) / mean(scores_us)


def gains(honest_us: Sequence[float], attacks: dict[str, Verdict]) -> dict[str, float | None]:
    """By attack, how much less it took than the honest kernel's median, in µs: nothing when it was not accepted.

    None for one that ended in a way that says nothing of the clock.
    """
    return {name: _gain(verdict, median(honest_us)) for name, verdict in attacks.items()}


def bound_of(gains_us: dict[str, float | None], honest_us: float, drift_us: float) -> dict[str, Any]:
    """The bound that holds what was seen: the clock's own uncertainty in µs, and the largest gain beyond it as a share."""
    largest = max((gain for gain in gains_us.values() if gain is not None), default=0.0)
    return {"share": round(max(0.0, largest - drift_us) / honest_us, 5), "us": drift_us, "largest_gain_us": round(largest, 3),
            "attacks": len(gains_us)}


def _gain(verdict: Verdict, honest_us: float) -> float | None:
    if verdict.accepted and verdict.score_us is not None:
        return round(max(0.0, honest_us - verdict.score_us), 3)
    caught = verdict.outcome is not Outcome.REFUSED or verdict.gate is Gate.HONEST_TIME
    return 0.0 if caught and verdict.outcome in (Outcome.REFUSED, Outcome.WRONG_VALUES) else None


def _said(verdict: Verdict) -> str:
    return f"{verdict.outcome}, {verdict.score_us:.1f} µs" if verdict.score_us else str(verdict.outcome)
