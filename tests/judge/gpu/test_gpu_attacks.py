"""No timing attack of the gallery pays: it is refused, or gains no more over its honest twin than the bound."""

from collections.abc import Callable
from functools import cache

import pytest

from benchmarks.gpu.gallery import GALLERY, Attack
from kernelderby.core.problem_folder import Problem
from kernelderby.core.verdict import Gate, Mode, Outcome, Verdict
from kernelderby.judge.acceptance.trials import allowed_us
from kernelderby.judge.judging import Judge
from tests.judge.gpu.addition import addition, judged

pytestmark = pytest.mark.gpu

Judging = Callable[[str, int, Mode], Verdict]


@pytest.fixture(scope="session")
def judging(judge: Judge, gpu: str, tmp_path_factory: pytest.TempPathFactory) -> Judging:
    """The verdict on a source, for so many elements; the same one is judged once."""
    @cache
    def problem(n: int) -> Problem:
        return addition(tmp_path_factory.mktemp("problems"), n)

    @cache
    def verdict(source: str, n: int, mode: Mode) -> Verdict:
        return judged(judge, problem(n), gpu, source, mode)

    return verdict


@pytest.mark.parametrize("attack", [a for a in GALLERY if not a.against_baseline], ids=lambda attack: attack.name)
def test_an_attack_is_refused_or_gains_no_more_than_the_bound(attack: Attack, judging: Judging) -> None:
    honest, got = (judging(source, attack.n, Mode.BENCHMARK) for source in (attack.honest, attack.source))
    assert honest.score_us is not None, honest.message

    if got.accepted:
        assert got.score_us is not None and got.score_us >= honest.score_us - allowed_us(honest.score_us)
    else:
        assert got.outcome is not Outcome.REFUSED or got.gate is Gate.HONEST_TIME


@pytest.mark.parametrize("attack", [a for a in GALLERY if a.against_baseline], ids=lambda attack: attack.name)
def test_an_attack_on_the_baseline_is_refused_or_slows_it_no_more_than_the_bound(attack: Attack, judging: Judging) -> None:
    honest, got = (judging(source, attack.n, Mode.RANKED) for source in (attack.honest, attack.source))
    usual_us = honest.cases[0].baseline_us
    assert usual_us is not None, honest.message

    slowed_us = got.cases[0].baseline_us
    assert not got.accepted or (slowed_us is not None and slowed_us <= usual_us + allowed_us(usual_us))
