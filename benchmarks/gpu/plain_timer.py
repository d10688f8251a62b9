"""An in-process timer as peers have it, and what an attack of the gallery gains on it: `python -m benchmarks.gpu.plain_timer NAME`.

Events around the call in the process that runs the contestant's code, a flush of the cache before it, a look at the result afterwards.
Says `ready` when it has a context, measures when it is sent a line, and answers with one line of JSON.
"""

import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.gallery import GALLERY, Attack
from kernelderby.judge.acceptance.trials import allowed_us

CALLS = 20
FLUSH_BYTES = 256 << 20
PAUSE_S = 0.002          # between the call and the look at its result
ANSWERS_WITHIN_S = 60.0

Timed = namedtuple("Timed", "entry_us baseline_us")      # noqa: PYI024
Operands = namedtuple("Operands", "a b c")               # noqa: PYI024


def start(attack: Attack) -> "subprocess.Popen[str]":
    """A process that will measure this attack when it is asked."""
    return subprocess.Popen([sys.executable, "-m", "benchmarks.gpu.plain_timer", attack.name], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def ask(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """What it measured; `wins` is False when it failed or takes too long."""
    try:
        said, _ = process.communicate("go\n", ANSWERS_WITHIN_S)
        answer: dict[str, Any] = json.loads(said.splitlines()[-1])
        return answer
    except (subprocess.TimeoutExpired, ValueError, IndexError, OSError) as error:
        process.kill()
        return {"without": "plain", "wins": False, "failed": f"{type(error).__name__}: {error}"[:300]}


def main(name: str) -> None:
    """Measure the honest twin, then the attack, which may leave anything behind: the process ends with it."""
    attack = next(attack for attack in GALLERY if attack.name == name)
    torch.zeros(1, device="cuda")
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        answer = compared(attack, timed(attack.honest, attack.n), timed(attack.source, attack.n))
    except Exception as error:
        answer = {"without": "plain", "wins": False, "failed": f"{type(error).__name__}: {error}"[:300]}
    print(json.dumps(answer), flush=True)


def compared(attack: Attack, honest: Timed | None, got: Timed | None) -> dict[str, Any]:
    """What the attack gains; None stands for a wrong result."""
    if honest is None or got is None:
        return {"without": "plain", "wins": False, "failed": "a wrong result"}
    before, after = (honest.entry_us, got.entry_us) if not attack.against_baseline else (honest.baseline_us, got.baseline_us)
    gain_us = after - before if attack.against_baseline else before - after
    return {"without": "plain", "n": attack.n, "honest_us": before, "got_us": after, "gain_us": gain_us,
            "wins": gain_us > allowed_us(before)}


def timed(source: str, n: int) -> Timed | None:
    """Medians of the entry's calls, and of a baseline's that follow each of them; None for a wrong result. µs."""
    path = Path(tempfile.mkdtemp(), "submission.py")
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("plain_submission", path)
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return _medians(loaded.custom_kernel, n)


def _medians(kernel: Callable[[Any], Any], n: int) -> Timed | None:
    a, b = (torch.randn(n, device="cuda").half() for _ in "ab")
    data, other = Operands(a, b, torch.empty_like(a)), torch.empty_like(a)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    kernel(data)
    torch.cuda.synchronize()
    entry, baseline, good = [], [], True
    for _ in range(CALLS):
        flush.zero_()
        begin, end, last = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        begin.record()
        returned = kernel(data)
        end.record()
        torch.add(a, b, out=other)
        last.record()
        torch.cuda.synchronize()
        entry.append(begin.elapsed_time(end) * 1000)
        baseline.append(end.elapsed_time(last) * 1000)
        time.sleep(PAUSE_S)
        good &= bool(torch.allclose(data.c if returned is None else returned, other))
    return Timed(statistics.median(entry), statistics.median(baseline)) if good else None


if __name__ == "__main__":
    main(sys.argv[1])
