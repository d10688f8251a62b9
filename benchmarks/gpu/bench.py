"""One judge on one GPU, the problem it is measured with, and what was found so far."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml

from kernelderby.core.devices import DeviceClass, device
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import ROOT, Settings
from kernelderby.core.verdict import Mode, Verdict
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge, open_judge

LONGEST_JUDGING_S = 45


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line chose."""

    out: Path
    device: str
    attacks: tuple[str, ...]        # names of the gallery
    speed: tuple[str, ...]          # parts of it
    judgings: int                   # of the spread
    duels: int                      # of each kind
    kinds: tuple[str, ...]          # of duels: `same`, `apart`
    limit_s: float                  # of the resolution: then no duel starts any more


@dataclass
class Bench:
    """The judge, and the results that are kept after each section."""

    options: Options
    judge: Judge
    results: dict[str, Any] = field(default_factory=dict)

    @property
    def device(self) -> DeviceClass:
        """The class that is measured."""
        return device(self.options.device)

    def job(self, source: str | bytes, problem: Problem, mode: Mode = Mode.BENCHMARK, name: str = "submission.py") -> Job:
        """One judging, with a seed of its own."""
        data = source.encode() if isinstance(source, str) else source
        return Job(submission=None, attempt=1, problem=problem, device=self.device, mode=mode, file_name=name, source=data,
                   seed=torch.randint(256, (32,), dtype=torch.uint8).numpy().tobytes())

    def run(self, source: str | bytes, problem: Problem, mode: Mode = Mode.BENCHMARK, name: str = "submission.py",
            within_s: float = LONGEST_JUDGING_S) -> tuple[Verdict, float]:
        """A verdict, and the seconds from claim to verdict. Raises TimeoutError for one that takes longer."""
        job, started = self.job(source, problem, mode, name), time.monotonic()
        with at_most(within_s):
            verdict = self.judge.judge(job, lambda kind, data: None, lambda: False)
        return verdict, time.monotonic() - started

    def warm(self, boxes: int, house_boxes: int = 1) -> None:
        """Start the boxes of a section and wait until they are ready: none starts later, while something is measured.

        `house_boxes`: one for each referee that has none yet.
        """
        sizes = [(self.judge._pool(self.device), boxes), (self.judge._house_pool(self.device), house_boxes)]
        for pool, size in sizes:
            pool._size = size
            pool.refill()
        for pool, _ in sizes:
            pool.settle()
            pool._size = 0

    def section(self, name: str, work: Callable[["Bench"], Any]) -> None:
        """Run one part; a failure is written down, and the next part goes on."""
        started = time.monotonic()
        print(f"== {name}", flush=True)
        try:
            self.keep(name, work(self))
        except Exception:
            self.keep(name, {"failed": traceback.format_exc()[-3000:]})
            print(self.results[name]["failed"], flush=True)
        self.keep(f"{name}_s", round(time.monotonic() - started, 1))

    def keep(self, name: str, found: Any) -> None:
        """Write down what was found, so that nothing is lost when the rest is cut short."""
        self.results[name] = found
        self.options.out.write_text(json.dumps(self.results, indent=1, default=str) + "\n")


@contextmanager
def open_bench(options: Options) -> Iterator[Bench]:
    """A bench with a judge of its own, whose boxes start only when a section asks for them."""
    bench = Bench(options, open_judge(Settings.from_env(), "bubblewrap"))
    bench.judge._warm_boxes = 0
    bench.keep("machine", machine())
    try:
        yield bench
    finally:
        bench.judge.close()
        bench.keep("machine_after", machine())


@contextmanager
def vector_add(cases: list[dict[str, Any]], time_s: float = 20) -> Iterator[Problem]:
    """The problem with other cases for a GPU, and none hidden."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "problems/warmup/vector_add")
        shutil.copytree(ROOT / "problems/warmup/vector_add", folder)
        shutil.copytree(ROOT / "reference_kernels/vector_add", Path(root, "reference_kernels/vector_add"))
        spec = yaml.safe_load((folder / "problem.yml").read_text())
        spec["cases"]["gpu"] = cases
        spec["limits"]["time_s"] = time_s
        spec["hidden"].pop("gpu", None)
        (folder / "problem.yml").write_text(yaml.safe_dump(spec, sort_keys=False))
        yield load_problem(folder)


def case(n: int, dtype: str = "float16") -> dict[str, Any]:
    """One case of vector_add."""
    return {"name": f"n{n}", "axes": {"n": n}, "dtype": dtype}


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises TimeoutError in the main thread when the body takes longer."""
    def give_up(number: int, frame: Any) -> None:
        raise TimeoutError(f"It took longer than {seconds:g} s.")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def machine() -> dict[str, Any]:
    """The GPU's state and the versions, now."""
    query = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active"
    said = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    return {"nvidia_smi": said, "query": query, "kernel": Path("/proc/version").read_text().strip(),
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "python": sys.version.split()[0],
            "versions": {name: version(name) for name in ("torch", "triton", "cuda-bindings")}}
