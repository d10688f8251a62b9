"""What a judging gathers, and the verdict it becomes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.light import DATASHEET, Light, Work, light
from kernelderby.core.problem import Case
from kernelderby.core.problem_folder import Problem
from kernelderby.core.scoring import LAUNCH_BOUND_US, bootstrap_ci, estimate, geomean, median_of
from kernelderby.core.submission import source_sha
from kernelderby.core.verdict import CaseResult, CompileReport, Flag, Gate, Outcome, Verdict
from kernelderby.judge.referee.entry import Played, Spent
from kernelderby.judge.referee.findings import Ended, Finding, ended
from kernelderby.judge.referee.kinds import kind_of
from kernelderby.judge.referee.link import Job
from kernelderby.judge.referee.steadiness import is_repeat_suspect, outside, undisturbed

MEASURED_AGAIN = 0.01       # two measurements of one ceiling lie so far apart


@dataclass
class Timed:
    """The house's part of a timed case: wall times in µs."""

    null_us: list[list[float]] = field(default_factory=list)
    prepared_us: list[float] = field(default_factory=list)     # of the null calls
    baseline_us: list[list[float]] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)            # of the entry's calls, which differ where lengths are drawn
    drifts_us: list[float] = field(default_factory=list)       # the baseline's net time beside each block, where it must be steady


class Record:
    """Grows while a judging goes on."""

    def __init__(self, problem: Problem, device: DeviceClass, job: Job) -> None:
        self._problem, self._device, self._job = problem, device, job
        self._started = time.monotonic()
        self._kind = kind_of(device)
        self._blocks: dict[str, list[list[float]]] = {}       # net times: null taken off
        self._baseline: dict[str, list[list[float]]] = {}
        self._null: dict[str, list[float]] = {}
        self._void: dict[str, list[list[float]]] = {}         # of blocks that do not count
        self._gauges: dict[str, list[dict[str, Any]]] = {}
        self._lights: dict[str, Light] = {}
        self._is_above_measured = False
        self._prepared: dict[str, dict[str, list[float]]] = {}
        self.box_offset_us = 0.0      # how much longer a null call takes in the entry's box than in the twin's
        self.spent = Spent()
        self.cases: list[CaseResult] = []
        self.compile: list[CompileReport] = []
        self.finding: Finding | None = None
        self.serves: dict[str, Any] | None = None       # what gate `serves` showed
        self.log: str | None = None

    def add(self, played: Played, timed: Timed | None, blocks: int = 0) -> None:
        """A case that passed its checks. Raises Ended when fewer than so many blocks count, or its time cannot be."""
        result = CaseResult(name=played.case.name, outcome=Outcome.ACCEPTED, max_abs_err=played.check.max_abs_err,
                            worst_row_rel_l2=played.check.worst_row_rel_l2)
        try:
            self.cases.append(result if timed is None else self._with_times(result, played, timed, blocks))
        except Ended as end:
            self.cases.append(result.model_copy(update={"outcome": end.finding.outcome, "message": end.finding.message}))
            raise

    def null_us(self, case: str) -> float:
        """What a call that does nothing took in a timed case, the median."""
        return median(self._null[case])

    def verdict(self) -> Verdict:
        """All of it. Submission, attempt and the sandbox's part of the environment are the worker's to add."""
        finding = self.finding
        times: dict[str, Any] = self._score() if finding is None and self._blocks else {}
        return Verdict(problem=self._problem.name, version=self._problem.version, device=self._device.name, mode=self._job.mode,
                       outcome=finding.outcome if finding else Outcome.ACCEPTED, gate=finding.gate if finding else None,
                       message=finding.message if finding else None, compile=self.compile, cases=self.cases, stages_s=self._stages(),
                       receipt=self._receipt(), log=self.log, **times)

    def _with_times(self, result: CaseResult, played: Played, timed: Timed, blocks: int) -> CaseResult:
        name, twin_null = played.case.name, self._kind.null_of(timed.null_us)
        null = twin_null + (self.box_offset_us if played.is_armed else 0.0)
        if played.prepared_us:
            self._prepared[name] = {"entry": played.prepared_us, "twin": timed.prepared_us}
        self._null[name] = [wall for block in timed.null_us for wall in block]
        self._keep(played, [self._kind.net_us(block, null) for block in played.blocks_us], timed.drifts_us, blocks)
        self._baseline[name] = [self._kind.net_us(block, twin_null) for block in timed.baseline_us]
        low, high = bootstrap_ci([self._blocks[name]], seed=0)
        time_us = median_of(self._blocks[name])
        return result.model_copy(update={
            "time_us": time_us, "ci_us": (min(low, time_us), max(high, time_us)), "calls": sum(map(len, self._blocks[name])),
            "armed": played.is_armed, "speed_of_light": self._share_of_light(played.case, timed.works, time_us),
            "of_measured": self._share_of_measured(played.case, timed.works, time_us),
            "claimed_us": float(f"{median(played.claims_us):.5g}") if played.claims_us else None,
            "baseline_us": median_of(self._baseline[name]) if timed.baseline_us else None})

    def _keep(self, played: Played, net_us: list[list[float]], drifts_us: Sequence[float], wanted: int) -> None:
        """Tell the blocks that count from those that do not, by how the device was. Raises Ended for too few, or a gain by repeats."""
        name, void = played.case.name, set(outside(played.gauged, drifts_us))
        self._blocks[name] = [block for place, block in enumerate(net_us) if place not in void]
        self._void[name] = [block for place, block in enumerate(net_us) if place in void]
        self._gauges[name] = [{**gauged.as_json(), "counts": place not in void} for place, gauged in enumerate(played.gauged)]
        if len(self._blocks[name]) < wanted:
            raise ended(Outcome.UNSTABLE, f"Case {name}: the GPU did not stay steady: {len(void)} of {len(net_us)} blocks do not count, by "
                                          "its clock or the baseline's time. Send it again; if it stays, the organizers should look at the "
                                          "runner's cooling.")
        alike = undisturbed([median(block) for block in net_us], drifts_us)
        void_us, kept_us = [alike[place] for place in void], [us for place, us in enumerate(alike) if place not in void]
        if is_repeat_suspect(void_us, kept_us, self._problem.spec.min_effect):
            raise ended(Outcome.UNSTABLE, f"Case {name}: a block was slower while the GPU was not steady, and a repeat would have made the "
                                          "score better. Send it again.")

    def _share_of_light(self, case: Case, works: Sequence[Work], time_us: float) -> float | None:
        """How near the time comes to the shortest possible for half of the calls; None on a CPU. Raises Ended when it lies beneath."""
        if self._device.name not in DATASHEET:
            return None
        least = _middle([light(work, DATASHEET[self._device.name], case.dtype) for work in works])
        self._lights[case.name] = least
        if time_us < least.firm_us:
            raise ended(Outcome.REFUSED, f"Case {case.name}: {time_us:.1f} µs is less than this GPU needs to do the work at all "
                                         f"({least.firm_us:.1f} µs).", Gate.HONEST_TIME)
        return least.us / time_us

    def _share_of_measured(self, case: Case, works: Sequence[Work], time_us: float) -> float | None:
        """The same against what `derby calibrate` measured; None where it measured nothing of the kind."""
        measured, dtype = self._job.runner.measured, case.dtype
        if measured is None or (dtype not in measured.flops and dtype in DATASHEET[self._device.name].flops):
            return None
        least = _middle([light(work, measured, dtype) for work in works])
        self._is_above_measured |= time_us * (1 + MEASURED_AGAIN) < least.likely_us
        return least.us / time_us

    def _score(self) -> dict[str, Any]:
        found = estimate(list(self._blocks.values()))
        times = [case.time_us for case in self.cases if case.time_us is not None]
        house = [case.baseline_us for case in self.cases if case.baseline_us is not None]
        flags = [Flag.LAUNCH_BOUND] if min(times) < LAUNCH_BOUND_US else []
        if self._device.arch and not self._job.runner.certificate:
            flags.append(Flag.UNCERTIFIED)
        if self._is_above_measured:
            flags.append(Flag.ABOVE_MEASURED_LIGHT)
        shares = [case.speed_of_light for case in self.cases if case.speed_of_light]
        measured = [case.of_measured for case in self.cases if case.of_measured]
        slowest = max(self.cases, key=lambda case: case.time_us or 0.0).name
        return {"speed_of_light": geomean(shares) if shares else None,
                "of_measured": geomean(measured) if len(measured) == len(self.cases) else None,
                "bound": self._lights[slowest].bound if slowest in self._lights else None,
                "score_us": found.score_us, "score_ci_us": (found.low_us, found.high_us), "flags": flags,
                "speedup": geomean(house) / geomean(times) if len(house) == len(times) else None}

    def _stages(self) -> dict[str, float]:
        total = time.monotonic() - self._started
        stages = {"queue": 0.0, "build": 0.0, **vars(self.spent), "total": total}
        return {name: round(seconds, 3) for name, seconds in stages.items()}

    def _receipt(self) -> dict[str, Any]:
        return {"gate_set": self._problem.gate_set,
                "source_sha": source_sha(self._job.source), "blocks_us": _rounded(self._blocks), "null_us": _rounded(self._null),
                "baseline_us": _rounded(self._baseline),
                **({"box_offset_us": round(self.box_offset_us, 3)} if self._kind.fresh_null_calls else {}),
                **({"prepared_us": _rounded(self._prepared)} if self._prepared else {}),
                **({"serves": self.serves} if self.serves else {}),
                **({"void_blocks_us": _rounded(self._void), "gauges": self._gauges} if self._device.arch else {})}


def _middle(lights: Sequence[Light]) -> Light:
    """The median, as times are."""
    return sorted(lights, key=lambda light: light.us)[len(lights) // 2]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else round(value, 3)
