"""The memory a box shares with the referee: sealed files, where each tensor lies in them, guard bands, poison.

A layout is inputs, then outputs, each region aligned and with a guard band before and behind it. Before every call the whole span of
the outputs, guards among it, is filled with fresh random poison: what is still poison afterwards was never written, and a guard that
is not poison any more was.
"""

import fcntl
import math
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from kernelderby.core.problem import DTYPES
from kernelderby.judge.box.pages import BYTES as PAGE_BYTES
from kernelderby.judge.box.pages import Page

ALIGN = 512
GUARD = 4096                    # an unmasked last block of a Triton kernel still lands in it
PROBES = 64                     # places looked at right after the done word
F_SEAL_FUTURE_WRITE = 0x10      # linux/fcntl.h; Python names it from 3.13 on
_SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, kw_only=True)
class Region:
    """Where one tensor lies, in bytes from the arena's start."""

    name: str
    shape: tuple[int, ...]
    dtype: str                  # torch's name
    offset: int

    @property
    def bytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * DTYPES[self.dtype]

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.bytes


@dataclass(frozen=True)
class Layout:
    """One case's tensors in an arena."""

    inputs: tuple[Region, ...]
    outputs: tuple[Region, ...]

    @property
    def poisoned(self) -> tuple[int, int]:
        """The span of outputs and their guards, first byte and end; both aligned."""
        return self.outputs[0].offset - GUARD, self.extent

    @property
    def extent(self) -> int:
        """Bytes of an arena that this layout needs."""
        return _aligned(self.outputs[-1].end + GUARD)

    @cached_property
    def input_guards(self) -> list[slice]:
        """The bytes around the inputs that no one may write."""
        ends = [0, *(region.end for region in self.inputs)]
        starts = [*(region.offset for region in self.inputs), self.poisoned[0]]
        return [slice(a, b) for a, b in zip(ends, starts, strict=True)]

    @cached_property
    def output_guards(self) -> list[slice]:
        """The same around the outputs, counted from the poisoned span's start."""
        base, extent = self.poisoned
        ends = [base, *(region.end for region in self.outputs)]
        starts = [*(region.offset for region in self.outputs), extent]
        return [slice(a - base, b - base) for a, b in zip(ends, starts, strict=True)]

    @cached_property
    def output_words(self) -> list[slice]:
        """The whole 8-byte words of each output, counted from the poisoned span's start."""
        base, _ = self.poisoned
        return [slice((r.offset - base) // 8, (r.end - base) // 8) for r in self.outputs]


def lay_out(inputs: Sequence[tuple[str, tuple[int, ...], str]], outputs: Sequence[tuple[str, tuple[int, ...], str]]) -> Layout:
    """Places for tensors given as (name, shape, dtype)."""
    at = GUARD
    placed = []
    for name, shape, dtype in (*inputs, *outputs):
        region = Region(name=name, shape=shape, dtype=dtype, offset=at)
        placed.append(region)
        at = _aligned(region.end + GUARD)
    return Layout(tuple(placed[: len(inputs)]), tuple(placed[len(inputs) :]))


class Arena:
    """The shared memory of one box, mapped once. Contents are only written to, but for one snapshot of the outputs a call."""

    def __init__(self, size: int) -> None:
        self.bytes = _aligned(max(size, 1))
        self.fd = _shared_file("arena", self.bytes, _SIZE_SEALS)
        self._view = np.frombuffer(mmap.mmap(self.fd, self.bytes), dtype=np.uint8)
        self._random = np.random.Generator(np.random.SFC64(int.from_bytes(os.urandom(16))))
        self._pool = self._random.integers(0, 2**64, self.bytes // 8 + 512, dtype=np.uint64)

    def use(self, layout: Layout) -> None:
        """Start a case: fresh guards around its inputs, private memory for its poison and snapshot."""
        if layout.extent > self.bytes:
            raise ValueError("the layout does not fit the arena")
        base, end = layout.poisoned
        self.layout = layout
        self._live = self._view[base:end]
        self._poison = np.empty((end - base) // 8, dtype=np.uint64)
        self._snapshot = np.empty_like(self._poison)
        self._guards = [self._random.integers(0, 256, g.stop - g.start, dtype=np.uint8) for g in layout.input_guards]
        for guard, content in zip(layout.input_guards, self._guards, strict=True):
            self._view[guard] = content
        self.poison()

    def write(self, data: Mapping[str, Any], names: Sequence[str]) -> None:
        """Copy the inputs of these names into place."""
        for region in self.layout.inputs:
            if region.name in names:
                self._view[region.offset : region.end] = as_bytes(data[region.name])

    def poison(self) -> None:
        """Fill outputs and guards anew, and choose where the probe will look."""
        count = len(self._poison)
        start = int(self._random.integers(0, 512))
        np.bitwise_xor(self._pool[start : start + count], self._random.integers(0, 2**64, dtype=np.uint64), out=self._poison)
        self._live.view(np.uint64)[:] = self._poison
        places = np.concatenate([np.arange(w.start, w.stop) if w.stop - w.start <= PROBES else
                                 self._random.integers(w.start, w.stop, PROBES) for w in self.layout.output_words])
        self._places = self._random.permutation(places)[:PROBES] if len(places) > PROBES else places

    def probe(self) -> None:
        """Look at the secret places, while the box may still run."""
        self._seen = self._live.view(np.uint64)[self._places]

    def snapshot(self) -> None:
        """Copy outputs and guards once; every later look is at this copy."""
        self._snapshot[:] = self._live.view(np.uint64)

    def changed_since_probe(self) -> bool:
        """Whether a probed word is another in the snapshot: the box wrote after it said it was done."""
        return not np.array_equal(self._seen, self._snapshot[self._places])

    def unwritten(self) -> int:
        """How many whole words of the outputs still are poison in the snapshot."""
        return sum(int(np.count_nonzero(self._snapshot[w] == self._poison[w])) for w in self.layout.output_words)

    def words(self) -> int:
        """How many whole words the outputs have."""
        return sum(w.stop - w.start for w in self.layout.output_words)

    def guards_hold(self) -> bool:
        """Whether no guard band was written. Call it while the box is frozen."""
        outer = zip(self.layout.input_guards, self._guards, strict=True)
        poison, snapshot = self._poison.view(np.uint8), self._snapshot.view(np.uint8)
        return all(np.array_equal(self._view[guard], content) for guard, content in outer) and all(
            np.array_equal(snapshot[guard], poison[guard]) for guard in self.layout.output_guards)

    def changed_input(self, data: Mapping[str, Any], names: Sequence[str]) -> str | None:
        """The first input of these names that is not what was written. Call it while the box is frozen."""
        for region in self.layout.inputs:
            if region.name in names and not np.array_equal(self._view[region.offset : region.end], as_bytes(data[region.name])):
                return region.name
        return None

    def outputs(self) -> dict[str, torch.Tensor]:
        """The outputs of the snapshot: views, good until the next snapshot."""
        base, _ = self.layout.poisoned
        whole = torch.from_numpy(self._snapshot.view(np.uint8))
        return {r.name: whole[r.offset - base : r.end - base].view(getattr(torch, r.dtype)).view(r.shape) for r in self.layout.outputs}

    def close(self) -> None:
        """Close the file; the mapping goes when its last view does."""
        os.close(self.fd)


@dataclass(frozen=True)
class Pages:
    """The two pages of a box, and their files for it to map."""

    go: Page
    done: Page
    go_fd: int
    done_fd: int

    def close(self) -> None:
        """Close the files; the mappings stay."""
        os.close(self.go_fd)
        os.close(self.done_fd)


def make_pages() -> Pages:
    """Fresh pages: `go` can be written by no one who maps it later, `done` only read by us."""
    go_fd = _shared_file("go", PAGE_BYTES, 0)
    go = Page(go_fd, writable=True)
    fcntl.fcntl(go_fd, fcntl.F_ADD_SEALS, F_SEAL_FUTURE_WRITE | _SIZE_SEALS)
    done_fd = _shared_file("done", PAGE_BYTES, _SIZE_SEALS)
    return Pages(go, Page(done_fd, writable=False), go_fd, done_fd)


def _shared_file(name: str, size: int, seals: int) -> int:
    """A new file in memory of that size and those seals (0: none yet); the caller closes it."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def as_bytes(tensor: torch.Tensor) -> Any:
    """The bytes of a contiguous tensor as numpy sees them, without a copy."""
    return tensor.reshape(-1).view(torch.uint8).numpy()


def _aligned(offset: int) -> int:
    return -(-offset // ALIGN) * ALIGN
