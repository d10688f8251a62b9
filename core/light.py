"""The speed of light: the shortest time that a piece of work can take on a device, and what limits it."""

from collections.abc import Mapping
from dataclasses import dataclass

FLOPS, BYTES, EXPS = "compute", "memory", "exp"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What every entry must do in one call, at least."""

    flops: float
    bytes: float
    exps: float


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """Rates a second that a device cannot exceed."""

    flops: Mapping[str, float]     # dense, by the dtype that is multiplied; "float32" where a dtype is not listed
    bytes: float
    exps: float
    cache_bytes: float             # of the last cache: so much may still be on its way to memory when a call ends


@dataclass(frozen=True, kw_only=True)
class Light:
    """The shortest time, in µs, and the limit that sets it."""

    us: float
    bound: str
    firm_us: float                 # what nobody can be faster than: without exponentials, which can also be computed otherwise
    likely_us: float               # what is remarkable to be faster than: with them


_HOPPER_FLOPS = {
    "float16": 989.4e12, "bfloat16": 989.4e12, "float8_e4m3fn": 1978.9e12, "float8_e5m2": 1978.9e12, "int8": 1978.9e12, "float32": 494.7e12,
}
_BLACKWELL_FLOPS = {
    "float16": 2250e12, "bfloat16": 2250e12, "float8_e4m3fn": 4500e12, "float8_e5m2": 4500e12, "int8": 4500e12, "float32": 1125e12,
}
_HOPPER_EXPS = 132 * 16 * 1.98e9     # multiprocessors × special function results a clock × the highest clock
# From the data sheets of the SXM parts; float32 is what tensor cores do in TF32, the highest rate float32 operands can reach.
DATASHEET = {
    "h100": Ceilings(flops=_HOPPER_FLOPS, bytes=3.35e12, exps=_HOPPER_EXPS, cache_bytes=50 * 2**20),
    "h200": Ceilings(flops=_HOPPER_FLOPS, bytes=4.8e12, exps=_HOPPER_EXPS, cache_bytes=60 * 2**20),
    "b200": Ceilings(flops=_BLACKWELL_FLOPS, bytes=8.0e12, exps=148 * 16 * 1.965e9, cache_bytes=126 * 2**20),
}


def light(work: Work, ceilings: Ceilings, dtype: str) -> Light:
    """The light of some work in `dtype`, torch's name. All of its times may be 0."""
    rate = ceilings.flops.get(dtype, ceilings.flops["float32"])
    times = {FLOPS: work.flops / rate, BYTES: work.bytes / ceilings.bytes, EXPS: work.exps / ceilings.exps}
    bound = max(times, key=lambda limit: times[limit])
    moved_at_once = max(0.0, work.bytes - ceilings.cache_bytes) / ceilings.bytes
    firm = max(times[FLOPS], moved_at_once)
    return Light(us=times[bound] * 1e6, bound=bound, firm_us=firm * 1e6, likely_us=max(firm, times[EXPS]) * 1e6)
