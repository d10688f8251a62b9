"""Does a reset of persisting L2 lines by one process free those of another? And does another's sweep evict them?

One process reads a buffer under an access policy that makes its lines persist. Something happens; then it follows a chain of loads
through the buffer, whose time tells how many of its lines still are in the cache.
"""

import json
import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from cuda.bindings import runtime

from benchmarks.gpu.child import Child, obey

LINE_WORDS = 32                 # of 4 bytes: one line of the cache
MOST_BYTES = 16 << 20
SWEEP_BYTES = 256 << 20         # as the referee's
HOPS = 16_384
TIMES = 7


@triton.jit
def _follow(chain, end, hops):    # type: ignore[no-untyped-def]
    at = tl.load(chain)
    for _ in range(hops):
        at = tl.load(chain + at)
    tl.store(end, at)


class Owner:
    """The process whose lines persist."""

    def __init__(self) -> None:
        attribute = runtime.cudaDeviceAttr
        self.most = _checked(runtime.cudaDeviceGetAttribute(attribute.cudaDevAttrMaxPersistingL2CacheSize, 0))
        window = _checked(runtime.cudaDeviceGetAttribute(attribute.cudaDevAttrMaxAccessPolicyWindowSize, 0))
        _checked(runtime.cudaDeviceSetLimit(runtime.cudaLimit.cudaLimitPersistingL2CacheSize, self.most))
        self.bytes = min(MOST_BYTES, self.most // 2, window)
        self.chain, self.end = _chain(self.bytes), torch.zeros(1, dtype=torch.int32, device="cuda")
        self.plain, self.persisting = torch.cuda.Stream(), torch.cuda.Stream()
        _make_persist(self.persisting, self.chain.data_ptr(), self.bytes)
        self.sweep = sweeper()

    def read(self, stream: torch.cuda.Stream) -> None:
        """Bring the buffer into the cache by that stream's policy."""
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.chain.sum()
        torch.cuda.synchronize()

    def follow_us(self) -> float:
        """How long the chain takes now."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        with torch.cuda.stream(self.plain):
            begin.record()
            _follow[(1,)](self.chain, self.end, HOPS, num_warps=1)
            end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) * 1000

    def after(self, stream: torch.cuda.Stream, *happenings: Callable[[], Any]) -> float:
        """The chain's time when the buffer was read by that stream, and then this happened. Median, µs."""
        taken = []
        for _ in range(TIMES):
            _checked(runtime.cudaCtxResetPersistingL2Cache())
            self.sweep()
            self.read(stream)
            for happens in happenings:
                happens()
            taken.append(self.follow_us())
        return statistics.median(taken)


def main() -> None:
    """Measure, and print the answer."""
    other, owner = Child("benchmarks.gpu.l2_persistence", "other"), Owner()
    owner.follow_us()      # compiles
    try:
        taken = measured(owner, other)
    finally:
        other.end()
    hot, cold = taken["hot"], taken["cold"]
    kept = {name: round((cold - us) / (cold - hot), 3) for name, us in taken.items()}
    answer = (f"kept after another's reset and a sweep: {kept['other reset, own sweep']:.0%}; after one's own: "
              f"{kept['own reset, own sweep']:.0%}; after another's sweep: {kept['other sweep']:.0%}; after one's own sweep: "
              f"{kept['own sweep']:.0%}; after a switch alone: {kept['other switch']:.0%}")
    print(json.dumps({"answer": answer, "kept": kept, "us": taken, "bytes": owner.bytes, "most_persisting_bytes": owner.most}))


def measured(owner: Owner, other: Child) -> dict[str, float]:
    """The chain's time by what happened before."""
    persisting, plain = owner.persisting, owner.plain
    reset = partial(_checked_call, runtime.cudaCtxResetPersistingL2Cache)
    ask = {name: partial(other.ask, name) for name in ("switch", "sweep", "reset", "limit")}
    return {
        "hot": owner.after(plain), "cold": owner.after(plain, owner.sweep), "own sweep": owner.after(persisting, owner.sweep),
        "own reset, own sweep": owner.after(persisting, reset, owner.sweep), "other switch": owner.after(persisting, ask["switch"]),
        "other sweep": owner.after(persisting, ask["sweep"]), "other sweep, own sweep": owner.after(persisting, ask["sweep"], owner.sweep),
        "other reset, own sweep": owner.after(persisting, ask["reset"], owner.sweep),
        "other reset, other sweep": owner.after(persisting, ask["reset"], ask["sweep"]),
        "other limit 0 and reset, own sweep": owner.after(persisting, ask["limit"], owner.sweep),
    }


def other_main() -> None:
    """The other process, with a context of its own."""
    sweep, word = sweeper(), torch.zeros(1, device="cuda")

    def switch() -> None:
        word.add_(1)
        torch.cuda.synchronize()

    def reset() -> None:
        switch()
        _checked(runtime.cudaCtxResetPersistingL2Cache())

    def limit() -> None:
        _checked(runtime.cudaDeviceSetLimit(runtime.cudaLimit.cudaLimitPersistingL2CacheSize, 0))
        reset()

    obey({"switch": switch, "sweep": sweep, "reset": reset, "limit": limit})


def sweeper() -> Callable[[], None]:
    """Reads much more than the cache holds, and waits."""
    words, total = torch.zeros(SWEEP_BYTES // 8, dtype=torch.int64, device="cuda"), torch.zeros((), dtype=torch.int64, device="cuda")

    def sweep() -> None:
        torch.sum(words, dim=0, out=total)
        torch.cuda.synchronize()

    return sweep


def _chain(size: int) -> torch.Tensor:
    """Each of some lines holds where the next one stands, in a random order and in a ring. It starts at the first word."""
    lines = torch.cat((torch.zeros(1, dtype=torch.long), 1 + torch.randperm(size // (4 * LINE_WORDS) - 1)[: HOPS - 1])) * LINE_WORDS
    chain = torch.zeros(size // 4, dtype=torch.int32)
    chain[lines] = lines.roll(-1).to(torch.int32)
    return chain.cuda()


def _make_persist(stream: torch.cuda.Stream, address: int, size: int) -> None:
    value, window = runtime.cudaStreamAttrValue(), runtime.cudaAccessPolicyWindow()
    window.base_ptr, window.num_bytes, window.hitRatio = address, size, 1.0
    window.hitProp = runtime.cudaAccessProperty.cudaAccessPropertyPersisting
    window.missProp = runtime.cudaAccessProperty.cudaAccessPropertyStreaming
    value.accessPolicyWindow = window
    _checked(runtime.cudaStreamSetAttribute(stream.cuda_stream, runtime.cudaStreamAttrID.cudaLaunchAttributeAccessPolicyWindow, value))


def _checked_call(call: Callable[[], tuple[Any, ...]]) -> Any:
    return _checked(call())


def _checked(result: tuple[Any, ...]) -> Any:
    code, *values = result
    if int(code):
        raise RuntimeError(code.name)
    return values[0] if values else None


if __name__ == "__main__":
    other_main() if sys.argv[1:] == ["other"] else main()
