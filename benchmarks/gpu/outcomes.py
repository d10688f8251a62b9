"""Each program of ours gets the outcome that it must."""

from pathlib import Path
from typing import Any

from benchmarks.gpu.bench import Bench, case, vector_add
from kernelderby.core.errors import DerbyError
from kernelderby.core.problem_folder import Problem
from kernelderby.core.settings import ROOT
from kernelderby.core.verdict import Mode

N = 16_777_216
PROGRAMS: list[tuple[str, str, Mode]] = [      # the outcome, a file of ours
    ("accepted", "problems/warmup/vector_add/starter_torch.py", Mode.BENCHMARK),
    ("accepted", "problems/warmup/vector_add/starter.py", Mode.BENCHMARK),
    ("accepted", "tests/judge/gpu/programs/returns.py", Mode.BENCHMARK),
    ("accepted", "tests/judge/gpu/programs/synchronises.py", Mode.BENCHMARK),
    ("wrong_values", "tests/judge/gpu/programs/wrong.py", Mode.TEST),
    ("wrong_values", "tests/judge/gpu/programs/null.py", Mode.BENCHMARK),
    ("illegal_memory", "tests/judge/gpu/programs/crash_at_once.py", Mode.TEST),
    ("illegal_memory", "tests/judge/gpu/programs/crash_in_a_call.py", Mode.BENCHMARK),
    ("timeout", "tests/judge/gpu/programs/endless.py", Mode.BENCHMARK),
]


def measure(bench: Bench) -> Any:
    """A row a program: wanted, got, seconds."""
    bench.warm(len(PROGRAMS) + 2)
    rows: list[Any] = []
    with vector_add([case(N)], time_s=4) as problem:
        for wanted, path, mode in PROGRAMS:
            rows.append(_row(bench, problem, wanted, path, mode))
            bench.keep("outcomes", rows)
    return rows


def _row(bench: Bench, problem: Problem, wanted: str, path: str, mode: Mode) -> dict[str, Any]:
    name = Path(path).stem
    try:
        verdict, seconds = bench.run((ROOT / path).read_bytes(), problem, mode)
    except (DerbyError, TimeoutError) as error:
        print(f"{name:18s} FAILED {type(error).__name__} {error}", flush=True)
        return {"name": name, "wanted": wanted, "got": None, "failed": str(error)}
    first = verdict.cases[0] if verdict.cases else None
    print(f"{name:18s} {verdict.outcome!s:16s} wanted {wanted:16s} {seconds:6.2f} s  {first and first.time_us}  "
          f"{(verdict.message or '')[:100]}", flush=True)
    return {"name": name, "wanted": wanted, "got": str(verdict.outcome), "seconds": round(seconds, 3),
            "verdict": verdict.model_dump(mode="json")}
