"""A referee with one defence missing, to show what an attack gains there: `gpu_weakened_referee.py DEFENCE FD FOLDER DEVICE`."""

import math
import sys
from typing import Any

from kernelderby.judge.referee import __main__ as referee
from kernelderby.judge.referee.cuda.arena import CudaArena
from kernelderby.judge.referee.cuda.clock import CudaRig
from kernelderby.judge.referee.entry import Entry
from kernelderby.judge.referee.house import House


def without_looks() -> None:
    """The done word is believed."""
    CudaArena.changed_since_probe = lambda self: False                  # type: ignore[method-assign]
    true_last = CudaArena.last_poison_us
    CudaArena.last_poison_us = lambda self, since: 0.0 * true_last(self, since)     # type: ignore[method-assign]


def without_band() -> None:
    """Nobody looks how long a preparation took."""
    true_note = CudaRig._note_preparation

    def note(self: CudaRig) -> None:
        self.longest_preparation_us = math.inf
        true_note(self)

    CudaRig._note_preparation = note                                    # type: ignore[method-assign]


def with_own_null() -> None:
    """The null calls are played by the contestant's own box."""
    rigs: list[Any] = []
    bound: list[Any] = []
    true_load, true_bind = Entry.load, CudaRig.bind

    def load(self: Entry, arena_bytes: int) -> None:
        true_load(self, arena_bytes)
        rigs[:] = [self._rig]

    def bind(self: CudaRig, *arguments: Any, **options: Any) -> None:
        if rigs and self is rigs[0] and not options.get("null"):
            bound[:] = [arguments, options]
        true_bind(self, *arguments, **options)

    def null_block(self: House, link: Any, case: Any, data: Any, calls: int, lead_in: int, **options: Any) -> list[float]:
        rig, (arguments, kept) = rigs[0], bound
        rig.bind(*arguments, null=True, **kept)
        rig.arm(calls)
        walls = [rig.call(data) for _ in range(calls)]
        rig.stop()
        rig.bind(*arguments, **kept)
        return walls

    Entry.load, CudaRig.bind, House.null_block = load, bind, null_block     # type: ignore[method-assign,assignment]


DEFENCES = {"looks": without_looks, "band": without_band, "twin": with_own_null}

if __name__ == "__main__":
    DEFENCES[sys.argv[1]]()
    referee.main(sys.argv[2:])
