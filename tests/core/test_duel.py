"""What a duel can tell: how often its interval is right, and what makes it void."""

import math
import random
from collections.abc import Callable

import pytest

from kernelderby.core.duel import PLANS, Duel, DuelCase, Fallen, held_to_solo, with_result
from kernelderby.core.scoring import paired
from kernelderby.core.verdict import Outcome

PLAN = PLANS["gpu"]
DUELS = 400
TIME_US = 100.0
BOX = 0.005            # a box's own offset is at most so large a share
CALL = 0.006           # the standard deviation of a call
DRIFTS = {"each block on its own": (0.003, 0.0), "from block to block": (0.0, 0.003), "both": (0.002, 0.002)}


def played(generator: random.Random, gap: float, drift: tuple[float, float]) -> Duel:
    """A duel of an entry that is slower by the share `gap` with another, on a machine that drifts."""
    alone, walk = drift
    level, blocks = 0.0, {"a": list[list[float]](), "b": list[list[float]]()}
    for _ in range(PLAN.boxes):
        own = {"a": generator.uniform(-BOX, BOX) + gap, "b": generator.uniform(-BOX, BOX)}
        for pair in range(PLAN.pairs):
            for side in ("ab", "ba")[pair % 2]:
                level += generator.gauss(0, walk)
                middle = level + own[side] + generator.gauss(0, alone)
                blocks[side].append([TIME_US * math.exp(middle + generator.gauss(0, CALL)) for _ in range(PLAN.calls)])
    return duel_of(blocks["a"], blocks["b"])


def duel_of(a_us: list[list[float]], b_us: list[list[float]], pairs: int = PLAN.pairs) -> Duel:
    return with_result(Duel(problem="p", version="v", device="h200", cases=[DuelCase(name="one", a_us=a_us, b_us=b_us)], pairs=pairs))


def share(gap: float, drift: tuple[float, float], holds: Callable[[Duel], bool]) -> float:
    generator = random.Random(f"{gap} {drift}")
    return sum(holds(played(generator, gap, drift)) for _ in range(DUELS)) / DUELS


@pytest.mark.parametrize("drift", DRIFTS.values(), ids=DRIFTS)
def test_an_entry_against_itself_shows_no_difference(drift: tuple[float, float]) -> None:
    assert share(0.0, drift, lambda duel: duel.faster is None) >= 0.93     # 95 %, less what 400 duels leave open


@pytest.mark.parametrize("drift", DRIFTS.values(), ids=DRIFTS)
def test_one_per_cent_shows_with_the_right_sign(drift: tuple[float, float]) -> None:
    assert share(0.01, drift, lambda duel: duel.faster == "b") >= 0.975    # so that 38 of 40 are as good as certain


def test_the_ratio_is_the_one_score_over_the_other() -> None:
    found = paired([([[2.0], [2.0]], [[1.0], [1.0]]), ([[8.0], [8.0]], [[1.0], [1.0]])], 1)

    assert found.ratio == pytest.approx(4.0)
    assert found.low <= found.ratio <= found.high


def test_swapping_the_entries_inverts_the_ratio() -> None:
    duel = played(random.Random(3), 0.01, (0.003, 0.0))
    case = duel.cases[0]
    other = duel_of(case.b_us, case.a_us)

    assert duel.ratio and duel.ratio_ci and other.ratio and other.ratio_ci
    assert other.ratio == pytest.approx(1 / duel.ratio)
    assert other.ratio_ci == pytest.approx((1 / duel.ratio_ci[1], 1 / duel.ratio_ci[0]))


def test_a_drift_as_straight_as_a_line_leaves_no_trace() -> None:
    line = [[100.0 * math.exp(0.001 * i)] for i in range(8)]     # in the order of play: a b b a, a b b a
    duel = duel_of([line[i] for i in (0, 3, 4, 7)], [line[i] for i in (1, 2, 5, 6)])

    assert duel.ratio == pytest.approx(1.0)


def test_one_box_of_each_compares_nothing() -> None:
    with pytest.raises(ValueError, match="two boxes"):
        paired([([[1.0], [1.0]], [[1.0], [1.0]])], 2)


@pytest.mark.parametrize(("device", "us", "left_out", "is_decided"), [
    ("h200", {"long": 90.0, "short": 12.0}, ["short"], True), ("h200", {"a": 49.0, "b": 12.0}, ["a", "b"], False),
    ("h200", {"a": 51.0, "b": 50.0}, [], True), ("cpu", {"a": 12.0, "b": 49.0}, [], True),
])
def test_a_case_as_short_as_a_launch_decides_nothing_on_a_gpu(
    device: str, us: dict[str, float], left_out: list[str], is_decided: bool
) -> None:
    cases = [DuelCase(name=name, a_us=times(t), b_us=times(t * 1.1)) for name, t in us.items()]

    duel = with_result(Duel(problem="p", version="v", device=device, cases=cases, pairs=PLAN.pairs))

    assert (duel.launch_bound, duel.is_decided) == (left_out, is_decided)
    assert duel.faster == ("a" if is_decided else None)
    assert duel.ratio == (pytest.approx(1 / 1.1, rel=1e-3) if is_decided else None)


def times(us: float) -> list[list[float]]:
    return [[us + i / 100] for i in range(4)]


SOLO = {   # a's and b's times in the duel (100 alone), and whether the duel is void
    "as alone": (100, 100, False), "both slower": (103, 103, False), "the slower one slowed": (103, 100, True),
    "the other one slowed": (100, 103, True), "hardly": (100.8, 100, False), "both faster": (95, 97, False),
}


@pytest.mark.parametrize("what", SOLO)
def test_a_duel_is_void_where_the_loser_was_slowed_by_its_rival(what: str) -> None:
    a, b, is_void = SOLO[what]

    duel = held_to_solo(duel_of(times(a), times(b)), {"one": 100.0}, {"one": 100.0})

    assert (duel.void is not None, duel.is_decided) == (is_void, not is_void)
    assert duel.faster is None or not is_void


def test_the_winner_may_be_slower_than_alone() -> None:
    duel = held_to_solo(duel_of(times(103), times(200)), {"one": 100.0}, {"one": 200.0})

    assert (duel.faster, duel.void) == ("a", None)


def test_a_duel_that_ended_early_is_not_decided() -> None:
    duel = Duel(problem="p", version="v", device="cpu", fallen=Fallen(entry="b", outcome=Outcome.WRONG_VALUES, message="No."))

    assert not duel.is_decided
    assert held_to_solo(duel, {"one": 1.0}, {"one": 1.0}) is duel
    assert Duel.model_validate(duel.model_dump(mode="json")) == duel
