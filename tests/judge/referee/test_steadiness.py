"""Which blocks count: a GPU whose clock was held down, or was another than in the case's other blocks, says nothing of a kernel."""

import pytest

from kernelderby.judge.referee.steadiness import MOST_REPEATS, Gauged, Reading, is_repeat_suspect, numbers, outside, undisturbed

QUIET: tuple[str, ...] = ()


def block(mhz: int | None, *reasons: str, before: tuple[str, ...] = QUIET) -> Gauged:
    return Gauged(before=Reading(sm_clock_mhz=345, reasons=before), after=Reading(sm_clock_mhz=mhz, reasons=reasons))


CASES = {
    "steady": ([block(1980)] * 4, []),
    "a few steps apart": ([block(1980), block(1935), block(1965), block(1950)], []),
    "one slow": ([block(1980), block(1980), block(1500), block(1980)], [2]),
    "one fast": ([block(1500), block(1500), block(1980), block(1500)], [2]),
    "capped by power alone": ([block(1700, "sw_power_cap")] * 4, []),
    "hot": ([block(1980), block(1980, "sw_thermal_slowdown"), block(1980), block(1980)], [1]),
    "hot before it began": ([block(1980, before=("hw_thermal_slowdown",)), block(1980)], [0]),
    "power brake": ([block(1980, "hw_power_brake_slowdown")] * 3, [0, 1, 2]),
    "asleep before it began": ([block(1980, before=("idle",))] * 3, []),
    "nothing told": ([Gauged(before=Reading(), after=Reading())] * 3, []),
    "told once": ([block(None), block(1980), block(None)], []),
    "no block": ([], []),
}


@pytest.mark.parametrize("name", CASES)
def test_which_blocks_lie_outside_the_band(name: str) -> None:
    blocks, void = CASES[name]

    assert outside(blocks) == void


@pytest.mark.parametrize(("baseline_us", "void"), [
    ([], []),
    ([940.5, 949.0, 941.8, 941.9], []),            # as on a card under load
    ([940.5, 955.0, 941.8, 941.9], [1]),
    ([940.5, 925.0, 941.8, 941.9], [1]),
    ([24.1, 25.3, 24.2, 24.1], []),                # within what the clock itself differs by
    ([24.1, 25.9, 24.2, 24.1], [1]),
])
def test_a_block_beside_which_the_baseline_took_another_time_does_not_count(baseline_us: list[float], void: list[int]) -> None:
    assert outside([block(1980)] * 4, baseline_us) == void


def test_a_drift_of_the_baseline_is_repeated_as_well() -> None:
    blocks, baseline_us = list[Gauged](), list[float]()
    for number in numbers(4, blocks, baseline_us):
        blocks.append(block(1980))
        baseline_us.append(150.0 if number == 1 else 100.0)

    assert len(blocks) == 5


def test_what_slowed_baseline_and_entry_alike_is_no_gain_by_a_repeat() -> None:
    own, baseline = [100.0, 103.0, 100.0, 100.0], [200.0, 206.0, 200.0, 200.0]

    assert undisturbed(own, baseline) == pytest.approx([100.0] * 4)
    assert undisturbed(own, []) == own


@pytest.mark.parametrize(("clocks", "played"), [
    ([1980] * 9, 4),
    ([1980, 1200] + [1980] * 7, 5),                            # one repeat does
    ([1980, 1200, 1980, 1980, 1200, 1980], 6),                 # the repeat is void as well: a second one
    ([1980, 1200, 1980, 1200, 1980, 1200, 1980], 6),           # and no third
], ids=["none void", "one void", "a void repeat", "too many"])
def test_a_void_block_is_repeated_at_most_twice(clocks: list[int], played: int) -> None:
    blocks: list[Gauged] = []
    for number in numbers(4, blocks):
        assert number == len(blocks)
        blocks.append(block(clocks[number]))

    assert len(blocks) == played <= 4 + MOST_REPEATS


@pytest.mark.parametrize(("void", "kept", "suspect"), [
    ([], [100.0, 101.0], False),
    ([100.4], [100.0, 100.2], False),
    ([102.0], [100.0, 100.2], True),       # the repeat paid
    ([95.0], [100.0, 100.2], False),       # it did not
    ([102.0], [], False),                  # nothing was kept: that is seen elsewhere
])
def test_a_repeat_that_pays_is_suspect(void: list[float], kept: list[float], suspect: bool) -> None:
    assert is_repeat_suspect(void, kept, 0.005) is suspect
