"""`derby duel`: two submissions on a server, two files here."""

import json
from pathlib import Path

import pytest

from kernelderby.cli.board import board_lines
from kernelderby.cli.duel import duel_lines
from kernelderby.core.duel import Duel, DuelCase, Fallen, with_result
from kernelderby.core.verdict import Gate, Outcome
from tests.cli.conftest import ROOT, Shell
from tests.judge.hostile import HONEST

GOOD = ROOT / "problems/warmup/vector_add/submissions/accepted/torch.py"
TINY = ROOT / "tests/judge/tiny/problems/warmup/double"
EMPTY = Duel(problem="doubling", version="v", device="cpu")


def dueled(a_us: float, b_us: float) -> Duel:
    return with_result(EMPTY.model_copy(update={"cases": [DuelCase(name="tiny", a_us=[[a_us]] * 2, b_us=[[b_us]] * 2)]}))


FELL = Fallen(entry="b", outcome=Outcome.WRONG_VALUES, gate=Gate.RIGHT, message="Element 3 is off.")
SAID = {
    "a wins": (dueled(1, 2), ["one.py is faster.", "one.py takes 0.5000 times as long as two.py"]),
    "b wins": (dueled(2, 1), ["two.py is faster."]),
    "a tie": (dueled(1, 1), ["No difference shown.", "1.0000"]),
    "far apart": (dueled(177.27, 1), ["one.py takes 177 times"]),
    "void": (EMPTY.model_copy(update={"void": "It was disturbed."}), ["void", "disturbed"]),
    "b fell": (EMPTY.model_copy(update={"fallen": FELL}), ["two.py: wrong values (gate right)", "Element 3"]),
}


@pytest.mark.parametrize("what", SAID)
def test_a_duel_is_said_in_a_sentence(what: str) -> None:
    duel, words = SAID[what]

    said = "\n".join(duel_lines(duel, "one.py", "two.py"))

    assert all(word in said for word in words), said


@pytest.mark.parametrize(("leader", "is_told"), [(None, False), (1, False), (2, True)])
def test_a_board_says_who_leads_where_it_is_not_the_first_row(leader: int | None, is_told: bool) -> None:
    row = {"rank": [1, 2], "person": "ada", "score_us": 1.0, "speedup": None, "language": "torch"}
    data = {"problem": "p", "device": "h200", "version": "v", "leader": leader, "rows": [row | {"submission": n} for n in (1, 2)]}

    assert ("Submission 2 leads" in "\n".join(board_lines(data))) == is_told


def test_a_file_and_a_submission_do_not_meet(shell: Shell) -> None:
    done = shell.derby("duel", "12", "kernel.py")

    assert done.returncode == 2
    assert "two submissions, or two files" in done.stderr


@pytest.mark.parametrize("entry", ["\N{SUPERSCRIPT TWO}", "9" * 5000, "x" * 5000, "."])
def test_what_is_neither_submission_nor_file_is_told(shell: Shell, entry: str) -> None:
    done = shell.derby("duel", entry, entry, "--problem", str(TINY))

    assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr


def test_two_files_meet_here(shell: Shell) -> None:
    for name in ("one.py", "two.py"):
        (shell.folder / name).write_text(HONEST)

    done = shell.derby("duel", "one.py", "two.py", "--problem", str(TINY), "--sandbox", "none", "--json")

    assert done.returncode == 0, done.stderr
    found = Duel.model_validate(json.loads(done.stdout))
    assert found.is_decided and found.ratio and found.problem == "double"


def test_two_submissions_meet_on_a_server(platform: Shell, tmp_path: Path) -> None:
    numbers = []
    for comment in ("one", "two"):
        file = tmp_path / f"{comment}.py"
        file.write_text(f"{GOOD.read_text()}\n# {comment}\n")
        sent = platform.derby("submit", str(file), "--problem", "vector_add", "--mode", "ranked", "--licence", "MIT", "--json")
        assert sent.returncode == 0, sent.stderr
        numbers.append(str(json.loads(sent.stdout)["submission"]))

    done = platform.derby("duel", *numbers, "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["state"], [str(found["a"]), str(found["b"])], found["for_crown"]) == ("done", numbers, False)
    assert Duel.model_validate(found["result"]).is_decided

