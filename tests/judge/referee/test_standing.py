"""What a verdict says of its runner: certified or not, near the measured light or past it, steady or not."""

from dataclasses import replace
from pathlib import Path

import pytest

from kernelderby.core.devices import CPU, DEVICES
from kernelderby.core.light import Ceilings, Work
from kernelderby.core.problem_folder import load_problem
from kernelderby.core.runner import UNKNOWN_RUNNER, RunnerFacts
from kernelderby.core.verdict import Flag, Mode, Outcome, Verdict
from kernelderby.judge.referee.checking import CaseCheck
from kernelderby.judge.referee.entry import Played
from kernelderby.judge.referee.findings import Ended
from kernelderby.judge.referee.inputs import ProblemCode, Seeds, cases_for
from kernelderby.judge.referee.link import Job
from kernelderby.judge.referee.results import Record, Timed
from kernelderby.judge.referee.steadiness import Gauged, Reading

TINY = Path(__file__).parent.parent / "tiny/problems/warmup/double"
NULL_US, BLOCKS = 150.0, 4
FLOPS = 2 * 12 * 300.0
WORKS = [Work(flops=share * FLOPS, bytes=0.0, exps=0.0) for share in (0.9, 1.1, 1.0, 0.8, 1.2)]      # as lengths are drawn
STEADY = Gauged(before=Reading(sm_clock_mhz=1980, reasons=()), after=Reading(sm_clock_mhz=1980, reasons=()))
HOT = Gauged(before=Reading(sm_clock_mhz=1980, reasons=()), after=Reading(sm_clock_mhz=1980, reasons=("hw_thermal_slowdown",)))
CERTIFIED = RunnerFacts(gpu="GPU-1", certificate="c0ffee")


def judged(runner: RunnerFacts, net_us: list[float] | None = None, gauged: list[Gauged] | None = None) -> Verdict:
    """The verdict on blocks of ten calls that took so long."""
    problem, device = load_problem(TINY), DEVICES["h200"]
    code, case, seeds = ProblemCode(problem), cases_for(problem, CPU)[0], Seeds(b"a")
    net_us = net_us or [350.0] * BLOCKS
    played = Played(case, code.draw(case, seeds.generator("x")), CaseCheck(code, case, seeds), 0.0, is_armed=True,
                    blocks_us=[[NULL_US + net] * 10 for net in net_us], gauged=gauged or [STEADY] * len(net_us))
    record = Record(problem, device, Job(submission=None, attempt=1, mode=Mode.RANKED, file_name="a.py", seed=bytes(32), source=b"",
                                         runner=runner))
    try:
        record.add(played, Timed(null_us=[[NULL_US] * 20] * 2, works=WORKS), BLOCKS)
    except Ended as end:
        record.finding = end.finding
    return record.verdict()


@pytest.mark.parametrize(("runner", "flagged"), [
    (UNKNOWN_RUNNER, True), (RunnerFacts(gpu="GPU-1", failed_check="counters"), True), (CERTIFIED, False),
])
def test_only_a_certificate_that_holds_spares_the_flag(runner: RunnerFacts, flagged: bool) -> None:
    assert (Flag.UNCERTIFIED in judged(runner).flags) is flagged


@pytest.mark.parametrize(("light_us", "flagged"), [(35.0, False), (352.0, False), (360.0, True)], ids=["far", "as measured", "past it"])
def test_a_time_past_the_measured_light_is_accepted_and_flagged(light_us: float, flagged: bool) -> None:
    flops = FLOPS / (light_us * 1e-6)
    measured = Ceilings(flops={"float32": flops, "bfloat16": flops}, bytes=4e12, exps=4e12, cache_bytes=0)

    verdict = judged(replace(CERTIFIED, measured=measured))

    assert verdict.outcome is Outcome.ACCEPTED
    assert (Flag.ABOVE_MEASURED_LIGHT in verdict.flags) is flagged
    assert (verdict.of_measured, verdict.cases[0].of_measured) == (pytest.approx(light_us / 350), pytest.approx(light_us / 350))
    assert verdict.speed_of_light is not None and verdict.speed_of_light < 0.01
    assert verdict.bound == "compute"


def test_without_a_calibration_nothing_is_said_of_the_measured_light() -> None:
    verdict = judged(CERTIFIED)

    assert (verdict.of_measured, verdict.cases[0].of_measured) == (None, None)


def test_a_block_on_a_hot_gpu_is_no_part_of_the_time_and_stays_in_the_receipt() -> None:
    verdict = judged(CERTIFIED, [350.0, 350.0, 340.0, 350.0, 350.0], [STEADY, STEADY, HOT, STEADY, STEADY])

    assert (verdict.outcome, verdict.cases[0].time_us, verdict.cases[0].calls) == (Outcome.ACCEPTED, 350.0, 40)
    assert [row["counts"] for row in verdict.receipt["gauges"]["wide"]] == [True, True, False, True, True]
    assert verdict.receipt["void_blocks_us"] == {"wide": [[340.0] * 10]}


@pytest.mark.parametrize(("net_us", "gauged", "says"), [
    ([350.0] * 6, [HOT, HOT, HOT, STEADY, STEADY, STEADY], "3 of 6 blocks do not count"),
    ([350.0, 350.0, 360.0, 350.0, 350.0], [STEADY, STEADY, HOT, STEADY, STEADY], "a block was slower"),
], ids=["too few count", "the repeat paid"])
def test_a_gpu_that_does_not_stay_steady_gives_no_score(net_us: list[float], gauged: list[Gauged], says: str) -> None:
    verdict = judged(CERTIFIED, net_us, gauged)

    assert (verdict.outcome, verdict.gate, verdict.score_us) == (Outcome.UNSTABLE, None, None)
    assert says in (verdict.message or "") and [case.outcome for case in verdict.cases] == [Outcome.UNSTABLE]
    assert len(verdict.receipt["blocks_us"]["wide"]) + len(verdict.receipt["void_blocks_us"]["wide"]) == len(net_us)
    assert len(verdict.receipt["gauges"]["wide"]) == len(net_us)


def test_a_gpu_that_tells_nothing_is_recorded_as_that_and_judged() -> None:
    verdict = judged(CERTIFIED, gauged=[Gauged(before=Reading(), after=Reading())] * BLOCKS)

    assert verdict.outcome is Outcome.ACCEPTED
    assert verdict.receipt["gauges"]["wide"][0]["after"] == {"sm_clock_mhz": None, "temperature_c": None, "power_w": None, "reasons": None}
