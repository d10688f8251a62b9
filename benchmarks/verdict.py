"""From POST to verdict through the whole platform, beside `import torch`; and what the idle platform holds in memory.

    python -m benchmarks.verdict --out benchmarks/results/verdict.json

Each run sends the PyTorch entry of vector_add as a ranked one, with warm boxes, and waits for the verdict as `derby submit` does.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks import machine
from benchmarks.machine import import_torch_s
from kernelderby.cli.server import Server
from kernelderby.cli.watch import wait_for
from kernelderby.core.settings import ROOT, Settings

ENTRY = ROOT / "problems/warmup/vector_add/submissions/accepted/torch.py"
FIELDS = {"problem": "vector_add", "device": "cpu", "mode": "ranked", "licence": "Apache-2.0", "ai_use": "none"}
DERBY = (sys.executable, "-P", "-m", "kernelderby.cli.main")
SETTLE_S = 4.0     # for the pool to fill again


def main() -> None:
    """Measure and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=12)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        once = [up_once(Path(folder) / f"once{i}") for i in range(2)]
        with platform(Path(folder) / "data") as (process, settings):
            runs = list(measured(Server(settings), given.runs))
            memory = memory_mb(process)
    torch_s = machine.spread([r["import_torch_s"] for r in runs])
    machine.write({
        "machine": machine.facts(), "runs": len(runs), "import_torch_s": torch_s,
        "post_to_verdict_s": machine.spread([r["post_to_verdict_s"] for r in runs]),
        "judge_total_s": machine.spread([r["stages_s"]["total"] for r in runs]),
        "judge_overhead_s": machine.spread([overhead_s(r["stages_s"]) for r in runs]),
        "stages_s": {stage: machine.spread([r["stages_s"].get(stage, 0.0) for r in runs]) for stage in runs[0]["stages_s"]},
        "up_once_s": machine.spread(once), "up_once_in_imports_of_torch": round(statistics.median(once) / torch_s["median"], 1),
        "idle_pss_mb": memory,
    }, given.out)


def measured(server: Server, runs: int) -> Iterator[dict[str, Any]]:
    """`runs` submissions, each beside one import of torch; the first, which starts the referee, is not counted."""
    for run in range(runs + 1):
        time.sleep(SETTLE_S)
        torch_s = import_torch_s()
        time.sleep(SETTLE_S)
        started = time.perf_counter()
        ticket = server.submit(ENTRY.name, ENTRY.read_bytes(), FIELDS)
        verdict = wait_for(server, int(ticket["submission"]), hear=lambda _: None)
        took = time.perf_counter() - started
        if verdict["outcome"] != "accepted":
            raise SystemExit(f"not accepted: {verdict['outcome']} {verdict['message']}")
        if run:
            yield {"import_torch_s": torch_s, "post_to_verdict_s": took, "stages_s": verdict["stages_s"]}


def overhead_s(stages: Mapping[str, float]) -> float:
    """What a judging takes beside the entry's calls and the checks."""
    return stages["total"] - stages.get("time", 0.0) - stages.get("check", 0.0)


def up_once(data: Path) -> float:
    """`derby up --once --json` on a new data folder, from start to end."""
    started = time.perf_counter()
    done = subprocess.run([*DERBY, "up", "--once", "--json"], env=environment(data), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.perf_counter() - started


@contextmanager
def platform(data: Path) -> Iterator[tuple[psutil.Process, Settings]]:
    """A platform that runs, and the settings to talk to it."""
    process = subprocess.Popen([*DERBY, "up", "--port", "8765", "--json"], env=environment(data), stdout=subprocess.PIPE, text=True)
    assert process.stdout
    line = process.stdout.readline()
    try:
        yield psutil.Process(process.pid), Settings(data=data, url=json.loads(line)["url"])
    finally:
        process.terminate()
        process.wait()


def memory_mb(up: psutil.Process) -> dict[str, float]:
    """Proportional share of memory of each program of an idle platform, without referees and boxes."""
    time.sleep(SETTLE_S)
    names = {"valkey": "valkey-server", "web": "uvicorn", "worker": "worker"}
    children = {name: next(c for c in up.children() if word in " ".join(c.cmdline())) for name, word in names.items()}
    found = {name: round(child.memory_full_info().pss / 1e6, 1) for name, child in children.items()}
    return {**found, "together": round(sum(found.values()), 1), "supervisor": round(up.memory_full_info().pss / 1e6, 1)}


def environment(data: Path) -> dict[str, str]:
    """This environment with a data folder of its own."""
    return {**{k: v for k, v in os.environ.items() if not k.startswith("DERBY_")}, "DERBY_DATA": str(data)}


if __name__ == "__main__":
    main()
