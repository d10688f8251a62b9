"""How long a judging takes: an addition of 16384², the attention problems ranked, a `.cu` file built and built again, an extension."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu.bench import Bench, case, vector_add
from benchmarks.gpu.gallery import HONEST
from kernelderby.core.errors import DerbyError
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import ROOT
from kernelderby.core.verdict import Mode, Verdict

ATTENTION = ("attention/gqa_paged_decode", "attention/prefill_causal")
WARMED_WITHIN_S = 120.0     # a referee draws every case once
BOXES_A_RANKED_RUN = 3      # public cases, serving, hidden cases; each a box of its own
INLINE = ROOT / "tests/judge/gpu/programs/inline_hello.py"
CU = ROOT / "problems/warmup/vector_add/starter.cu"


def measure(bench: Bench) -> Any:
    """Seconds from claim to verdict, by what was judged."""
    found: dict[str, Any] = {}
    for name in bench.options.speed:
        try:
            found[name] = PARTS[name](bench)
        except (DerbyError, TimeoutError) as error:
            print(f"speed {name}: {type(error).__name__}: {error}", flush=True)
            found[name] = None
        bench.keep("speed", found)
    return found


def _vector_add(bench: Bench) -> list[dict[str, Any]]:
    """100 timed calls, each on fresh input and each checked."""
    with vector_add([case(16384**2)]) as problem:
        bench.warm(5)
        bench.run(HONEST, problem)      # the referee of this problem starts, and its house box
        return [_judged(bench, HONEST, problem, mode, "submission.py") for mode in (Mode.BENCHMARK, Mode.BENCHMARK, Mode.RANKED)]


def _ranked(bench: Bench, name: str) -> dict[str, Any] | None:
    """All cases and hidden cases of a problem, with its own starter. A judging before it warms the referee and its house box; all boxes
    that both need are warm."""
    folder = ROOT / "problems" / name
    if not (folder / "problem.yml").exists():
        print(f"speed {name}: there is no such problem", flush=True)
        return None
    problem = load_problem(folder)
    source = (folder / "starter.py").read_bytes()
    bench.warm(2 * BOXES_A_RANKED_RUN + 2)      # and two for cases that are played again unarmed
    bench.run(source, problem, Mode.BENCHMARK, within_s=WARMED_WITHIN_S)
    return _judged(bench, source, problem, Mode.RANKED, "submission.py")


def _cu(bench: Bench) -> list[dict[str, Any]] | None:
    """The same source three times: built on two cores, then from the cache. A comment of this moment makes it new to every cache."""
    if not CU.exists():
        print(f"speed {CU.name}: there is no such starter", flush=True)
        return None
    source = CU.read_bytes() + f"\n// {time.time_ns()}\n".encode()
    bench.warm(4)
    with vector_add([case(16_777_216)]) as problem:
        bench.run(HONEST, problem, Mode.TEST)
        with _two_cores():
            built = _judged(bench, source, problem, Mode.TEST, "submission.cu")
        return [built, *(_judged(bench, source, problem, Mode.TEST, "submission.cu") for _ in range(2))]


@contextmanager
def _two_cores() -> Iterator[None]:
    """What this thread starts meanwhile has no more."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _inline(bench: Bench) -> dict[str, Any]:
    """The smallest extension, new to every cache."""
    source = INLINE.read_text().replace('CUDA = """', f'CUDA = """\n// {time.time_ns()}\n', 1)
    bench.warm(4)
    with vector_add([case(16_777_216)]) as problem:
        bench.run(HONEST, problem, Mode.TEST)
        return _judged(bench, source, problem, Mode.TEST, "submission.py")


PARTS: dict[str, Callable[[Bench], Any]] = {
    "vector_add": _vector_add, **{Path(name).name: partial(_ranked, name=name) for name in ATTENTION}, "cu": _cu, "load_inline": _inline,
}


def _judged(bench: Bench, source: str | bytes, problem: Problem, mode: Mode, name: str) -> dict[str, Any]:
    verdict, seconds = bench.run(source, problem, mode, name)
    _print(problem, verdict, seconds)
    return {"seconds": seconds, "mode": str(mode), "verdict": verdict.model_dump(mode="json")}


def _print(problem: Problem, verdict: Verdict, seconds: float) -> None:
    first = verdict.cases[0] if verdict.cases else None
    print(f"speed {problem.name:18s} {verdict.mode!s:10s} {verdict.outcome!s} {seconds:.2f} s, {first and first.calls} calls, "
          f"{first and first.time_us} µs, share of light {first and first.speed_of_light}, {verdict.stages_s} "
          f"{(verdict.message or '')[:100]}", flush=True)
