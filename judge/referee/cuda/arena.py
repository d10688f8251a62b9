"""The device memory that a box shares with the referee, and how it is prepared for a call.

The same layout as a file's: guard bands, keyed poison over the outputs. What an input is stands in private memory until the
preparation of a call copies it in. That preparation is one CUDA graph without gaps: inputs, poison, then reads that evict the L2
cache and leave no dirty line in it.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from kernelderby.judge.box.cuda import driver
from kernelderby.judge.referee.arena import Layout
from kernelderby.judge.referee.cuda.looks import Looks, Seen

SWEEP_BYTES = 256 << 20     # at least four times the L2 cache of every class
_WORDS_BYTES = 4096         # at the arena's end: the reveal word, alone


class CudaArena:
    """One allocation of its own for one box. Contents are only written to, but for one snapshot of the outputs a call."""

    def __init__(self, size: int) -> None:
        self.bytes = -(-(size + _WORDS_BYTES) // driver.BLOCK_BYTES) * driver.BLOCK_BYTES
        self._address = driver.allocate(self.bytes)
        self.handle = driver.handle_of(self._address)
        self.reveal_offset = self.bytes - _WORDS_BYTES
        self._view = driver.tensor_at(self._address, self.bytes).zero_()
        self._random = torch.Generator("cuda").manual_seed(secrets.randbits(63))
        self._sweep = torch.zeros(SWEEP_BYTES // 8, dtype=torch.int64, device="cuda")
        self._total = torch.zeros((), dtype=torch.int64, device="cuda")
        self._key = torch.zeros((), dtype=torch.int64, device="cuda")
        self._during, self._after = Looks(), Looks()
        self._graphs: dict[tuple[str, ...], torch.cuda.CUDAGraph] = {}
        self.layout: Layout | None = None

    @property
    def reveal_word(self) -> int:
        """The device's address of the word that lets an armed call begin."""
        return self._address + self.reveal_offset

    def use(self, layout: Layout) -> None:
        """Start a case: fresh guards around its inputs, private memory for inputs, poison and snapshot."""
        if layout.extent + _WORDS_BYTES > self.bytes:
            raise ValueError("the layout does not fit the arena")
        base, end = layout.poisoned
        if layout != self.layout:
            self.layout, self._graphs = layout, {}
            self._live = self._view[base:end].view(torch.int64)
            self._pool = torch.empty_like(self._live)
            self._snapshot = torch.empty_like(self._live)
            self._private = torch.empty(base, dtype=torch.uint8, device="cuda")
            self._output_words = [_words(region.offset - base, region.end - base) for region in layout.outputs]
        for random in (self._pool, self._private.view(torch.int64)):
            random.random_(-(2**63), None, generator=self._random)
        self._view[:base].copy_(self._private)
        for looks in (self._during, self._after):
            looks.aim(self._address + base, layout.output_words)

    def write(self, data: Mapping[str, Any], names: Sequence[str]) -> None:
        """Settle the inputs of these names, and show them at once: for what is not timed."""
        self.settle(data, names)
        assert self.layout
        base, _ = self.layout.poisoned
        self._view[:base].copy_(self._private)
        torch.cuda.synchronize()

    def settle(self, data: Mapping[str, Any], names: Sequence[str]) -> None:
        """Settle the inputs of these names in private; the next preparation shows them."""
        assert self.layout
        for region in self.layout.inputs:
            if region.name in names:
                self._private[region.offset : region.end].copy_(data[region.name].reshape(-1).view(torch.uint8))

    def make_ready(self, names: tuple[str, ...]) -> None:
        """Have a preparation for the inputs of these names. Waits for the whole GPU: nothing may be left waiting for a word."""
        if names not in self._graphs:
            self._graphs[names] = self._captured(names)

    def prepare(self, names: tuple[str, ...], begin: torch.cuda.Event) -> None:
        """Launch the preparation of a call: the inputs of these names, fresh poison, the sweep. `begin` is recorded before it."""
        self._key.fill_(secrets.randbits(64) - 2**63)
        torch.sum(self._sweep, dim=0, out=self._total)      # keeps the GPU busy while the rest is launched, so that no gap counts
        begin.record()
        self._graphs[names].replay()

    def watch(self, word: int, value: int, count: int) -> None:
        """Look `count` times from the moment on that a word reaches a value."""
        self._during.watch(word, value, count)

    def last_poison_us(self, since: torch.cuda.Event) -> float:
        """When the last of those looks began that still saw poison, in µs after `since`; 0 when none did."""
        looks = self._during.latest(since)
        if not looks:
            return 0.0
        poison = self._poison(torch.cat([seen.places for _, seen in looks])).split([len(seen.places) for _, seen in looks])
        return max((at for (at, seen), there in zip(looks, poison, strict=True) if bool((seen.words == there).any())), default=0.0)

    def probe(self) -> None:
        """Look at secret places of every output, now."""
        self._seen: Seen = self._after.now()

    def snapshot(self) -> None:
        """Copy outputs and guards once; every later look is at this copy."""
        self._snapshot.copy_(self._live)

    def changed_since_probe(self) -> bool:
        """Whether a probed word is another in the snapshot: work went on after the done word."""
        return not torch.equal(self._seen.words, self._snapshot[self._seen.places.cuda()].cpu())

    def unwritten(self) -> int:
        """How many whole words of the outputs still are poison in the snapshot."""
        assert self.layout
        counts = [torch.count_nonzero((self._snapshot[w] ^ self._pool[w]) == self._key) for w in self.layout.output_words]
        return int(torch.stack(counts).sum())

    def words(self) -> int:
        """How many whole words the outputs have."""
        assert self.layout
        return sum(w.stop - w.start for w in self.layout.output_words)

    def guards_hold(self) -> bool:
        """Whether no guard band was written. Call it while the box is frozen."""
        assert self.layout
        inputs = [(self._view[g] != self._private[g]).any() for g in self.layout.input_guards]
        outputs = [(_bytes(self._snapshot, g) != _bytes_of(self._pool[_cover(g)] ^ self._key, g)).any() for g in self.layout.output_guards]
        return not bool(torch.stack(inputs + outputs).any())

    def changed_input(self, data: Mapping[str, Any], names: Sequence[str]) -> str | None:
        """The first input of these names that is not what was written. Call it while the box is frozen."""
        assert self.layout
        for region in self.layout.inputs:
            words = _words(region.offset, region.end)      # with a few bytes of the guard behind it, which stays as well
            if region.name in names and not torch.equal(self._view.view(torch.int64)[words], self._private.view(torch.int64)[words]):
                return region.name
        return None

    def outputs(self) -> dict[str, torch.Tensor]:
        """The outputs of the snapshot: views, good until the next snapshot."""
        assert self.layout
        base, _ = self.layout.poisoned
        whole = self._snapshot.view(torch.uint8)
        return {r.name: whole[r.offset - base : r.end - base].view(getattr(torch, r.dtype)).view(r.shape) for r in self.layout.outputs}

    def close(self) -> None:
        """Free the memory. The box must be gone: what it launched could still write here."""
        torch.cuda.synchronize()
        driver.free(self._address)

    def _poison(self, places: torch.Tensor) -> torch.Tensor:
        return (self._pool[places.cuda()] ^ self._key).cpu()

    def _captured(self, names: tuple[str, ...]) -> torch.cuda.CUDAGraph:
        self._play_preparation(names)      # loads the kernels, which a capture must not
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._play_preparation(names)
        return graph

    def _play_preparation(self, names: tuple[str, ...]) -> None:
        """By kernels alone: a copy engine's time varies, and it would leave gaps."""
        source, target = self._private.view(torch.int64), self._view.view(torch.int64)
        for words in self._spans(names):
            torch.bitwise_xor(source[words], 0, out=target[words])
        torch.bitwise_xor(self._pool, self._key, out=self._live)
        torch.sum(self._sweep, dim=0, out=self._total)

    def _spans(self, names: tuple[str, ...]) -> Iterable[slice]:
        assert self.layout
        if set(names) == {region.name for region in self.layout.inputs}:
            return [slice(0, self.layout.poisoned[0] // 8)]      # guards and all: one launch
        return [_words(r.offset, r.end) for r in self.layout.inputs if r.name in names and r.bytes]


def _words(start: int, end: int) -> slice:
    """The 8-byte words that hold these bytes."""
    return slice(start // 8, -(-end // 8))


def _cover(bytes_: slice) -> slice:
    return _words(bytes_.start, bytes_.stop)


def _bytes(words: torch.Tensor, bytes_: slice) -> torch.Tensor:
    """These bytes of a tensor of words."""
    return words.view(torch.uint8)[bytes_]


def _bytes_of(covering: torch.Tensor, bytes_: slice) -> torch.Tensor:
    """The same bytes, of the words that cover them."""
    skipped = bytes_.start % 8
    return covering.view(torch.uint8)[skipped : skipped + bytes_.stop - bytes_.start]
