"""Gate `serves`, played with a real box on a processor, where a capture is the call itself: what the referee makes of what it sees."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelderby.core.devices import CPU, device
from kernelderby.core.problem_folder import load_problem
from kernelderby.core.settings import ROOT
from kernelderby.core.verdict import CaseResult, Gate, Mode, Outcome
from kernelderby.judge.referee import serving
from kernelderby.judge.referee.boxes import OUTCOMES
from kernelderby.judge.referee.entry import Spent
from kernelderby.judge.referee.findings import Ended, Finding
from kernelderby.judge.referee.inputs import ProblemCode, Seeds, cases_for
from kernelderby.judge.referee.link import Job, Link
from kernelderby.judge.referee.serving import MIB, OVERHEAD_BYTES, Served, Service, most_varied, play_serving, service_of
from kernelderby.judge.sandbox.pool import Pool
from kernelderby.judge.sandbox.unsandboxed import Unsandboxed
from tests.judge.hostile import HONEST
from tests.judge.referee.lender import Lender

TINY = Path(__file__).parent.parent / "tiny/problems/warmup/double"
KEEPS_A_COPY = """
import torch
kept = {}

def custom_kernel(data):
    w = kept.setdefault(data.w.shape, data.w.clone())
    torch.mul(data.x, data.factor * w, out=data.y)
    torch.sum(data.y, 1, out=data.total)
"""
WRITES_ONCE = KEEPS_A_COPY.replace("    w = ", "    if len(kept) > 0: return\n    w = ")
RAISES = "def custom_kernel(data):\n    raise ValueError('no')\n"


@pytest.fixture
def link() -> Iterator[Lender]:
    lender = Lender(Pool(Unsandboxed(), CPU.name, 0))
    yield lender
    assert not lender.lent, "a box was not given back"


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the device show so much memory taken, beside the arena, once the calls have been played."""
    def set_taken(held: int) -> None:
        shown = iter([4096 * MIB, 4096 * MIB - held])
        monkeypatch.setattr(serving, "_free", lambda: next(shown))
        monkeypatch.setattr(serving.Entry, "shared_bytes", 0)

    return set_taken


def played(link: Link, source: str) -> Served | Finding:
    """What the gate says of a program for `double`."""
    code = ProblemCode(load_problem(TINY))
    case = cases_for(load_problem(TINY), CPU)[0]
    layout = code.layout(case, code.draw(case, Seeds(b"").generator("")).data)
    job = Job(submission=None, attempt=1, mode=Mode.RANKED, file_name="a.py", seed=bytes(32), source=source.encode())
    try:
        return play_serving(link, job, Service(code, case, layout), Spent())
    except Ended as end:
        return end.finding


def test_an_entry_that_reads_its_inputs_anew_passes(link: Lender, takes: Callable[[int], None]) -> None:
    takes(100 * MIB)

    served = played(link, HONEST)

    assert isinstance(served, Served) and served.wall_us > 0
    assert (served.case, served.replays, served.workspace_mb) == ("wide", 4, 100)


STALE = {"a table copied at the first call": KEEPS_A_COPY, "work that stays out": WRITES_ONCE}


@pytest.mark.parametrize("what", STALE)
def test_what_was_settled_before_the_replays_fails_them_with_a_hint(what: str, link: Lender, takes: Callable[[int], None]) -> None:
    takes(0)

    finding = played(link, STALE[what])

    assert isinstance(finding, Finding)
    assert (finding.outcome, finding.gate) == (Outcome.WRONG_VALUES, Gate.SERVES)
    assert finding.message.startswith("Case wide, replayed from a CUDA graph") and "size the grid by shapes alone" in finding.message


def test_an_entry_that_fails_before_it_is_captured_fails_the_gate_with_what_it_raised(link: Lender, takes: Callable[[int], None]) -> None:
    takes(0)

    finding = played(link, RAISES)

    assert isinstance(finding, Finding)
    assert (finding.outcome, finding.gate) == (Outcome.RUNTIME_ERROR, Gate.SERVES)
    assert "Line 2: ValueError: no" in finding.message


@pytest.mark.parametrize(("over", "is_refused"), [(0, False), (MIB, True)])
def test_a_workspace_may_be_as_large_as_declared_and_no_larger(
    over: int, is_refused: bool, link: Lender, takes: Callable[[int], None]
) -> None:
    takes(256 * MIB + OVERHEAD_BYTES + over)

    finding = played(link, HONEST)

    assert isinstance(finding, Finding) is is_refused
    if isinstance(finding, Finding):
        assert (finding.outcome, finding.gate) == (Outcome.REFUSED, Gate.SERVES)
        assert "holds 385 MiB" in finding.message and "256 MiB are allowed" in finding.message


SERVED = Served(case="wide", replays=6, workspace_mb=40, wall_us=340.0)      # 190 µs beside a null call of 150


@pytest.mark.parametrize(("time_us", "is_refused"), [(190.0, False), (400.0, False), (140.0, False), (130.0, True), (40.0, True)])
def test_a_call_that_does_much_more_work_when_captured_than_when_timed_is_refused(time_us: float, is_refused: bool) -> None:
    timed = CaseResult(name="wide", outcome=Outcome.ACCEPTED, time_us=time_us)

    try:
        told = SERVED.held_to(timed, 150.0)
    except Ended as end:
        assert is_refused and end.finding.gate is Gate.SERVES and "takes 190 µs" in end.finding.message
    else:
        assert not is_refused and told == {"case": "wide", "replays": 6, "workspace_mb": 40, "replay_us": 190.0}


def test_a_capture_that_cuda_refuses_is_a_refusal_of_this_gate() -> None:
    assert OUTCOMES["capture"] == (Outcome.REFUSED, Gate.SERVES)


def test_the_case_is_the_one_whose_lengths_and_tables_vary() -> None:
    problem = load_problem(ROOT / "problems/attention/gqa_paged_decode")
    code, cases = ProblemCode(problem), cases_for(problem, CPU)
    same_length = {"lengths": {"fixed": 64}, "shared": 0}
    fixed = type(cases[0])(name="fixed", axes=cases[0].axes, dtype=cases[0].dtype, extra=same_length)

    assert most_varied(code, [fixed, cases[0]]) == 1
    assert most_varied(code, [cases[0], fixed]) == 0


def test_only_a_problem_that_asks_for_the_gate_has_it_and_only_on_a_gpu() -> None:
    asks, does_not = load_problem(ROOT / "problems/attention/gqa_paged_decode"), load_problem(TINY)

    assert service_of(ProblemCode(asks), CPU, [], []) is None
    assert service_of(ProblemCode(does_not), device("h200"), [], []) is None
