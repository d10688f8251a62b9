"""How soon a warm box is handed over, what an idle one costs, how long a new one takes: `python -m benchmarks.pool [--out FILE]`.

Beside them stands `python -c "import torch"`, measured in the same run, since every machine imports at its own pace.
"""

import argparse
import time
from pathlib import Path

import psutil

from benchmarks import machine
from benchmarks.machine import import_torch_s, seconds
from kernelderby.judge.sandbox.base import Box
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.freezer import descendants, freezer_from
from kernelderby.judge.sandbox.pool import Pool

TAKES = 24
FREEZES = 300
IMPORTS = 5


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    sandbox = Bubblewrap()
    can = sandbox.capabilities()
    pool = Pool(sandbox, "cpu", 2)      # two, as a worker keeps: pages of libraries are private only to one that is alone
    box = pool.take()
    freezing = _freezing(box)
    box.end()
    warm = _warm(pool)
    pool.close()
    machine.write({
        "machine": machine.facts(),
        "sandbox": {"own_uid": can.own_uid, "memory_limit": can.memory_limit, "freeze": can.freeze},
        **warm,
        "cold_take_and_end_s": machine.spread([seconds(lambda: pool.take().end()) for _ in range(IMPORTS)]),
        **freezing,
        "import_torch_s": machine.spread([import_torch_s() for _ in range(IMPORTS)]),
    }, out)


def _warm(pool: Pool) -> dict[str, dict[str, float]]:
    """Boxes that were ready before they were taken."""
    hand_overs, ends, starts, memory = [], [], [], []
    settle_s = 4 * import_torch_s()      # far longer than a box needs to get ready
    for _ in range(TAKES):
        starts.append(1000 * seconds(pool.refill))
        time.sleep(settle_s)
        started = time.perf_counter()
        box = pool.take()
        hand_overs.append(1000 * (time.perf_counter() - started))
        memory.append(_private_mb(box))
        ends.append(1000 * seconds(box.end))
    return {"hand_over_ms": machine.spread(hand_overs), "idle_box_private_mb": machine.spread(memory, 1),
            "start_call_ms": machine.spread(starts, 1), "end_ms": machine.spread(ends, 1)}


def _freezing(box: Box) -> dict[str, dict[str, float]]:
    """An idle box, by the best freezer of this machine and by signals."""
    results: dict[str, dict[str, float]] = {}
    for data in (box.freezer(), {"kind": "sigstop", "pid": box.pid}):
        freezer = freezer_from(data)
        freezes, thaws = [], []
        for _ in range(FREEZES):
            freezes.append(1e6 * seconds(freezer.freeze))
            thaws.append(1e6 * seconds(freezer.thaw))
        freezer.close()
        results |= {f"freeze_us_{data['kind']}": machine.spread(freezes, 1), f"thaw_us_{data['kind']}": machine.spread(thaws, 1)}
    return results


def _private_mb(box: Box) -> float:
    return sum(psutil.Process(pid).memory_full_info().uss for pid in [box.pid, *descendants(box.pid)]) / 1e6


if __name__ == "__main__":
    main()
