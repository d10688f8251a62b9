"""The story of one judging: load the entry, play the public cases, time them, play the hidden ones, say the verdict."""

import math
import time
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

from pydantic import ValidationError

from kernelderby.core.devices import COMPILE_TARGETS, DeviceClass
from kernelderby.core.duel import Duel
from kernelderby.core.errors import BoxStuck, RunnerUnhealthy
from kernelderby.core.light import DATASHEET, Work
from kernelderby.core.problem import Case
from kernelderby.core.problem_folder import Problem
from kernelderby.core.text import clean_text
from kernelderby.core.verdict import CaseResult, CompileReport, Gate, Mode, Outcome, Verdict
from kernelderby.judge.referee.arena import Layout
from kernelderby.judge.referee.clock import Data, binding
from kernelderby.judge.referee.duelling import Ground, play_duel
from kernelderby.judge.referee.entry import LEAD_IN, Entry, Played
from kernelderby.judge.referee.findings import Ended, Finding, with_limit
from kernelderby.judge.referee.hidden import play_hidden
from kernelderby.judge.referee.house import House
from kernelderby.judge.referee.inputs import Drawn, ProblemCode, Seeds, cases_for
from kernelderby.judge.referee.inspecting import inspect
from kernelderby.judge.referee.kinds import Plan, kind_of
from kernelderby.judge.referee.link import Challenge, Job, Link
from kernelderby.judge.referee.proof import prove
from kernelderby.judge.referee.results import Record, Timed
from kernelderby.judge.referee.seat import Seat
from kernelderby.judge.referee.serving import play_serving, service_of
from kernelderby.judge.referee.steadiness import numbers
from kernelderby.judge.referee.work import work_of

COMPILE_S = 30.0
MOST_REPORTS = 32
QUIET_CALLS = 5


class Referee:
    """Judges entries for one problem on one class. Import, layouts and the house box are kept from run to run."""

    def __init__(self, problem: Problem, device: DeviceClass) -> None:
        """Raises ProblemBroken when the problem's own Python fails on one of its cases."""
        self._problem, self._device = problem, device
        self._kind = kind_of(device)
        self._code = ProblemCode(problem, self._kind)
        self._cases = cases_for(problem, device)
        self._layouts = [self._layout(case) for case in self._cases]
        self._arena_bytes = max(layout.extent for layout in self._layouts)
        self._service = service_of(self._code, device, self._cases, self._layouts)
        self._house = House(self._code, problem.baseline.read_bytes(), self._arena_bytes)
        self._health = self._kind.open_health()

    def judge(self, job: Job, link: Link) -> Verdict:
        """The verdict on an entry, whatever its program does. Raises DerbyError for what we or the problem do wrong."""
        record = Record(self._problem, self._device, job)
        try:
            self._play_public(job, link, record)
            if self._kind.plans[job.mode].has_hidden:
                record.serves = self._served(link, job, record)
                self._require_health(link)
                may_arm = not any(case.armed is False for case in record.cases)
                record.finding = play_hidden(link, job, self._problem, self._device, self._code, record.spent, may_arm=may_arm)
        except Ended as end:
            record.finding = with_limit(end.finding, self._problem.spec.limits)
        return record.verdict()

    def duel(self, challenge: Challenge, link: Link) -> Duel:
        """Two entries against each other. Raises DerbyError as `judge` does."""
        plan = self._kind.plans[Mode.RANKED]
        self._open_house(link)
        self._health.note()
        ground = Ground(problem=self._problem, device=self._device, code=self._code, cases=self._cases, layouts=self._layouts,
                        arena_bytes=self._arena_bytes, house=self._house,
                        box_offset_us=lambda entry, link: self._box_offset_us(entry, link, plan))
        return play_duel(ground, challenge, link)

    def fault(self, link: Link) -> str | None:
        """What is not as it was before this run's boxes, once they are gone, and what to do about it."""
        return BoxStuck().message if link.stuck else self._health.fault(link.ended)

    def prove(self) -> None:
        """Show that this process judges right, on a known case. Raises DerbyError when it does not."""
        prove(self._code, self._smallest()[1])

    def inspect(self, seed: bytes) -> list[dict[str, Any]]:
        """What there is to say of the problem's own Python."""
        return inspect(self._problem, self._code, self._device, Seeds(seed, self._kind.torch_device))

    def _play_public(self, job: Job, link: Link, record: Record) -> None:
        plan, seeds = self._kind.plans[job.mode], Seeds(job.seed, self._kind.torch_device)
        if plan.is_timed:
            self._open_house(link)
        self._health.note()
        seat = Seat(lambda may_arm: Entry(link, job, self._code, seeds, record.spent, may_arm=may_arm), self._arena_bytes)
        try:
            seat.share()
            record.box_offset_us = self._box_offset_us(seat.entry, link, plan)
            seat.entry.load()
            for index, case in enumerate(self._cases):
                seat.play(partial(self._play_case, case=case, layout=self._layouts[index], link=link, plan=plan, record=record))
                link.event("check", {"case": case.name, "done": index + 1, "of": len(self._cases), "outcome": Outcome.ACCEPTED})
            record.compile = self._compiled(seat.entry, job)
        finally:
            seat.close()
            record.log = seat.entry.box.log.text()
            link.event("log", {"text": record.log})

    def _open_house(self, link: Link) -> None:
        """Take the house box; the first time, hear how long each case's preparation takes while no entry has a box."""
        self._house.open(link)
        if not self._kind.fresh_null_calls:
            return
        for case, layout in zip(self._cases, self._layouts, strict=True):
            if math.isinf(self._house.quiet_us(layout)):
                self._house.null_block(link, binding(self._problem.spec, layout), self._any_data(case), QUIET_CALLS, LEAD_IN, armed=True)

    def _served(self, link: Link, job: Job, record: Record) -> dict[str, Any] | None:
        """What gate `serves` showed, where the problem asks for it. Raises Ended."""
        if self._service is None:
            return None
        self._require_health(link)
        served = play_serving(link, job, self._service, record.spent)
        timed = next(case for case in record.cases if case.name == served.case)
        return served.held_to(timed, record.null_us(served.case))

    def _require_health(self, link: Link) -> None:
        """Before the next box of this run. Raises RunnerUnhealthy."""
        if fault := self.fault(link):
            raise RunnerUnhealthy(fault)

    def _smallest(self) -> tuple[Layout, Case]:
        return min(zip(self._layouts, self._cases, strict=True), key=lambda pair: pair[0].extent)

    def _box_offset_us(self, entry: Entry, link: Link, plan: Plan) -> float:
        """How much longer a call that does nothing takes in the entry's box than in the twin's, in µs.

        It is a box's own for all its life: 0.6 µs up or down on an H200. Asked while the box holds nobody's code.
        """
        calls = self._kind.fresh_null_calls
        if not plan.is_timed or not calls:
            return 0.0
        layout, case = self._smallest()
        data, bound = self._any_data(case), binding(self._problem.spec, layout)
        own = entry.null_block(bound, data, calls)
        return median(own) - median(self._house.null_block(link, bound, data, calls, LEAD_IN, armed=True))

    def _play_case(self, entry: Entry, case: Case, layout: Layout, link: Link, plan: Plan, record: Record) -> None:
        played = None
        try:
            played = entry.bind(case, layout)
            timed = self._play_blocks(entry, played, layout, link, plan)
        except Ended as end:
            finding = _placed(case, end.finding)
            record.cases.append(_failed(case, finding, played))
            raise Ended(replace(finding, message=f"Case {case.name}: {finding.message}")) from None
        record.add(played, timed, plan.blocks)

    def _play_blocks(self, entry: Entry, played: Played, layout: Layout, link: Link, plan: Plan) -> Timed | None:
        if not plan.is_timed:
            entry.play_block(played, plan.calls)
            return None
        timed, data = Timed(), played.warm.data
        bound = binding(self._problem.spec, layout)
        started, entry_s = time.monotonic(), 0.0
        timed.null_us.append(self._house.null_block(link, bound, data, self._kind.null_calls, played.lead_in, armed=played.is_armed))
        timed.prepared_us += self._house.prepared_us
        entry.expect_preparation(self._house.quiet_us(layout))
        for block in numbers(plan.blocks, played.gauged, timed.drifts_us):
            before = time.monotonic()
            drawn = entry.play_block(played, plan.calls)
            entry_s += time.monotonic() - before
            timed.works += self._works(played.case, drawn)
            if plan.has_baseline:
                walls_us = self._house.baseline_block(link, bound, [inputs.data for inputs in drawn], played.lead_in, armed=played.is_armed)
                timed.baseline_us.append(walls_us)
                if self._kind.holds_baseline:
                    timed.drifts_us.append(median(self._kind.net_us(walls_us, self._kind.null_of(timed.null_us))))
            del drawn      # gigabytes on a GPU, which the next block's inputs need
            link.event("time", {"case": played.case.name, "block": block + 1, "of": max(plan.blocks, block + 1)})
        timed.null_us.append(self._house.null_block(link, bound, data, self._kind.null_calls, played.lead_in, armed=played.is_armed))
        entry.spent.time += time.monotonic() - started - entry_s
        return timed

    def _works(self, case: Case, drawn: list[Drawn]) -> list[Work]:
        """What each call asked for, where the class has a speed of light."""
        if self._device.name not in DATASHEET:
            return []
        return [work_of(self._problem.spec, case, inputs.data) for inputs in drawn]

    def _compiled(self, entry: Entry, job: Job) -> list[CompileReport]:
        """What a Triton entry's kernels compile to, in the box's own words; nothing when it says nothing sensible."""
        if b"triton" not in job.source:
            return []
        try:
            reports = entry.compile(COMPILE_TARGETS, COMPILE_S)
        except Ended:
            return []
        return _reports(reports)

    def _layout(self, case: Case) -> Layout:
        return self._code.layout(case, self._any_data(case))

    def _any_data(self, case: Case) -> Data:
        """Inputs of a case that no entry ever sees, the same each time."""
        return self._code.draw(case, Seeds(b"", self._kind.torch_device).generator(case.name)).data


def _placed(case: Case, finding: Finding) -> Finding:
    """A case's failure belongs to the case's gate, unless it has one, or none is at stake."""
    if finding.gate or finding.outcome in (Outcome.REFUSED, Outcome.CANCELLED, Outcome.UNSTABLE):
        return finding
    return replace(finding, gate=Gate(case.gate))


def _failed(case: Case, finding: Finding, played: Played | None) -> CaseResult:
    result = CaseResult(name=case.name, outcome=finding.outcome, message=finding.message)
    if played is None:
        return result
    return result.model_copy(update={"max_abs_err": played.check.max_abs_err, "worst_row_rel_l2": played.check.worst_row_rel_l2})


def _reports(answer: Any) -> list[CompileReport]:
    kept = []
    for item in (answer if isinstance(answer, list) else [])[:MOST_REPORTS]:
        try:
            report = CompileReport.model_validate(item)
        except ValidationError:
            continue
        kept.append(report.model_copy(update={"kernel": clean_text(report.kernel, 80), "arch": clean_text(report.arch, 20),
                                              "tensor_core": _cleaned(report.tensor_core, 20), "message": _cleaned(report.message, 500)}))
    return kept


def _cleaned(text: str | None, limit: int) -> str | None:
    return None if text is None else clean_text(text, limit)
