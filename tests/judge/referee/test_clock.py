"""A call's clock starts before the box can know of the call, and its inputs are new."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from kernelderby.core.problem import ProblemFile
from kernelderby.judge.box.pages import CALL, Page
from kernelderby.judge.referee.arena import lay_out
from kernelderby.judge.referee.boxes import LentBox
from kernelderby.judge.referee.clock import Bound, Rig, binding


class Eager:
    """A box that answers a call at the very moment it may run: it would see at once when it ran before the word was there."""

    def __init__(self, is_gone: bool = True) -> None:
        self.seen: list[int] = []
        self.is_gone = is_gone      # once it was closed

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
    rig.bind(Bound(layout, ("x",), ("x",)), data, {}, ["x"], 10.0)
    rig.arm(2)

    for _ in range(2):
        rig.call(data)

    assert box.seen == [1, 2]
    rig.close()


@pytest.mark.parametrize("is_gone", [True, False])
def test_shared_memory_is_freed_only_when_nothing_is_left_that_could_write_there(is_gone: bool) -> None:
    rig = Rig(cast(LentBox, Eager(is_gone)), 4096)
    fd = rig.arena.fd

    rig.close()

    assert Path(f"/proc/self/fd/{fd}").exists() is not is_gone
    if not is_gone:
        rig.arena.close()


@pytest.mark.parametrize("bind", ["reveal", "block"])
def test_every_input_is_written_before_every_call_but_those_of_the_plan(bind: str) -> None:
    spec = ProblemFile.model_validate({
        "name": "made", "title": "Made", "family": "warmup", "baseline": "baseline.py", "licence": "Apache-2.0", "plan": ["table"],
        "axes": {"n": {"var": True}}, "cases": {"cpu": [{"name": "one", "axes": {"n": 4}}]},
        "inputs": {"x": {"shape": ["n"], "bind": bind}, "table": {"shape": ["n"], "dtype": "int32"}},
        "outputs": {"y": {"shape": ["n"], "budget": {"max_abs": 1.0}}}})
    layout = lay_out([("x", (4,), "bfloat16"), ("table", (4,), "int32")], [("y", (4,), "bfloat16")])

    assert binding(spec, layout).per_call == ("x",)
