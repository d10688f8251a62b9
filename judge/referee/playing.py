"""The story of one judging: load the entry, play the public cases, time them, play the hidden ones, say the verdict."""

import math
import time
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from kernelderby.core.devices import COMPILE_TARGETS, DeviceClass
from kernelderby.core.problem import Case
from kernelderby.core.problem_folder import Problem
from kernelderby.core.text import clean_text
from kernelderby.core.verdict import CaseResult, CompileReport, Gate, Outcome, Verdict
from kernelderby.judge.referee.arena import Layout
from kernelderby.judge.referee.clock import binding
from kernelderby.judge.referee.entry import Entry, Played
from kernelderby.judge.referee.findings import Ended, Finding, ended, with_limit
from kernelderby.judge.referee.hidden import play_hidden
from kernelderby.judge.referee.house import House
from kernelderby.judge.referee.inputs import ProblemCode, Seeds, cases_for
from kernelderby.judge.referee.inspecting import inspect
from kernelderby.judge.referee.kinds import Plan, kind_of
from kernelderby.judge.referee.link import Job, Link
from kernelderby.judge.referee.results import Record, Timed

COMPILE_S = 30.0
MOST_REPORTS = 32


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
        self._house = House(self._code, problem.baseline.read_bytes(), self._arena_bytes)

    def judge(self, job: Job, link: Link) -> Verdict:
        """The verdict on an entry, whatever its program does. Raises DerbyError for what we or the problem do wrong."""
        record = Record(self._problem, self._device, job)
        try:
            self._play_public(job, link, record)
            if self._kind.plans[job.mode].has_hidden:
                record.finding = play_hidden(link, job, self._problem, self._device, self._code, record.spent)
        except Ended as end:
            record.finding = with_limit(end.finding, self._problem.spec.limits)
        return record.verdict()

    def inspect(self, seeds: Seeds) -> list[dict[str, Any]]:
        """What there is to say of the problem's own Python."""
        return inspect(self._problem, self._code, self._device, seeds)

    def _play_public(self, job: Job, link: Link, record: Record) -> None:
        if job.file_name.lower().endswith(".cu"):
            raise ended(Outcome.REFUSED, "This version runs Python entries alone: send the kernel as a .py file, in Triton, or in CUDA by "
                                         "load_inline on a GPU class.", Gate.DEVICE)
        entry = Entry(link, job, self._code, Seeds(job.seed, self._kind.torch_device), record.spent)
        try:
            entry.load(self._arena_bytes)
            for index, case in enumerate(self._cases):
                self._play_case(entry, case, self._layouts[index], link, self._kind.plans[job.mode], record)
                link.event("check", {"case": case.name, "done": index + 1, "of": len(self._cases), "outcome": Outcome.ACCEPTED})
            record.compile = self._compiled(entry, job)
        finally:
            entry.close()
            record.log = entry.box.log.text()
            link.event("log", {"text": record.log})

    def _play_case(self, entry: Entry, case: Case, layout: Layout, link: Link, plan: Plan, record: Record) -> None:
        played = None
        try:
            played = entry.bind(case, layout)
            timed = self._play_blocks(entry, played, link, plan)
        except Ended as end:
            finding = _placed(case, end.finding)
            record.cases.append(_failed(case, finding, played))
            raise Ended(replace(finding, message=f"Case {case.name}: {finding.message}")) from None
        record.add(played, timed)

    def _play_blocks(self, entry: Entry, played: Played, link: Link, plan: Plan) -> Timed | None:
        if not plan.is_timed:
            entry.play_block(played, plan.calls)
            return None
        timed, data = Timed(), played.warm.data
        bound = binding(self._problem.spec, self._code.layout(played.case, data), self._kind.kept_in_a_block)
        started, entry_s = time.monotonic(), 0.0
        timed.null_us += self._house.null_block(link, bound, data, self._kind.null_calls, played.lead_in, armed=played.is_armed)
        timed.prepared_us += self._house.prepared_us
        entry.expect_preparation(max(timed.prepared_us, default=math.inf))
        for block in range(plan.blocks):
            before = time.monotonic()
            drawn = entry.play_block(played, plan.calls)
            entry_s += time.monotonic() - before
            if plan.has_baseline:
                timed.baseline_us.append(self._house.baseline_block(link, bound, [inputs.data for inputs in drawn], played.lead_in,
                                                                      armed=played.is_armed))
            link.event("time", {"case": played.case.name, "block": block + 1, "of": plan.blocks})
        timed.null_us += self._house.null_block(link, bound, data, self._kind.null_calls, played.lead_in, armed=played.is_armed)
        entry.spent.time += time.monotonic() - started - entry_s
        return timed

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
        drawn = self._code.draw(case, Seeds(b"", self._kind.torch_device).generator(case.name))
        return self._code.layout(case, drawn.data)


def _placed(case: Case, finding: Finding) -> Finding:
    """A case's failure belongs to the case's gate, unless it has one, or none is at stake."""
    if finding.gate or finding.outcome in (Outcome.REFUSED, Outcome.CANCELLED):
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
