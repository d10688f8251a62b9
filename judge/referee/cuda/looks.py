"""Secret looks into the outputs by the copy engine, which needs no turn on the multiprocessors: during a call, and right after it.

A look reads up to 64 words of one output, evenly spread from a fresh secret place on.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelderby.judge.box.cuda import driver

WORDS = 64          # a look reads at most so many, 8 bytes each
MOST_LOOKS = 96     # waiting at once


@dataclass(frozen=True)
class Place:
    """Where a look reads, in 8-byte words from the poisoned span's start."""

    first: int
    pitch: int
    count: int

    def words(self) -> torch.Tensor:
        """The places one by one."""
        return self.first + self.pitch * torch.arange(self.count)


@dataclass(frozen=True)
class Seen:
    """What some looks saw: places, and the words found there."""

    places: torch.Tensor
    words: torch.Tensor


def secret_place(output: slice) -> Place:
    """A fresh place over the words of one output; all of them when there are few."""
    length = output.stop - output.start
    count = min(WORDS, length)
    pitch = length // count
    return Place(output.start + secrets.randbelow(length - pitch * (count - 1)), pitch, count)


class Looks:
    """Looks into one arena."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()
        self._pinned = torch.empty((MOST_LOOKS, WORDS), dtype=torch.int64).pin_memory()
        self._begins = [torch.cuda.Event(enable_timing=True) for _ in range(MOST_LOOKS)]
        self._taken: list[Place] = []

    def aim(self, address: int, outputs: Sequence[slice]) -> None:
        """Look at the span that starts at this device address from now on; empty outputs are left out."""
        self._address = address
        self._outputs = [output for output in outputs if output.stop > output.start]

    def watch(self, word: int, value: int, count: int) -> None:
        """Take `count` looks one after the other as soon as the word at a device address has reached `value`."""
        driver.wait_until(self._stream.cuda_stream, word, value)
        for _ in range(min(count, MOST_LOOKS)):
            self._begins[len(self._taken)].record(self._stream)
            self._take(secrets.choice(self._outputs))

    def latest(self, since: torch.cuda.Event) -> list[tuple[float, Seen]]:
        """What the looks waiting so far saw, in the order they were taken, each with the µs from `since` to its begin."""
        self._stream.synchronize()
        taken, self._taken = self._taken, []
        return [(since.elapsed_time(begin) * 1000, _seen([place], self._pinned[i : i + 1]))
                for i, (begin, place) in enumerate(zip(self._begins, taken, strict=False))]

    def now(self) -> Seen:
        """One look at every output, at once."""
        for output in self._outputs[:MOST_LOOKS]:
            self._take(secret_place(output))
        self._stream.synchronize()
        taken, self._taken = self._taken, []
        return _seen(taken, self._pinned)

    def _take(self, place_or_output: Place | slice) -> None:
        place = secret_place(place_or_output) if isinstance(place_or_output, slice) else place_or_output
        host = self._pinned[len(self._taken)].data_ptr()
        driver.copy_strided(self._stream.cuda_stream, self._address + 8 * place.first, max(8, 8 * place.pitch), place.count, host)
        self._taken.append(place)


def _seen(taken: Sequence[Place], pinned: torch.Tensor) -> Seen:
    if not taken:
        return Seen(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.int64))
    return Seen(torch.cat([place.words() for place in taken]),
                torch.cat([pinned[i, : place.count] for i, place in enumerate(taken)]))
