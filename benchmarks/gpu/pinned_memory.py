"""Does host memory that the driver pins or manages escape the memory control group?

A process with a limit of 1 GiB takes 3 GiB in steps, of each kind, and touches all of it; who is not killed has escaped.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cuda.bindings import runtime

from benchmarks.gpu.child import Child, group_of, join, obey

LIMIT_BYTES = 1 << 30
STEP_BYTES, STEPS = 256 << 20, 12
MIB = 1 << 20


def main() -> None:
    """Try each kind in a process and a group of its own, and print the answer."""
    kinds = {}
    for number, kind in enumerate(TAKERS):
        try:
            kinds[kind] = tried(kind, 900_000 + number)
        except Exception as error:
            kinds[kind] = {"failed": f"{type(error).__name__}: {error}"[:300]}
    answer = "; ".join(f"{kind}: {_said(found)}" for kind, found in kinds.items())
    print(json.dumps({"answer": answer, "limit_mib": LIMIT_BYTES // MIB, "kinds": kinds}))


def tried(kind: str, number: int) -> dict[str, Any]:
    """How far the process came, and what the group counted then."""
    steps: list[dict[str, Any]] = []
    with group_of(LIMIT_BYTES, number) as group:
        place, free_mib = Path(group.freezer().get("path", "/nowhere")), _available_mib()
        child = Child("benchmarks.gpu.pinned_memory", "taker", group)
        ended = None
        try:
            for _ in range(STEPS):
                answer = child.ask("take", kind)
                steps.append({**answer, "counted_mib": _counted_mib(place), "host_used_mib": free_mib - _available_mib()})
                if answer["error"]:
                    break
        except RuntimeError as error:
            ended = str(error)
        was_killed = group.oom_killed()
        child.end()
    return {"taken_mib": steps[-1]["taken_mib"] if steps else 0, "oom_killed": was_killed, "ended": ended, "steps": steps}


def taker(paths: list[str]) -> None:
    """The process that takes; it joins before it opens its context, as a box does."""
    join(paths)
    _checked(runtime.cudaFree(0))
    held: list[Any] = []

    def take(kind: str) -> dict[str, Any]:
        try:
            address = TAKERS[kind](held)
            ctypes.memset(address, 1, STEP_BYTES)
        except Exception as error:
            return {"taken_mib": len(held) * STEP_BYTES // MIB, "error": str(error)[:200]}
        return {"taken_mib": len(held) * STEP_BYTES // MIB, "error": None}

    obey({"take": take})


def _plain(held: list[Any]) -> int:
    held.append(bytearray(STEP_BYTES))
    return ctypes.addressof(ctypes.c_char.from_buffer(held[-1]))


def _pinned(held: list[Any]) -> int:
    held.append(_checked(runtime.cudaHostAlloc(STEP_BYTES, runtime.cudaHostAllocDefault)))
    return int(held[-1])


def _managed(held: list[Any]) -> int:
    held.append(_checked(runtime.cudaMallocManaged(STEP_BYTES, runtime.cudaMemAttachGlobal)))
    return int(held[-1])


TAKERS: dict[str, Callable[[list[Any]], int]] = {"malloc": _plain, "cudaHostAlloc": _pinned, "cudaMallocManaged": _managed}


def _said(found: dict[str, Any]) -> str:
    if "failed" in found:
        return str(found["failed"])[:60]
    counted = found["steps"][-1]["counted_mib"] if found["steps"] else None
    how = "killed" if found["oom_killed"] else "refused by the driver" if found["steps"] and found["steps"][-1]["error"] else "not killed"
    return f"{how} at {found['taken_mib']} MiB, counted {counted} MiB"


def _counted_mib(group: Path) -> int | None:
    try:
        return int((group / "memory.current").read_text()) // MIB
    except OSError:
        return None


def _available_mib() -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) // 1024


def _checked(result: tuple[Any, ...]) -> Any:
    code, *values = result
    if int(code):
        raise RuntimeError(code.name)
    return values[0] if values else None


if __name__ == "__main__":
    taker(sys.argv[2:]) if sys.argv[1:2] == ["taker"] else main()
