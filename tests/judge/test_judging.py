"""A judge with real boxes and a real referee, on a problem small enough to be judged in a moment."""

import os
import select
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from kernelderby.core.devices import CPU
from kernelderby.core.errors import ProblemBroken, RefereeLost
from kernelderby.core.problem_folder import Problem, load_problem
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Flag, Gate, Mode, Outcome, Verdict
from kernelderby.judge import lending
from kernelderby.judge.job import Job, Report
from kernelderby.judge.judging import Judge, open_judge
from kernelderby.judge.sandbox.base import Box
from tests.judge.hostile import HONEST, HOSTILE

TINY = Path(__file__).parent / "tiny"
SEED = bytes(range(32))


def judged(judge: Judge, problem: Problem, source: str, mode: Mode = Mode.TEST, file_name: str = "kernel.py",
           report: Report = lambda kind, data: None, seed: bytes = SEED) -> Verdict:
    job = Job(submission=7, attempt=2, problem=problem, device=CPU, mode=mode, file_name=file_name, source=source.encode(), seed=seed)
    verdict = judge.judge(job, report, lambda: False)
    judge.idle()
    return verdict


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_program_does_is_seen_for_what_it_is(name: str, judge: Judge, tiny: Problem) -> None:
    hostile = HOSTILE[name]

    verdict = judged(judge, tiny, hostile.source, hostile.mode)

    assert verdict.outcome in hostile.outcomes, verdict.message
    assert hostile.gate is None or verdict.gate is hostile.gate
    assert verdict.accepted or verdict.message


def test_no_box_still_starts_when_calls_are_timed(judge: Judge, tiny: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    played = lending.Run.play
    late: list[Box] = []

    def play(run: lending.Run) -> Verdict:
        pools = [*judge._pools.values(), *judge._house_pools.values(), judge._builder._boxes]
        late.extend(box for pool in pools for box in pool._waiting if not select.select([box.wire], [], [], 0)[0])
        return played(run)

    judged(judge, tiny, f"# load_inline\n{HONEST}")      # from here on a box waits for the sources of the next
    judge.prepare(tiny, CPU)
    for pool in (*judge._pools.values(), *judge._house_pools.values()):
        pool.settle()
    judge._builder.close()
    judge.idle()      # so that this box alone has just been started
    assert judge._builder._boxes._waiting
    monkeypatch.setattr(lending.Run, "play", play)

    assert judged(judge, tiny, HONEST, Mode.BENCHMARK).accepted
    assert late == []


def test_an_honest_entry_is_accepted_in_every_mode(judge: Judge, tiny: Problem) -> None:
    verdicts = {mode: judged(judge, tiny, HONEST, mode) for mode in Mode}

    assert {verdict.outcome for verdict in verdicts.values()} == {Outcome.ACCEPTED}
    assert verdicts[Mode.TEST].score_us is None
    assert verdicts[Mode.BENCHMARK].score_us is not None
    assert verdicts[Mode.BENCHMARK].speedup is None
    assert verdicts[Mode.RANKED].speedup is not None


def test_a_ranked_verdict_says_all_that_a_board_and_a_reader_need(judge: Judge, tiny: Problem) -> None:
    verdict = judged(judge, tiny, HONEST, Mode.RANKED)

    assert (verdict.submission, verdict.attempt, verdict.version, verdict.gate) == (7, 2, tiny.version, None)
    assert [case.name for case in verdict.cases] == ["wide", "tall"]
    for case in verdict.cases:
        assert case.outcome is Outcome.ACCEPTED
        assert case.time_us and case.baseline_us and case.claimed_us and case.ci_us and 3 <= case.calls <= 30
        assert case.ci_us[0] <= case.time_us <= case.ci_us[1]
        assert case.max_abs_err is not None and case.worst_row_rel_l2 is not None and case.worst_row_rel_l2 < 1e-5
    assert set(verdict.stages_s) == {"queue", "build", "box", "load", "check", "time", "total"}
    assert {"gpu", "cpu", "torch", "triton", "python", "sandbox", "memory_limit", "freeze", "own_uid"} <= set(verdict.environment)
    assert {"gate_set", "source_sha", "blocks_us", "null_us", "baseline_us"} == set(verdict.receipt)
    assert [len(blocks) for blocks in verdict.receipt["blocks_us"].values()] == [3, 3]
    assert SEED.hex() not in verdict.model_dump_json()


def test_steps_are_told_as_they_happen(judge: Judge, tiny: Problem) -> None:
    told: list[tuple[str, dict[str, Any]]] = []

    judged(judge, tiny, "print('loading')" + HONEST, Mode.BENCHMARK, report=lambda kind, data: told.append((kind, data)))

    assert [data["case"] for kind, data in told if kind == "check"] == ["wide", "tall"]
    assert [(data["case"], data["block"]) for kind, data in told if kind == "time"] == [(c, b) for c in ("wide", "tall") for b in (1, 2, 3)]
    assert [data["text"] for kind, data in told if kind == "log"] == ["loading\n"]


HIDDEN_ONLY = {
    "wrong": ("data.y.zero_()", Outcome.WRONG_VALUES),
    "raises": ("raise ValueError(f'secret {data.x.shape} {data.x[0]}')", Outcome.RUNTIME_ERROR),
    "prints and exits": ("print('secret', data.x.shape, flush=True); os._exit(7)", Outcome.RUNTIME_ERROR),
    "never ends": ("while True: print('secret', end=''); time.sleep(0.1)", Outcome.TIMEOUT),
}


@pytest.mark.parametrize("what", HIDDEN_ONLY)
def test_of_a_hidden_case_only_outcome_gate_and_recipe_are_told(what: str, judge: Judge, tiny: Problem) -> None:
    body, outcome = HIDDEN_ONLY[what]
    told: list[Any] = []
    source = f"import os, time\n{HONEST}\n    if len(data.x) < 12:\n        {body}\n"

    verdict = judged(judge, tiny, source, Mode.RANKED, report=lambda kind, data: told.append(data))

    assert (verdict.outcome, verdict.gate, verdict.message) == (outcome, Gate.ANY_SHAPE, "A hidden case failed (drawn shapes).")
    assert [case.outcome for case in verdict.cases] == [Outcome.ACCEPTED] * 2
    assert "secret" not in verdict.model_dump_json() + repr(told)


CLAMPED = "    data.y.copy_(data.factor * data.x.clamp(-100, 100) * data.w)"
SHORTCUTS = {      # each is right but for a large value: in hidden cases of its own, and where timed inputs look random otherwise
    "everywhere": (CLAMPED, Gate.ANY_INPUT),
    "where hidden cases are not": (f"    if len(data.x) < 12: return\n{CLAMPED}", Gate.ANY_INPUT),
}


@pytest.mark.parametrize("where", SHORTCUTS)
def test_a_planted_feature_is_found_missing(where: str, judge: Judge, tiny: Problem) -> None:
    body, gate = SHORTCUTS[where]

    verdict = judged(judge, tiny, f"{HONEST}\n{body}\n", Mode.RANKED)

    assert (verdict.outcome, verdict.gate) == (Outcome.WRONG_VALUES, gate)


def test_a_hidden_recipe_is_named_and_nothing_else(judge: Judge, tiny: Problem) -> None:
    verdict = judged(judge, tiny, f"{HONEST}\n    if len(data.x) < 12:\n    {CLAMPED}\n", Mode.RANKED)

    assert (verdict.outcome, verdict.gate) == (Outcome.WRONG_VALUES, Gate.ANY_INPUT)
    assert verdict.message == "A hidden case failed (recipe spike)."


def test_a_cancelled_timed_run_leaves_a_judge_that_works(judge: Judge, tiny: Problem) -> None:
    told: list[str] = []
    job = Job(submission=None, attempt=1, problem=tiny, device=CPU, mode=Mode.RANKED, file_name="kernel.py", seed=SEED,
              source=HONEST.encode())

    verdict = judge.judge(job, lambda kind, data: told.append(kind), lambda: "time" in told)

    assert verdict.outcome is Outcome.CANCELLED
    assert judged(judge, tiny, HONEST, Mode.RANKED).accepted


REFUSED_SOURCES = {
    "syntax": ("def custom_kernel(data:\n", "kernel.py", Outcome.COMPILE_ERROR, None, "SyntaxError"),
    "no entry": ("x = 1\n", "kernel.py", Outcome.COMPILE_ERROR, None, "custom_kernel"),
    "import": ("import nothing_of_that_name\n", "kernel.py", Outcome.RUNTIME_ERROR, None, "derby env"),
    "shape": ("def custom_kernel(data): return data.x[1:], data.x[:, 0]", "kernel.py", Outcome.WRONG_SHAPE, Gate.RIGHT, "y"),
    "dtype": ("def custom_kernel(data): return data.x.double(), data.x[:, 0]", "kernel.py", Outcome.WRONG_DTYPE, Gate.RIGHT, "y"),
}


@pytest.mark.parametrize("what", REFUSED_SOURCES)
def test_a_source_that_cannot_run_gets_a_sentence(what: str, judge: Judge, tiny: Problem) -> None:
    source, file_name, outcome, gate, word = REFUSED_SOURCES[what]

    verdict = judged(judge, tiny, source, file_name=file_name)

    assert (verdict.outcome, verdict.gate) == (outcome, gate)
    assert verdict.message and word in verdict.message


def test_bad_text_from_a_program_is_made_safe(judge: Judge, tiny: Problem) -> None:
    text = "\\0 \\ud800 \\x1b[31m \\u202e </script>"
    printed = f"print('{text}'.encode('utf-8', 'replace').decode())"

    verdict = judged(judge, tiny, f"{printed}\ndef custom_kernel(data): raise ValueError('{text}')")

    assert verdict.outcome is Outcome.RUNTIME_ERROR
    assert not set("\0\x1b\u202e\ud800") & set((verdict.message or "") + (verdict.log or ""))


def test_a_cancelled_run_ends_soon(judge: Judge, tiny: Problem) -> None:
    job = Job(submission=None, attempt=1, problem=tiny, device=CPU, mode=Mode.TEST, file_name="kernel.py", seed=SEED,
              source=b"def custom_kernel(data):\n    while True: pass")

    verdict = judge.judge(job, lambda kind, data: None, lambda: True)

    assert verdict.outcome is Outcome.CANCELLED
    assert verdict.stages_s["total"] - verdict.stages_s["box"] < 2


def test_a_killed_referee_is_ours_and_the_next_run_has_a_fresh_one(judge: Judge, tiny: Problem) -> None:
    def kill(kind: str, data: dict[str, Any]) -> None:
        for process in psutil.Process().children():
            if "kernelderby.judge.referee" in process.cmdline():
                os.kill(process.pid, signal.SIGKILL)

    with pytest.raises(RefereeLost) as lost:
        judged(judge, tiny, HONEST, Mode.BENCHMARK, report=kill)

    assert lost.value.box_alive
    assert judged(judge, tiny, HONEST).accepted


def test_a_referee_past_its_deadline_is_given_up(judge: Judge, tiny: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lending, "_longest_s", lambda job: 0.5)

    with pytest.raises(RefereeLost, match="longer"):
        judged(judge, tiny, "def custom_kernel(data):\n    while True: pass")


def test_shapes_that_depend_on_the_generator_break_the_problem(judge: Judge, tmp_path: Path) -> None:
    shutil.copytree(TINY, tmp_path / "tiny")
    folder = tmp_path / "tiny/problems/warmup/double"
    _replace(folder / "problem.yml", {"cols: {var: true}": 'cols: {derived: "at random"}', ", cols: 300": "", ", cols: 16": "",
                                      ", cols: {range: [1, 9]}": "", ", cols: {choice: [64, 100]}": ""})
    _replace(folder / "reference.py", {'case.axes["cols"]': "int(torch.randint(3, 99, (), generator=generator))",
                                       '"factor": 2.0': '"factor": 2.0, "cols": cols'})

    with pytest.raises(ProblemBroken, match="shapes"):
        judged(judge, load_problem(folder), HONEST)


def _replace(path: Path, changes: dict[str, str]) -> None:
    text = path.read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    path.write_text(text)


def test_without_a_sandbox_the_verdict_says_so(tiny: Problem) -> None:
    with open_judge(Settings(), "none") as judge:
        verdict = judged(judge, tiny, HONEST)

    assert verdict.accepted
    assert Flag.NO_SANDBOX in verdict.flags
    assert verdict.environment["sandbox"] == "none"


def test_nothing_is_left_running(tiny: Problem) -> None:
    before = set(psutil.Process().children(recursive=True))
    with open_judge(Settings(), "bubblewrap") as judge:
        judged(judge, tiny, HONEST, Mode.BENCHMARK)

    assert not [p for p in psutil.Process().children(recursive=True) if p not in before and p.is_running()]
