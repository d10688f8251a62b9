"""An entry that waits for the GPU while it is launched: played again from the start of the case, unarmed, in a fresh box, once a run."""

from typing import cast

import pytest

from kernelderby.core.errors import BoxStuck
from kernelderby.judge.referee.entry import Entry
from kernelderby.judge.referee.findings import NotArmable
from kernelderby.judge.referee.seat import Seat


class FakeEntry:
    """What a seat needs of an entry."""

    def __init__(self, steps: list[str], may_arm: bool, is_gone: bool) -> None:
        self.steps, self.may_arm = steps, may_arm
        self.box = self
        self.is_gone = is_gone      # once it was closed
        steps.append("box" if may_arm else "unarmed box")

    def share(self, arena_bytes: int) -> None:
        self.steps.append(f"share {arena_bytes}")

    def load(self) -> None:
        self.steps.append("load")

    def close(self) -> None:
        self.steps.append("close")


def seated(steps: list[str], is_gone: bool = True) -> Seat:
    return Seat(lambda may_arm: cast(Entry, FakeEntry(steps, may_arm, is_gone)), 64)


def waits(entry: Entry) -> None:
    raise NotArmable


def test_the_case_starts_again_in_a_fresh_box_and_every_later_one_stays_there() -> None:
    steps: list[str] = []
    seat = seated(steps)

    def part(entry: Entry) -> str:
        steps.append("play")
        if cast(FakeEntry, entry).may_arm:
            raise NotArmable
        return "played"

    assert [seat.play(part), seat.play(part)] == ["played", "played"]
    assert steps == ["box", "play", "close", "unarmed box", "share 64", "load", "play", "play"]


def test_it_happens_once_at_most() -> None:
    with pytest.raises(NotArmable):
        seated([]).play(waits)


def test_nothing_starts_beside_a_box_that_cannot_be_ended() -> None:
    steps: list[str] = []

    with pytest.raises(BoxStuck):
        seated(steps, is_gone=False).play(waits)

    assert steps == ["box", "close"]
