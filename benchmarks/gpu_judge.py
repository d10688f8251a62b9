"""The GPU judge, measured: outcomes, speed, agreement with device events, spread, attacks. Needs one GPU; prints tables, writes JSON.

`python benchmarks/gpu_judge.py --out FILE [--device h200] [--only outcomes,speed,agreement,spread,attacks]`
"""

import argparse
import importlib.util
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml

from kernelderby.core.devices import device
from kernelderby.core.errors import DerbyError
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import ROOT, Settings
from kernelderby.core.verdict import Mode, Verdict
from kernelderby.judge import referees
from kernelderby.judge.judging import Job, Judge, open_judge

HERE = Path(__file__).resolve().parent
ATTACKS = HERE.parent / "tests/judge/gpu/attacks"
HONEST = "import torch\ndef custom_kernel(data):\n    torch.add(data.a, data.b, out=data.c)\n"
LONGEST_JUDGING_S = 45


class Bench:
    """One judge, one device class, and what was measured."""

    def __init__(self, name: str, out: Path) -> None:
        self.device, self.out = device(name), out
        self.results: dict[str, Any] = {"machine": machine()}
        self.judge = open_judge(Settings(), "bubblewrap")
        self.gallery = GALLERY
        self.judge._warm_boxes = 0

    def run(self, source: str | bytes, problem: Problem, mode: Mode = Mode.BENCHMARK, name: str = "submission.py") -> tuple[Verdict, float]:
        """A verdict, and the seconds from claim to verdict."""
        data = source.encode() if isinstance(source, str) else source
        job = Job(submission=None, attempt=1, problem=problem, device=self.device, mode=mode, file_name=name, source=data,
                  seed=torch.randint(256, (32,), dtype=torch.uint8).numpy().tobytes())
        started = time.monotonic()
        signal.alarm(LONGEST_JUDGING_S)
        try:
            verdict = self.judge.judge(job, lambda kind, data: None, lambda: False)
        finally:
            signal.alarm(0)
        return verdict, time.monotonic() - started

    def warm(self, size: int) -> None:
        """Start all the boxes of a section and wait until they are ready; none starts later, while something is measured."""
        pool = self.judge._pool(self.device)
        pool._size = size
        pool.refill()
        pool.settle()
        pool._size = 0

    def section(self, name: str, work: Callable[["Bench"], Any]) -> None:
        """Run one part; a failure is written down, and the next part goes on."""
        started = time.monotonic()
        try:
            self.results[name] = work(self)
        except Exception:
            self.results[name] = {"failed": traceback.format_exc()[-3000:]}
            print(self.results[name]["failed"], flush=True)
        self.results[f"{name}_s"] = round(time.monotonic() - started, 1)
        self.out.write_text(json.dumps(self.results, indent=1, default=str))


@contextmanager
def vector_add(cases: list[dict[str, Any]], time_s: float = 20) -> Iterator[Problem]:
    """The problem with other cases for a GPU."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "problems/warmup/vector_add")
        shutil.copytree(ROOT / "problems/warmup/vector_add", folder)
        shutil.copytree(ROOT / "reference_kernels/vector_add", Path(root, "reference_kernels/vector_add"))
        spec = yaml.safe_load((folder / "problem.yml").read_text())
        spec["cases"]["gpu"] = cases
        spec["limits"]["time_s"] = time_s
        spec["hidden"].pop("gpu")
        (folder / "problem.yml").write_text(yaml.safe_dump(spec, sort_keys=False))
        yield load_problem(folder)


def case(n: int, dtype: str = "float16") -> dict[str, Any]:
    return {"name": f"n{n}", "axes": {"n": n}, "dtype": dtype}


def outcomes(bench: Bench) -> Any:
    """Each program gets the outcome that it must."""
    bench.warm(len(PROGRAMS) + 1)
    rows: list[Any] = []
    with vector_add([case(16_777_216)], time_s=4) as problem:
        for wanted, path, mode in PROGRAMS:
            name, source = Path(path).stem, (ROOT / path).read_bytes()
            try:
                verdict, seconds = bench.run(source, problem, mode)
            except (DerbyError, TimeoutError) as error:
                print(name, "FAILED", type(error).__name__, error, flush=True)
                rows.append({"name": name, "wanted": wanted, "failed": str(error)})
                continue
            finally:
                bench.out.write_text(json.dumps(bench.results | {"outcomes_so_far": rows}, indent=1, default=str))
            first = verdict.cases[0] if verdict.cases else None
            rows.append({"name": name, "wanted": wanted, "seconds": round(seconds, 3), "verdict": verdict.model_dump(mode="json")})
            print(f"{name:18s} {verdict.outcome!s:16s} wanted {wanted:16s} {seconds:6.2f} s  {first and first.time_us}  "
                  f"{(verdict.message or '')[:100]}", flush=True)
    return rows


def speed(bench: Bench) -> Any:
    """vector_add at 16384², fp16, 100 timed calls: from claim to verdict."""
    rows = []
    with vector_add([case(16384**2)]) as problem:
        bench.warm(5)
        bench.run(HONEST, problem, Mode.BENCHMARK)      # the referee of this problem starts, and its house box
        for mode in (Mode.BENCHMARK, Mode.BENCHMARK, Mode.RANKED):
            verdict, seconds = bench.run(HONEST, problem, mode)
            first = verdict.cases[0]
            rows.append({"seconds": seconds, "verdict": verdict.model_dump(mode="json")})
            print(f"speed {mode!s:10s} {verdict.outcome!s} {seconds:.2f} s, {first.calls} calls, {first.time_us} µs, "
                  f"claimed {first.claimed_us}, share of light {first.speed_of_light}, {verdict.stages_s}", flush=True)
    return rows


def agreement(bench: Bench) -> Any:
    """The referee's number beside the box's own device events of the very same calls."""
    source = (HERE / "gpu_kernels/slow_add.py").read_bytes()
    sizes = [2_097_152, 4_194_304, 16_777_216, 67_108_864, 268_435_456, 1_000_001, 1_000_003, 1_000_005, 33_554_432, 50_331_648]
    empty_us = event_of_nothing()
    rows = []
    bench.warm(2)
    with vector_add([case(n) for n in sizes]) as problem:
        verdict, seconds = bench.run(source, problem)
        print("agreement", verdict.outcome, verdict.message, round(seconds, 2), "s; an event pair around nothing", empty_us, flush=True)
        for result in verdict.cases:
            if result.time_us is None:
                continue
            event = result.claimed_us - empty_us
            apart = result.time_us - event
            rows.append({"case": result.name, "referee_us": result.time_us, "event_us": event, "difference_us": apart,
                         "holds": abs(apart) <= 0.01 * event + 1})
            print(f"{result.name:14s} referee {result.time_us:9.2f}  event {event:9.2f}  difference {apart:+7.2f} µs "
                  f"{'ok' if rows[-1]['holds'] else 'NOT'} armed {result.armed}", flush=True)
    return {"empty_event_us": empty_us, "rows": rows, "seconds": seconds, "verdict": verdict.model_dump(mode="json")}


def spread(bench: Bench, times: int = 20) -> Any:
    """The score of an unchanged kernel over separate judgings, beside two rules of in-process timers."""
    scores, seconds, rows = [], [], []
    with vector_add([case(67_108_864)]) as problem:
        bench.warm(times + 2)
        bench.run(HONEST, problem, Mode.TEST)
        for _ in range(times):
            verdict, took = bench.run(HONEST, problem)
            scores.append(verdict.score_us)
            seconds.append(took)
            rows.append({"null_us": statistics.median(verdict.receipt["null_us"]["n67108864"]), "claimed_us": verdict.cases[0].claimed_us,
                         "net_us": verdict.receipt["blocks_us"]["n67108864"]})
    do_bench, incumbent = zip(*(in_process(67_108_864) for _ in range(times)), strict=True)
    found: dict[str, Any] = {"rows": rows, "judge": scores, "do_bench": do_bench, "incumbent": incumbent, "seconds": seconds}
    for name in ("judge", "do_bench", "incumbent"):
        print(f"spread {name:10s} mean {statistics.mean(found[name]):8.2f} µs, coefficient of variation "
              f"{statistics.stdev(found[name]) / statistics.mean(found[name]):.3%}", flush=True)
    return found


def attacks(bench: Bench) -> Any:
    """Each attack: what it gains on a plain in-process timer or with one defence missing, and what it gets from us."""
    rows: list[Any] = []
    bench.warm(2 * len(bench.gallery) + 2 * sum(1 for *_, missing in bench.gallery if missing) + 1)
    for name, n, missing in bench.gallery:
        with vector_add([case(n)]) as problem:
            source = (ATTACKS / f"{name}.py").read_text()
            honest = HONEST if name != "parked" else source.replace("if is_armed():", "if False:")
            twin, _ = bench.run(honest, problem)
            verdict, _ = bench.run(source, problem)
            plain, plain_honest = (plain_timer(text, n) for text in (source, honest))
            weak = with_missing(missing, honest, source, problem, bench) if missing else None
            rows.append({"attack": name, "honest_us": twin.score_us, "plain_us": plain, "plain_honest_us": plain_honest, "without": missing,
                         "weak": weak, "verdict": verdict.model_dump(mode="json")})
            weakly = weak and (weak["outcome"], weak["score_us"], weak["honest_us"])
            print(f"{name:20s} {verdict.outcome!s:14s} ours {verdict.score_us} (honest {twin.score_us})  "
                  f"plain {plain} (honest {plain_honest})  without {missing}: {weakly}  {(verdict.message or '')[:90]}", flush=True)
            bench.out.write_text(json.dumps(bench.results | {"attacks_so_far": rows}, indent=1, default=str))
    return rows


def with_missing(defence: str, honest: str, source: str, problem: Problem, bench: Bench) -> Any:
    """The same two programs before a referee that lacks one defence."""
    true_popen = subprocess.Popen

    def popen(command: list[str], **options: Any) -> Any:
        if command[1:3] == ["-m", "kernelderby.judge.referee"]:
            command = [command[0], str(HERE / "gpu_weakened_referee.py"), defence, *command[3:]]
        return true_popen(command, **options)

    judge: Judge = bench.judge
    kept, judge._referees = judge._referees, referees.Referees()
    referees.subprocess.Popen = popen      # type: ignore[misc,assignment]
    try:
        twin, _ = bench.run(honest, problem)
        verdict, _ = bench.run(source, problem)
    finally:
        referees.subprocess.Popen = true_popen      # type: ignore[misc]
        judge._referees.close()
        judge._referees = kept
    return {"outcome": str(verdict.outcome), "message": verdict.message, "score_us": verdict.score_us, "honest_us": twin.score_us}


def plain_timer(source: str, n: int, calls: int = 30) -> float | None:
    """The median of an in-process timer as peers have it: events around the call, a look at the result afterwards. None: wrong result."""
    path = Path(tempfile.mkdtemp(), "submission.py")
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("plain_submission", path)
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    true_elapsed, true_clock = torch.cuda.Event.elapsed_time, time.perf_counter
    try:
        spec.loader.exec_module(loaded)
        return _plain(loaded.custom_kernel, n, calls)
    except Exception as error:
        print("plain timer:", type(error).__name__, str(error)[:200], flush=True)
        return None
    finally:
        torch.cuda.Event.elapsed_time, time.perf_counter = true_elapsed, true_clock      # type: ignore[method-assign]


def _plain(kernel: Callable[[Any], Any], n: int, calls: int) -> float | None:
    a, b = (torch.randn(n, device="cuda").half() for _ in "ab")
    data = namedtuple("data", "a b c")(a, b, torch.empty_like(a))      # noqa: PYI024
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    kernel(data)
    torch.cuda.synchronize()
    taken, good = [], True
    for _ in range(calls):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        begin.record()
        returned = kernel(data)
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) * 1000)
        expected = a + b
        time.sleep(0.002)
        good &= bool(torch.allclose((data.c if returned is None else returned), expected))
    return statistics.median(taken) if good else None


def in_process(n: int) -> tuple[float, float]:
    """Triton's do_bench median, and a mean of events that stops at 0.1 % error or 100 calls."""
    import triton

    a, b = (torch.randn(n, device="cuda").half() for _ in "ab")
    c = torch.empty_like(a)
    median = triton.testing.do_bench(lambda: torch.add(a, b, out=c), return_mode="median") * 1000
    taken: list[float] = []
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    while len(taken) < 100:
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        begin.record()
        torch.add(a, b, out=c)
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) * 1000)
        if len(taken) > 2 and statistics.stdev(taken) / len(taken) ** 0.5 < 0.001 * statistics.mean(taken):
            break
    return median, statistics.mean(taken)


def event_of_nothing() -> float:
    """What a pair of events shows around no work at all, behind a wait as calls have it, in µs."""
    from kernelderby.judge.box.cuda import driver

    word = torch.zeros(2, dtype=torch.int64).pin_memory()
    taken = []
    for i in range(1, 101):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
        driver.wait_until(driver.LEGACY, word.data_ptr(), i)
        begin.record(torch.cuda.default_stream())
        end.record(torch.cuda.default_stream())
        driver.write_word(driver.LEGACY, word.data_ptr() + 8, i)
        time.sleep(0.0002)
        word[0] = i
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) * 1000)
    return statistics.median(taken)


def machine() -> dict[str, Any]:
    query = "name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.draw,temperature.gpu,clocks_event_reasons.active"
    said = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    return {"nvidia_smi": said, "query": query, "kernel": Path("/proc/version").read_text().strip(),
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "python": sys.version.split()[0],
            "versions": {name: version(name) for name in ("torch", "triton", "cuda-bindings")}}


def _give_up(number: int, frame: Any) -> None:
    raise TimeoutError(f"a judging took longer than {LONGEST_JUDGING_S} s")


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
GALLERY: list[tuple[str, int, str | None]] = [    # name, size, the defence without which it wins when no plain timer falls for it
    ("side_stream", 67_108_864, None),
    ("thread_after_return", 268_435_456, None),
    ("claim_shade", 67_108_864, None),
    ("reuse", 67_108_864, None),
    ("lazy_tensor", 67_108_864, None),
    ("early_done", 67_108_864, "looks"),
    ("unpoison_first", 67_108_864, "looks"),
    ("null_inflate", 67_108_864, "twin"),
    ("parked", 1_048_576, "band"),
    ("resident", 67_108_864, "band"),
]
SECTIONS: dict[str, Callable[[Bench], Any]] = {
    "outcomes": outcomes, "speed": speed, "agreement": agreement, "spread": spread, "attacks": attacks,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--attacks", default=",".join(name for name, *_ in GALLERY))
    options = parser.parse_args()
    wanted, attackers = options.only.split(","), options.attacks.split(",")
    signal.signal(signal.SIGALRM, _give_up)
    bench = Bench(options.device, options.out)
    bench.gallery = [attack for attack in GALLERY if attack[0] in attackers]
    try:
        for name in wanted:
            bench.section(name, SECTIONS[name])
    finally:
        bench.judge.close()
        bench.results["machine_after"] = machine()
        options.out.write_text(json.dumps(bench.results, indent=1, default=str))


if __name__ == "__main__":
    main()
