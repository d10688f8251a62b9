"""The order of a duel: whose turn it is, what is taken off a time, and what happens when an entry cannot be launched ahead."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernelderby.core.devices import device
from kernelderby.core.duel import PLANS
from kernelderby.core.verdict import Outcome
from kernelderby.judge.referee import duelling
from kernelderby.judge.referee.duelling import Ground, play_duel
from kernelderby.judge.referee.findings import NotArmable, ended
from kernelderby.judge.referee.kinds import kind_of
from kernelderby.judge.referee.link import Challenge, Link

PLAN = PLANS["gpu"]
NULL_US = {True: 10.0, False: 30.0}


class Field:
    """A ground whose entries take what their source says: `us`, `waits` (cannot be armed), `fails` (in its second box)."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.opened: list[tuple[str, bool]] = []
        self.closed = 0
        self.seeds: list[bytes] = []
        self.ground = cast(Ground, SimpleNamespace(
            problem=SimpleNamespace(name="p", version="v", spec=SimpleNamespace(limits=None)), device=device("h200"),
            code=SimpleNamespace(kind=kind_of(device("h200"))), cases=[SimpleNamespace(name="one")], layouts=[None], arena_bytes=1,
            house=SimpleNamespace(null_block=lambda link, bound, data, calls, lead_in, armed: [NULL_US[armed]] * 3,
                                  quiet_us=lambda layout: 1.0),
            box_offset_us=lambda entry, link: entry.offset_us))

    def entry(self, link: Link, job: Any, code: Any, seeds: Any, spent: Any, *, may_arm: bool) -> "Entry":
        self.opened.append((job.name, may_arm))
        self.seeds.append(seeds._seed)
        return Entry(self, job, may_arm, sum(name == job.name for name, _ in self.opened))


class Entry:
    def __init__(self, field: Field, job: Any, may_arm: bool, box: int) -> None:
        self.field, self.job, self.may_arm, self.box = field, job, may_arm, box
        self.offset_us = 0.5 * (box % 2)

    def share(self, arena_bytes: int) -> None:
        assert arena_bytes == 1

    def load(self) -> None:
        if "fails" in self.job.says and self.box == 2:
            raise ended(Outcome.RUNTIME_ERROR, "It broke.")

    def bind(self, case: Any, layout: Any) -> Any:
        if "waits" in self.job.says and self.may_arm:
            raise NotArmable
        return SimpleNamespace(warm=SimpleNamespace(data={}), is_armed=self.may_arm, lead_in=5, blocks_us=[])

    def expect_preparation(self, quiet_us: float) -> None:
        assert quiet_us == 1.0

    def play_block(self, played: Any, calls: int) -> None:
        self.field.steps.append(self.job.name)
        wall_us = self.job.us + NULL_US[self.may_arm] + (self.offset_us if self.may_arm else 0.0)
        played.blocks_us.append([wall_us] * calls)

    def close(self) -> None:
        self.field.closed += 1


@pytest.fixture
def field(monkeypatch: pytest.MonkeyPatch) -> Field:
    field = Field()
    monkeypatch.setattr(duelling, "Entry", field.entry)
    monkeypatch.setattr(duelling, "binding", lambda *_: None)
    monkeypatch.setattr(duelling, "with_limit", lambda finding, limits: finding)
    return field


def play(field: Field, a: str = "", b: str = "") -> Any:
    jobs = [cast(Any, SimpleNamespace(name=name, us=us, says=says, seed=bytes(32)))
            for name, us, says in (("a", 100.0, a), ("b", 101.0, b))]
    link = cast(Link, SimpleNamespace(event=lambda kind, data: None))
    return play_duel(field.ground, Challenge(first=jobs[0], second=jobs[1]), link)


def test_turns_favour_neither_within_a_box_nor_over_boxes(field: Field) -> None:
    play(field)

    boxes = ["".join(field.steps[i : i + 2 * PLAN.pairs]) for i in range(0, len(field.steps), 2 * PLAN.pairs)]
    assert boxes == ["abba", "baab"] * (PLAN.boxes // 2)
    assert field.closed == len(field.opened) == 2 * PLAN.boxes


def test_both_see_the_same_inputs_and_every_box_other_ones(field: Field) -> None:
    play(field)

    assert field.seeds[::2] == field.seeds[1::2]
    assert len(set(field.seeds)) == PLAN.boxes


@pytest.mark.parametrize("waits", ["", "a", "b", "ab"])
def test_null_and_box_offset_are_taken_off_whoever_is_armed(field: Field, waits: str) -> None:
    duel = play(field, "waits" if "a" in waits else "", "waits" if "b" in waits else "")

    assert {us for block in duel.cases[0].a_us for us in block} == {100.0}
    assert {us for block in duel.cases[0].b_us for us in block} == {101.0}
    assert duel.ratio == pytest.approx(100 / 101) and duel.faster == "a"


def test_an_entry_that_waits_is_moved_once_and_plays_all_its_boxes_unarmed(field: Field) -> None:
    play(field, b="waits")

    assert field.opened[:4] == [("a", True), ("b", True), ("a", True), ("b", False)]
    assert all(armed == (name == "a") for name, armed in field.opened[2:])
    assert field.closed == len(field.opened) == 2 * PLAN.boxes + 2


@pytest.mark.parametrize("side", ["a", "b"])
def test_an_entry_that_falls_is_named_and_every_box_given_back(field: Field, side: str) -> None:
    duel = play(field, **{side: "fails"})

    assert (duel.fallen.entry, duel.fallen.message, duel.cases, duel.ratio) == (side, "It broke.", [], None)
    assert field.closed == len(field.opened)


def test_a_cancellation_in_the_houses_calls_makes_it_void(field: Field) -> None:
    def cancelled(*_: Any, **__: Any) -> list[float]:
        raise ended(Outcome.CANCELLED, "The run was cancelled.")
    cast(Any, field.ground).house.null_block = cancelled

    assert play(field).void == "The run was cancelled."
    assert field.closed == len(field.opened)
