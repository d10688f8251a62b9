"""`python -m kernelderby.judge.referee.cuda.scrub leave|find`: whether device memory that one process gave up shows to the next.

`leave` fills what is free with a pattern and ends; `find`, a process of its own, takes as much and counts the samples that still hold
it. A sample is 4 KiB of every 2 MiB, the driver's own unit. Imports no torch, so that both take a moment.
"""

import ctypes
import json
import sys
from typing import Any

from cuda.bindings import runtime

SPARE_BYTES = 2 << 30      # for the context, and for what the driver keeps back
EVERY_BYTES, SAMPLE_BYTES = 2 << 20, 4 << 10
PATTERN = 0xA5


def main(arguments: list[str]) -> None:
    """Print `{"bytes", "found", "of"}`: memory taken, samples with the pattern, samples."""
    address, size = _taken()
    if arguments == ["leave"]:
        _checked(runtime.cudaMemset(address, PATTERN, size))
        _checked(runtime.cudaDeviceSynchronize())
        print(json.dumps({"bytes": size, "found": None, "of": None}))
        return
    count = size // EVERY_BYTES
    print(json.dumps({"bytes": size, "found": samples_with_pattern(_samples(address, count)), "of": count}))


def samples_with_pattern(samples: bytes | bytearray) -> int:
    """How many samples hold nothing but the pattern."""
    whole = bytes([PATTERN]) * SAMPLE_BYTES
    return sum(samples[start : start + SAMPLE_BYTES] == whole for start in range(0, len(samples), SAMPLE_BYTES))


def _taken() -> tuple[int, int]:
    """Almost all that is free: address and bytes."""
    free = int(_checked(runtime.cudaMemGetInfo())[0])
    size = (free - SPARE_BYTES) // EVERY_BYTES * EVERY_BYTES
    return int(_checked(runtime.cudaMalloc(size))[0]), size


def _samples(address: int, count: int) -> bytearray:
    samples = bytearray(count * SAMPLE_BYTES)
    to_host = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
    _checked(runtime.cudaMemcpy2D(_address(samples), SAMPLE_BYTES, address, EVERY_BYTES, SAMPLE_BYTES, count, to_host))
    return samples


def _address(buffer: bytearray) -> int:
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))


def _checked(result: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of a call of cuda-bindings, which return their error first. Raises RuntimeError."""
    code, *values = result
    if int(code):
        raise RuntimeError(code.name)
    return tuple(values)


if __name__ == "__main__":
    main(sys.argv[1:])
