"""Blocks that do not count are played again, by a real referee and real boxes, on a device whose gauge says what a test wants."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.devices import CPU
from kernelderby.core.problem_folder import load_problem
from kernelderby.core.verdict import Mode, Outcome, Verdict
from kernelderby.judge.referee import kinds, playing
from kernelderby.judge.referee.link import Job
from kernelderby.judge.referee.steadiness import Reading
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.pool import Pool
from tests.judge.hostile import HONEST
from tests.judge.referee.lender import Lender

pytestmark = pytest.mark.slow

TINY = Path(__file__).parent.parent / "tiny/problems/warmup/double"
COOL, HOT = Reading(sm_clock_mhz=1980, reasons=()), Reading(sm_clock_mhz=1980, reasons=("hw_thermal_slowdown",))


class Listener(Lender):
    """Keeps what it is told of the first case's blocks."""

    def __init__(self, pool: Pool) -> None:
        super().__init__(pool)
        self.steps: list[Mapping[str, Any]] = []
        self.ended, self.stuck = set(), False

    def event(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "time" and data["case"] == "wide":
            self.steps.append(data)


class Scripted:
    """Two readings a block; cool once the script is over."""

    def __init__(self, *blocks: Reading) -> None:
        self._readings: Iterator[Reading] = chain.from_iterable((COOL, after) for after in chain(blocks, repeat(COOL)))

    def read(self) -> Reading:
        return next(self._readings)


def judged(monkeypatch: pytest.MonkeyPatch, *blocks: Reading) -> tuple[Verdict, Listener]:
    """A verdict, when the gauge said so after the first blocks of the first case."""
    gauge = Scripted(*blocks)
    monkeypatch.setattr(playing, "kind_of", lambda device: replace(kinds.CPU, gauge=lambda: gauge))
    problem, pool = load_problem(TINY), Pool(Bubblewrap(), CPU.name, 2)
    link = Listener(pool)
    job = Job(submission=None, attempt=1, mode=Mode.BENCHMARK, file_name="kernel.py", seed=bytes(32), source=HONEST.encode())
    try:
        return playing.Referee(problem, CPU).judge(job, link), link
    finally:
        pool.close()
        for box in link.lent.values():
            box.end()


@pytest.mark.parametrize(("blocks", "played"), [((), 3), ((COOL, HOT), 4), ((HOT, HOT, HOT, HOT), 5)],
                         ids=["steady", "one hot", "hot all along"])
def test_a_block_on_a_hot_device_is_played_again_and_at_most_twice(blocks: tuple[Reading, ...], played: int,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, link = judged(monkeypatch, *blocks)

    assert [step["block"] for step in link.steps] == list(range(1, played + 1))
    if blocks.count(HOT) > 2:
        assert (verdict.outcome, verdict.cases[0].outcome) == (Outcome.UNSTABLE, Outcome.UNSTABLE)
        assert "4 of 5 blocks do not count" in (verdict.message or "")
    else:      # on a busy machine a hot block may also have been the slower one
        assert verdict.outcome is Outcome.ACCEPTED or "a block was slower" in (verdict.message or "")
    assert len(verdict.receipt["blocks_us"]["wide"]) == played - blocks.count(HOT)
