"""One case of vector_add on a GPU, and a judging of it."""

import shutil
from pathlib import Path

import yaml

from kernelderby.core.devices import device
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import ROOT
from kernelderby.core.verdict import Mode, Verdict
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge


def addition(root: Path, n: int) -> Problem:
    """vector_add in float16 with one case of `n` elements, and none hidden. `root` must be empty."""
    folder = root / "problems/warmup/vector_add"
    shutil.copytree(ROOT / "problems/warmup/vector_add", folder)
    shutil.copytree(ROOT / "reference_kernels/vector_add", root / "reference_kernels/vector_add")
    spec = yaml.safe_load((folder / "problem.yml").read_text())
    spec["cases"]["gpu"] = [{"name": f"n{n}", "axes": {"n": n}, "dtype": "float16"}]
    spec["hidden"].pop("gpu")
    (folder / "problem.yml").write_text(yaml.safe_dump(spec, sort_keys=False))
    return load_problem(folder)


def judged(judge: Judge, problem: Problem, gpu: str, source: str, mode: Mode = Mode.BENCHMARK) -> Verdict:
    """The verdict on an entry."""
    job = Job(submission=None, attempt=1, problem=problem, device=device(gpu), mode=mode, file_name="kernel.py", source=source.encode(),
              seed=bytes(range(32)))
    return judge.judge(job, lambda kind, data: None, lambda: False)
