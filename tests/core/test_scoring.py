"""Scores and ranks: what must hold for any times."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelderby.core.scoring import Estimate, Ratio, bootstrap_ci, dueled_ranks, estimate, geomean, rank_intervals

times = st.floats(min_value=0.01, max_value=1e7)
cases = st.lists(st.lists(st.lists(times, min_size=1, max_size=4), min_size=1, max_size=4), min_size=1, max_size=3)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    score = draw(st.floats(min_value=1, max_value=1000))
    return Estimate(score_us=score, low_us=score * draw(st.floats(0.5, 1)), high_us=score * draw(st.floats(1, 2)))


@given(st.lists(times, min_size=1, max_size=20))
def test_a_geometric_mean_lies_between_the_ends_and_scales(values: list[float]) -> None:
    mean = geomean(values)
    assert min(values) * (1 - 1e-9) <= mean <= max(values) * (1 + 1e-9)
    assert geomean([2 * v for v in values]) == pytest.approx(2 * mean)


@pytest.mark.parametrize("values", [[], [0.0], [-1.0], [math.inf], [math.nan]], ids=str)
def test_there_is_no_geometric_mean_of_what_is_no_time(values: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        geomean(values)


@given(cases, st.integers(0, 99))
def test_an_interval_holds_the_score_and_is_the_same_for_the_same_seed(blocks: list[list[list[float]]], seed: int) -> None:
    own = estimate(blocks, seed=seed)
    assert 0 < own.low_us <= own.score_us <= own.high_us
    assert own == estimate(blocks, seed=seed)


@given(st.lists(times, min_size=1, max_size=4))
def test_one_block_has_no_width(calls: list[float]) -> None:
    low, high = bootstrap_ci([[calls]], draws=20)
    assert low == high


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = random.Random(1)
    hits = 0
    for seed in range(200):
        blocks = [[generator.lognormvariate(math.log(100), 0.02)] for _ in range(20)]
        low, high = bootstrap_ci([blocks], seed=seed, draws=200)
        hits += low <= 100 <= high
    assert 170 <= hits <= 200   # 95 % of 200, less what 20 blocks cost


def slow_ranks(entries: list[Estimate], least_gap: float) -> list[tuple[int, int]]:
    """The definition, word for word."""
    def faster(a: Estimate, b: Estimate) -> bool:
        gap = math.log(b.score_us) - math.log(a.score_us)
        half_widths = [(math.log(e.high_us) - math.log(e.low_us)) / 2 for e in (a, b)]
        return gap > max(math.log1p(least_gap), math.hypot(*half_widths))

    return [(1 + sum(faster(b, a) for b in entries), len(entries) - sum(faster(a, b) for b in entries)) for a in entries]


@given(st.lists(estimates(), max_size=25), st.floats(0, 0.2), st.floats(0, 0.2))
def test_ranks_are_as_defined(entries: list[Estimate], min_effect: float, bound: float) -> None:
    assert rank_intervals(entries, min_effect, bound) == slow_ranks(entries, max(min_effect, bound))


@given(st.lists(estimates(), min_size=1, max_size=25))
def test_the_fastest_can_be_first_and_no_interval_is_empty(entries: list[Estimate]) -> None:
    ranks = rank_intervals(entries)
    assert all(1 <= first <= last <= len(entries) for first, last in ranks)
    fastest = min(range(len(entries)), key=lambda i: entries[i].score_us)
    assert ranks[fastest][0] == 1


@pytest.mark.parametrize(("gap", "tie"), [(0.004, True), (0.006, False)])
def test_a_gap_below_the_least_effect_is_a_tie_however_sure(gap: float, tie: bool) -> None:
    entries = [Estimate(score_us=s, low_us=s, high_us=s) for s in (100.0, 100.0 * (1 + gap))]
    assert rank_intervals(entries) == ([(1, 2), (1, 2)] if tie else [(1, 1), (2, 2)])


ratios = st.builds(lambda middle, width: Ratio(ratio=middle, low=middle / width, high=middle * width), st.floats(0.5, 2), st.floats(1, 1.5))


pairs = st.tuples(st.integers(0, 11), st.integers(0, 11))


@given(st.lists(estimates(), min_size=2, max_size=12), st.dictionaries(pairs, ratios, max_size=9))
def test_a_duel_decides_its_pair_and_no_other(entries: list[Estimate], said: dict[tuple[int, int], Ratio]) -> None:
    duels = {(a, b): r for (a, b), r in said.items() if a < b < len(entries)}

    def is_faster(a: int, b: int) -> bool:
        if (a, b) in duels:
            return duels[a, b].high < 1 and -math.log(duels[a, b].ratio) > math.log1p(0.005)
        if (b, a) in duels:
            return duels[b, a].low > 1 and math.log(duels[b, a].ratio) > math.log1p(0.005)
        pair = slow_ranks([entries[a], entries[b]], 0.005)
        return pair == [(1, 1), (2, 2)]

    places = range(len(entries))
    expected = [(1 + sum(is_faster(b, a) for b in places if a != b), len(entries) - sum(is_faster(a, b) for b in places if a != b))
                for a in places]
    assert dueled_ranks(entries, duels) == expected


def test_overlapping_neighbours_do_not_chain_into_one_tier() -> None:
    entries = [Estimate(score_us=s, low_us=s * 0.98, high_us=s * 1.02) for s in (100.0, 102.0, 104.0)]
    assert rank_intervals(entries) == [(1, 2), (1, 3), (2, 3)]
