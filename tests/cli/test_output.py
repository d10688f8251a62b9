"""A verdict as a person reads it."""

import json
from typing import Any

import pytest

from kernelderby.cli.output import SENTENCES, exit_status, print_json, ratio, table, verdict_lines
from kernelderby.cli.watch import progress_line
from kernelderby.core.verdict import CaseResult, CompileReport, Flag, Gate, Mode, Outcome, Verdict

BASE = Verdict(
    submission=12, problem="vector_add", version="9f2c", device="cpu", mode=Mode.RANKED, outcome=Outcome.ACCEPTED,
    score_us=1319.64, score_ci_us=(1319.0, 1320.3), speedup=1.384, rank=(4, 5),
    cases=[CaseResult(name="small", outcome=Outcome.ACCEPTED, time_us=1319.64, baseline_us=1826.0, max_abs_err=0.00123)],
    compile=[CompileReport(kernel="add", arch="sm_90a", registers=32, shared_bytes=0, spills=0, would_launch=True)],
)


def test_an_accepted_verdict_reads_as_a_sentence_a_table_and_a_next_step() -> None:
    assert verdict_lines(BASE) == [
        "Submission 12, vector_add on cpu, ranked: accepted, 1,319.6 µs (1,319.0 to 1,320.3), 1.38 × the baseline, rank 4–5.",
        "",
        "  case   outcome   time µs  baseline µs  speedup  max error",
        "  small  accepted  1,319.6      1,826.0     1.38    1.2e-03",
        "",
        "  Compiled for these GPUs, not run on them:",
        "  sm_90a add: 32 registers, 0 B shared, 0 spills, would launch",
        "",
        "See the board: derby board vector_add",
    ]


def test_a_failure_names_its_gate_and_shows_what_the_program_printed() -> None:
    failed = Verdict(submission=7, problem="p", version="v", device="cpu", mode=Mode.TEST, outcome=Outcome.WRONG_VALUES, gate=Gate.RIGHT,
                     message="index 3: 1.0, not 2.0", log="hello")

    lines = verdict_lines(failed)

    assert lines[0] == "Submission 7, p on cpu, test: wrong values (gate right)."
    assert "  index 3: 1.0, not 2.0" in lines
    assert "  hello" in lines
    assert lines[-1] == "Try a change here, without a server: derby judge FILE --problem p"


def test_advice_names_the_file_and_asks_for_the_mode_that_failed() -> None:
    failed = BASE.model_copy(update={"outcome": Outcome.NONFINITE, "gate": Gate.ANY_INPUT, "message": "A hidden case failed."})

    assert verdict_lines(failed, "my kernel.py")[-1].endswith("derby judge 'my kernel.py' --problem vector_add --mode ranked")
    assert "derby judge" not in verdict_lines(failed.model_copy(update={"submission": None}))[-1], "it was judged here already"


def test_a_case_is_explained_once_and_empty_columns_are_left_out() -> None:
    case = CaseResult(name="small", outcome=Outcome.TIMEOUT, message="Too long.")
    failed = BASE.model_copy(update={"outcome": Outcome.TIMEOUT, "message": "Case small: Too long. It is 4 s.", "cases": [case],
                                     "compile": []})

    assert verdict_lines(failed)[1:5] == ["  Case small: Too long. It is 4 s.", "", "  case   outcome", "  small  timeout"]


def test_what_an_accepted_test_printed_is_shown() -> None:
    assert "  hello" in verdict_lines(BASE.model_copy(update={"mode": Mode.TEST, "log": "hello"}))
    assert "  hello" not in verdict_lines(BASE.model_copy(update={"log": "hello"}))


@pytest.mark.parametrize("flag", Flag)
def test_every_flag_has_words(flag: Flag) -> None:
    assert any(line.startswith(f"  marked {flag}: ") for line in verdict_lines(BASE.model_copy(update={"flags": [flag]})))


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (1.384, "1.38"), (0.25, "0.25"), (0.0031, "0.0031"), (1234.5, "1,234.50")])
def test_a_small_ratio_keeps_its_digits(value: float | None, text: str) -> None:
    assert ratio(value) == text


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_words_and_a_status(outcome: Outcome) -> None:
    verdict = BASE.model_copy(update={"outcome": outcome})

    assert SENTENCES[outcome] in verdict_lines(verdict)[0]
    assert exit_status(verdict) == {"accepted": 0, "judge_error": 3}.get(outcome, 1)


def test_json_is_one_line_of_finite_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(BASE.model_dump(mode="json"))

    assert json.loads(capsys.readouterr().out)["score_us"] == 1319.64
    with pytest.raises(ValueError, match="Out of range"):
        print_json({"x": float("nan")})


def test_columns_of_numbers_stand_to_the_right() -> None:
    assert table(("a", "b"), [("x", "1"), ("long", "10")]) == ["  a      b", "  x      1", "  long  10"]


def test_progress_says_that_it_compiles_only_where_something_does() -> None:
    states: list[tuple[str, dict[str, Any]]] = [("state", {"state": state}) for state in ("queued", "building", "running", "done")]
    steps = [*states[:3], ("build", {"message": "Compiling"}), states[3]]

    assert [line.strip() for kind, data in steps if (line := progress_line(kind, data))] == ["queued", "running", "compiling"]
