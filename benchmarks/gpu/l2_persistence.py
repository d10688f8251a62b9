"""Does a reset of persisting L2 lines by one process free those of another? And does another's sweep evict them?

One process reads a buffer under an access policy that makes its lines persist. Something happens; then one thread follows a chain of
loads through the buffer, each of which needs the one before: its time tells how many of the lines still are in the cache. All is there
when nothing happened, nothing after the process's own reset and sweep; where these two differ too little, there is no answer.
"""

import json
import statistics
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from cuda.bindings import runtime

from benchmarks.gpu.child import Child, obey

LINE_WORDS = 32                 # of 4 bytes: one line of the cache
MOST_BYTES = 8 << 20            # a cache of two halves may hold a line twice, and the part for lines that persist is about 37 MiB
SWEEP_BYTES = 256 << 20         # as the referee's
HOPS = 16_384
TIMES = 5
AWAKE_SWEEPS = 2_000            # some 0.2 s of work: the clock is up when the first chain is timed
TOLD_APART = 1.5                # a load from memory takes so many times what one from the cache takes, or nothing is known
MOSTLY = 0.5                    # of the lines


@triton.jit
def _follow(chain, end, hops):    # type: ignore[no-untyped-def]
    at = tl.load(chain, cache_modifier=".cg")      # past the multiprocessor's own cache
    for _ in range(hops):
        at = tl.load(chain + at, cache_modifier=".cg")
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
    for _ in range(AWAKE_SWEEPS):
        owner.sweep()
    owner.follow_us()      # compiles
    try:
        taken = measured(owner, other)
    finally:
        other.end()
    figures = {"us": taken, "hops": HOPS, "bytes": owner.bytes, "most_persisting_bytes": owner.most}
    print(json.dumps(concluded(taken) | figures))


def measured(owner: Owner, other: Child) -> dict[str, float]:
    """The chain's time by what happened before."""
    persisting, sweep = owner.persisting, owner.sweep
    reset = partial(_checked_call, runtime.cudaCtxResetPersistingL2Cache)
    ask = {name: partial(other.ask, name) for name in ("switch", "sweep", "reset", "limit")}
    return {
        "hot": owner.after(persisting), "cold": owner.after(persisting, reset, sweep), "own sweep": owner.after(persisting, sweep),
        "other switch": owner.after(persisting, ask["switch"]),
        "other switch, own sweep": owner.after(persisting, ask["switch"], sweep),
        "other sweep": owner.after(persisting, ask["sweep"]),
        "other reset": owner.after(persisting, ask["reset"]), "other reset, own sweep": owner.after(persisting, ask["reset"], sweep),
        "other limit 0 and reset, own sweep": owner.after(persisting, ask["limit"], sweep),
    }


def concluded(taken: Mapping[str, float]) -> dict[str, Any]:
    """What those times say: `answer` in words, and the share of lines that was `kept`. `answer` is None where nothing can be said."""
    hot, cold = taken["hot"], taken["cold"]
    if cold < TOLD_APART * hot:
        return {"answer": None, "failed": f"not measured: {hot:.0f} µs from the cache, {cold:.0f} µs from memory"}
    kept = {name: round((cold - us) / (cold - hot), 3) for name, us in taken.items()}
    answer = (f"{_of_reset(kept)}, and another's read sweep of {SWEEP_BYTES >> 20} MiB {_of_sweep(kept)} our persisting lines "
              f"({kept['other sweep']:.0%} are left; {kept['own sweep']:.0%} after a sweep of our own); a load takes "
              f"{hot / HOPS * 1000:.0f} ns from the cache, {cold / HOPS * 1000:.0f} ns from memory")
    return {"answer": answer, "kept": kept}


def _of_reset(kept: Mapping[str, float]) -> str:
    """Told by a sweep of our own, which spares lines that still persist."""
    before, after = kept["other switch, own sweep"], kept["other reset, own sweep"]
    if before < MOSTLY:
        return f"a mere switch to another context already frees our persisting lines ({before:.0%} are left), so its reset adds nothing"
    acts = "acts on" if after < MOSTLY else "does not act on"
    return f"another context's reset {acts} our persisting lines ({after:.0%} outlive a sweep after it, {before:.0%} after a mere switch)"


def _of_sweep(kept: Mapping[str, float]) -> str:
    return "evicts" if kept["other sweep"] < MOSTLY else "does not evict"


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
