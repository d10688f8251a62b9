"""Two entries against each other in one sitting: how much is played, and what it shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kernelderby.core.devices import device
from kernelderby.core.scoring import LAUNCH_BOUND_US, geomean, median_of, paired
from kernelderby.core.verdict import Gate, Outcome

SOLO_SHARE = 0.01     # an entry that a duel makes slower than that beside its own judging was disturbed by its rival

Side = Literal["a", "b"]


@dataclass(frozen=True, kw_only=True)
class DuelPlan:
    """How much a duel plays of each case."""

    boxes: int      # of each entry, one after the other: a box's own offset is the same in all its blocks
    pairs: int      # of neighbouring blocks that two boxes play, in the order a b, b a, …
    calls: int      # at most, a block


# By kind of class. On a GPU the least that tells entries 1 % apart in 99 of 100 duels where boxes differ by ±0.5 % and blocks by
# 0.3 %: tests/core/test_duel.py. On a CPU a duel is for practice.
PLANS: Mapping[str, DuelPlan] = {"gpu": DuelPlan(boxes=8, pairs=2, calls=15), "cpu": DuelPlan(boxes=4, pairs=2, calls=5)}


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="forbid")


class DuelCase(_Wire):
    """One case: µs of each call of each block, in the order of play; a null call's time was taken off. Block i of a and of b are a pair."""

    name: str
    a_us: list[list[float]]
    b_us: list[list[float]]


class Fallen(_Wire):
    """The entry that did something wrong, which ended the duel."""

    entry: Side
    outcome: Outcome
    gate: Gate | None = None
    message: str


class Duel(_Wire):
    """What a duel showed. `ratio` is a's score over b's, over the cases that count: below 1, a is faster."""

    problem: str
    version: str
    device: str
    cases: list[DuelCase] = Field(default_factory=list)
    pairs: int = 1                                     # so many neighbouring blocks of an entry were played in one box
    ratio: float | None = None
    ratio_ci: tuple[float, float] | None = None        # 95 %, over boxes
    faster: Side | None = None                         # by the interval alone; a crown takes a least gap too. None: no difference shown
    launch_bound: list[str] = Field(default_factory=list)      # cases that were left out: too short for an uncertain start not to matter
    void: str | None = None                            # why it says nothing
    fallen: Fallen | None = None
    environment: dict[str, Any] = Field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_decided(self) -> bool:
        """Whether both entries played to the end, undisturbed, a case that counts: then no difference is an answer too."""
        return self.void is None and self.fallen is None and self.ratio is not None


def with_result(duel: Duel) -> Duel:
    """The duel with what its blocks show. Raises ValueError for fewer than two boxes of each entry.

    On a GPU a case that either entry ends within LAUNCH_BOUND_US is left out; where none is left, the duel has no ratio.
    """
    short = [case.name for case in duel.cases if device(duel.device).arch and _shortest_us(case) < LAUNCH_BOUND_US]
    duel = duel.model_copy(update={"launch_bound": short})
    counted = [(case.a_us, case.b_us) for case in duel.cases if case.name not in short]
    if not counted:
        return duel
    found = paired(counted, duel.pairs)
    faster: Side | None = "a" if found.high < 1 else "b" if found.low > 1 else None
    return duel.model_copy(update={"ratio": found.ratio, "ratio_ci": (found.low, found.high), "faster": faster})


def held_to_solo(duel: Duel, a_us: Mapping[str, float], b_us: Mapping[str, float]) -> Duel:
    """The duel, void where the slower entry was slowed by its rival's presence. `a_us`, `b_us`: each entry's own times by case.

    A machine that is slower today slows both; a rival that meddles slows one. So an entry is held to its own time, and to how much the
    other one differs from its own.
    """
    if not duel.is_decided:
        return duel
    slowed: dict[Side, float] = {"a": _slowed({c.name: c.a_us for c in duel.cases}, a_us),
                                 "b": _slowed({c.name: c.b_us for c in duel.cases}, b_us)}
    sides: tuple[tuple[Side, Side], ...] = (("a", "b"), ("b", "a"))
    for side, rival in sides:
        if min(slowed[side], slowed[side] / slowed[rival]) > 1 + SOLO_SHARE and duel.faster != side:
            void = f"Entry {side} was {slowed[side] - 1:.1%} slower than when it was judged alone, and the other one was not."
            return duel.model_copy(update={"faster": None, "void": void})
    return duel


def _slowed(blocks: Mapping[str, list[list[float]]], solo_us: Mapping[str, float]) -> float:
    """How many times as long its cases took as alone; 1 where nothing is known of them."""
    shares = [median_of(blocks[name]) / us for name, us in solo_us.items() if name in blocks and us > 0]
    return geomean(shares) if shares else 1.0


def _shortest_us(case: DuelCase) -> float:
    return min(median_of(case.a_us), median_of(case.b_us))
