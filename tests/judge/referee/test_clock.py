"""A call's clock starts before the box can know of the call."""

import os
from collections.abc import Sequence
from typing import Any, cast

import torch

from kernelderby.judge.box.pages import CALL, Page
from kernelderby.judge.referee.arena import lay_out
from kernelderby.judge.referee.boxes import LentBox
from kernelderby.judge.referee.clock import Bound, Rig


class Eager:
    """A box that answers a call at the very moment it may run: it would see at once when it ran before the word was there."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def ask(self, op: str, timeout_s: float, fds: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
        if op == "arena":
            _, go, done = map(os.dup, fds)
            self._go, self._done = Page(go, writable=False), Page(done, writable=True)
            os.close(go)
            os.close(done)
        return {}

    def thaw(self) -> None:
        self.seen.append(self._go.read(CALL))
        self._done.write(CALL, self._go.read(CALL))

    def freeze(self) -> None: ...

    def look(self) -> None: ...

    def close(self) -> None: ...


def test_a_box_that_spins_on_the_word_starts_no_earlier_than_one_that_sleeps_on_it() -> None:
    box, layout = Eager(), lay_out([("x", (4,), "float32")], [("y", (4,), "float32")])
    rig = Rig(cast(LentBox, box), layout.extent)
    data = {"x": torch.zeros(4)}
    rig.bind(Bound(layout, (), ("x",), ("x",)), data, {}, ["x"], 10.0)
    rig.arm(2)

    for _ in range(2):
        rig.call(data)

    assert box.seen == [1, 2]
    rig.close()
