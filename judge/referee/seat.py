"""Where an entry sits in a run: its box, and a fresh one when it turns out that its calls cannot be launched ahead."""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from kernelderby.core.errors import BoxStuck
from kernelderby.judge.referee.entry import Entry
from kernelderby.judge.referee.findings import NotArmable

T = TypeVar("T")


class Seat:
    """Owns the entry's present box."""

    def __init__(self, open_entry: Callable[[bool], Entry], arena_bytes: int) -> None:
        """`open_entry` takes a box and is told whether calls may be launched ahead in it."""
        self._open = open_entry
        self._arena_bytes = arena_bytes
        self.entry = open_entry(True)

    def share(self) -> None:
        """Share an arena with the box."""
        self.entry.share(self._arena_bytes)

    def play(self, part: Callable[[Entry], T]) -> T:
        """Play a part of the run: from its start again, unarmed and in a fresh box, when the entry waits for the GPU while it is launched.

        That happens once at most, since from then on nothing is armed. Raises BoxStuck when the first box cannot be ended.
        """
        with suppress(NotArmable):
            return part(self.entry)
        self._move()      # with the exception gone, and the gigabytes of inputs that its frames held
        return part(self.entry)

    def close(self) -> None:
        """Give the box back."""
        self.entry.close()

    def _move(self) -> None:
        self.entry.close()
        if not self.entry.box.is_gone:
            raise BoxStuck
        self.entry = self._open(False)
        self.share()
        self.entry.load()
