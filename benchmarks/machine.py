"""Facts about the machine that a figure was measured on, and the one way to time things and to write results down."""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any


def facts() -> dict[str, Any]:
    """Processor, memory, kernel and versions, and when."""
    cpu = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu, "cores": len(os.sched_getaffinity(0)), "memory_gb": round(memory / 1e9, 1),
        "kernel": platform.release(), "python": platform.python_version(), "torch": version("torch"), "load": round(os.getloadavg()[0], 2),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def seconds(action: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def import_torch_s() -> float:
    """One `python -c "import torch"`, from start to end."""
    return seconds(lambda: subprocess.run([sys.executable, "-c", "import torch"], check=True))


def spread(values: Sequence[float], digits: int = 3) -> dict[str, float]:
    """Median, least and most."""
    return {"median": round(statistics.median(values), digits), "min": round(min(values), digits), "max": round(max(values), digits),
            "n": len(values)}


def write(results: dict[str, Any], out: Path | None) -> None:
    """Print the results, and keep them in `out` if given."""
    text = json.dumps(results, indent=2)
    print(text)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")
