"""Hidden cases: played last, in a fresh box whose log is dropped. Nothing leaves but outcome, gate and the recipe's name."""

import time
from dataclasses import replace
from functools import partial

from kernelderby.core.devices import DeviceClass
from kernelderby.core.problem import Case
from kernelderby.core.problem_folder import Problem
from kernelderby.core.verdict import Gate, Outcome
from kernelderby.judge.referee.arena import Layout
from kernelderby.judge.referee.entry import Entry, Spent
from kernelderby.judge.referee.findings import Ended, Finding
from kernelderby.judge.referee.inputs import ProblemCode, Seeds, hidden_cases
from kernelderby.judge.referee.link import Job, Link
from kernelderby.judge.referee.seat import Seat

OUT_OF_STEP = (Outcome.TIMEOUT, Outcome.REFUSED, Outcome.OUTPUT_LIMIT)     # after these a box cannot be asked anything more


def play_hidden(link: Link, job: Job, problem: Problem, device: DeviceClass, code: ProblemCode, spent: Spent, *,
                may_arm: bool) -> Finding | None:
    """The first failure, in the order of problem.yml, told only when all that could run have run; None when all passed."""
    seeds = Seeds(job.seed, code.kind.torch_device)
    cases = hidden_cases(problem, device, seeds)
    if not cases:
        return None
    started = time.monotonic()
    layouts = [code.layout(case, code.draw(case, seeds.generator(f"{case.name}/layout")).data) for case in cases]
    spent.check += time.monotonic() - started
    seat = Seat(lambda armed: Entry(link, job, code, seeds, spent, may_arm=may_arm and armed), max(layout.extent for layout in layouts))
    try:
        findings = _play_all(seat, cases, layouts)
    except Ended as end:              # before the first case: loading went well once, so this is seen as the first case's failure
        findings = [_told(cases[0], end.finding)]
    finally:
        seat.close()
    return findings[0] if findings else None


def _play_all(seat: Seat, cases: list[Case], layouts: list[Layout]) -> list[Finding]:
    seat.share()
    seat.entry.load()
    findings = []
    for case, layout in zip(cases, layouts, strict=True):
        try:
            seat.play(partial(_play_one, case=case, layout=layout))
        except Ended as end:
            if end.finding.outcome is Outcome.CANCELLED:
                raise
            findings.append(_told(case, end.finding))
            if seat.entry.box.is_over or end.finding.outcome in OUT_OF_STEP:
                break
    return findings


def _play_one(entry: Entry, case: Case, layout: Layout) -> None:
    entry.play_block(entry.bind(case, layout), 1)


def _told(case: Case, finding: Finding) -> Finding:
    """All that may be said of it."""
    if finding.outcome is Outcome.CANCELLED:
        return finding
    what = f"recipe {case.recipe}" if case.recipe else "drawn shapes"
    return replace(finding, gate=Gate(case.gate), message=f"A hidden case failed ({what}).")
