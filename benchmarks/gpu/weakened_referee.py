"""A referee with one defence missing, to show what an attack gains there: `weakened_referee.py DEFENCE FD FOLDER DEVICE`.

Each defence is taken out of the referee as it is, by name; one that is not found there any more ends the program with AttributeError.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from kernelderby.judge.box.cuda import driver
from kernelderby.judge.referee import __main__ as referee
from kernelderby.judge.referee.cuda.arena import CudaArena
from kernelderby.judge.referee.cuda.clock import CudaRig
from kernelderby.judge.referee.entry import Entry
from kernelderby.judge.referee.house import House

GAPS, GAP_S = 2, 0.0025      # each longer than another context's turn on the GPU


def without_looks() -> None:
    """The done word is believed."""
    true_last = _part(CudaArena, "last_poison_us")
    _replace(CudaArena, "changed_since_probe", lambda self: False)
    _replace(CudaArena, "last_poison_us", lambda self, since: 0.0 * true_last(self, since))


def without_late_binding() -> None:
    """Inputs are shown before the entry launches its work, long before the start word."""
    true_settle = _part(CudaArena, "settle")
    is_showing: list[bool] = []

    def settle(self: CudaArena, *arguments: Any, **options: Any) -> None:
        true_settle(self, *arguments, **options)
        if not is_showing:
            is_showing.append(True)
            self.write(*arguments, **options)
            is_showing.pop()

    _part(CudaArena, "write")
    _replace(CudaArena, "settle", settle)


def without_one_graph() -> None:
    """Between a call's inputs and its start word the GPU is free for a while, as between launches that a busy host makes.

    How long such a preparation takes says nothing, so none is found to have been disturbed.
    """
    true_prepare, true_note = _part(CudaArena, "prepare"), _part(CudaRig, "_note_preparation")
    words: list[torch.Tensor] = []

    def prepare(self: CudaArena, *arguments: Any, **options: Any) -> None:
        if not words:
            words.append(torch.zeros(8, dtype=torch.int64).pin_memory())
        true_prepare(self, *arguments, **options)
        torch.cuda.default_stream().synchronize()      # of this stream alone: looks wait for the start word in theirs
        for number in range(GAPS):
            driver.write_word(driver.LEGACY, words[0].data_ptr(), number)      # after such a write the GPU looks whose wait is over
            time.sleep(GAP_S)

    def note_preparation(self: CudaRig) -> None:
        true_note(self)
        self.is_void = False

    _replace(CudaArena, "prepare", prepare)
    _replace(CudaRig, "_note_preparation", note_preparation)


def without_twin() -> None:
    """The null calls are played by the contestant's own box, with the contestant's code in it."""
    rigs: list[Any] = []
    bound: list[Any] = []
    true_load, true_close, true_bind = _part(Entry, "load"), _part(Entry, "close"), _part(CudaRig, "bind")
    _part(Entry, "_rig", is_an_instances=True)

    def load(self: Entry, *arguments: Any, **options: Any) -> None:
        true_load(self, *arguments, **options)
        rigs[:] = [self._rig]

    def close(self: Entry) -> None:
        rigs.clear()
        bound.clear()
        true_close(self)

    def bind(self: CudaRig, *arguments: Any, **options: Any) -> None:
        if rigs and self is rigs[0] and not options.get("null"):
            bound[:] = [arguments, options]
        true_bind(self, *arguments, **options)

    def null_block(self: House, link: Any, case: Any, data: Any, calls: int, lead_in: int, **options: Any) -> list[float]:
        if not bound:
            return true_null_block(self, link, case, data, calls, lead_in, **options)
        rig, (arguments, kept) = rigs[0], bound
        rig.bind(*arguments, null=True, **kept)
        rig.arm(calls)
        walls = [rig.call(data) for _ in range(calls)]
        rig.stop()
        rig.bind(*arguments, **kept)
        return walls

    true_null_block: Callable[..., list[float]] = _part(House, "null_block")
    _replace(Entry, "load", load)
    _replace(Entry, "close", close)
    _replace(CudaRig, "bind", bind)
    _replace(House, "null_block", null_block)


DEFENCES: dict[str, Callable[[], None]] = {
    "looks": without_looks, "late_binding": without_late_binding, "one_graph": without_one_graph, "twin": without_twin,
}


def _part(owner: type, name: str, *, is_an_instances: bool = False) -> Any:
    """What the referee calls by this name. Raises AttributeError when it is gone: then the defence must be looked for anew."""
    if is_an_instances:
        if name not in owner.__init__.__code__.co_names:      # type: ignore[misc]
            raise AttributeError(f"{owner.__name__} sets no {name} any more")
        return None
    return getattr(owner, name)


def _replace(owner: type, name: str, other: Any) -> None:
    _part(owner, name)
    setattr(owner, name, other)


if __name__ == "__main__":
    DEFENCES[sys.argv[1]]()
    referee.main(sys.argv[2:])
