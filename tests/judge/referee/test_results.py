"""What becomes of wall times: noise never makes an entry look quicker, and nothing counts that this clock cannot tell."""

from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.devices import CPU
from kernelderby.core.problem_folder import load_problem
from kernelderby.core.verdict import Mode
from kernelderby.judge.referee import kinds
from kernelderby.judge.referee.checking import CaseCheck
from kernelderby.judge.referee.entry import Played
from kernelderby.judge.referee.inputs import ProblemCode, Seeds, cases_for
from kernelderby.judge.referee.link import Job
from kernelderby.judge.referee.results import Record, Timed

TINY = Path(__file__).parent.parent / "tiny/problems/warmup/double"
QUIET = [30.0, 31.0, 35.0, 33.0, 32.0]
BUSY = [4504.0, 864.0, 15782.0, 1731.0, 2000.0]


def judged(walls_us: list[float], null_us: list[float], baseline_us: list[float]) -> Any:
    """The verdict's one case, and the verdict."""
    problem = load_problem(TINY)
    code, case, seeds = ProblemCode(problem), cases_for(problem, CPU)[0], Seeds(b"a")
    played = Played(case, code.draw(case, seeds.generator("x")), CaseCheck(code, case, seeds), 0.0, blocks_us=[walls_us] * 3)
    record = Record(problem, CPU, Job(submission=None, attempt=1, mode=Mode.RANKED, file_name="a.py", seed=bytes(32), source=b""))
    record.add(played, Timed(null_us=[null_us[:5], null_us[5:]], baseline_us=[baseline_us] * 3))
    return record.cases[0], record.verdict()


@pytest.mark.parametrize("null_us", [QUIET + BUSY, BUSY + QUIET, BUSY[:3] + QUIET[:1] + BUSY[3:]], ids=["after", "before", "mostly"])
def test_null_calls_on_a_busy_machine_make_no_entry_quicker(null_us: list[float]) -> None:
    quiet, _ = judged([500.0] * 10, QUIET + QUIET, [700.0] * 10)
    busy, _ = judged([500.0] * 10, null_us, [700.0] * 10)

    assert (busy.time_us, busy.baseline_us) == (quiet.time_us, quiet.baseline_us) == (470.0, 670.0)


def test_an_entry_quicker_than_a_null_call_gains_no_more_than_the_clock_can_tell() -> None:
    case, verdict = judged([3.0] * 10, QUIET + QUIET, [40.0] * 10)

    assert case.time_us == case.baseline_us == kinds.CPU.least_us
    assert (verdict.score_us, verdict.speedup) == (pytest.approx(kinds.CPU.least_us), pytest.approx(1.0))
