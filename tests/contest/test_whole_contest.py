"""A whole contest by the command line, with real processes: thirty people and two agents, from its making to practice after it."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Shell
from tests.contest.arena import CONTEST, EXPLOIT, FAST, HONEST, PROBLEM, WRONG, Arena, refused, said, together, write_problem

PEOPLE = [f"p{n:02}" for n in range(30)]
AGENTS = {"agent_a": "p00", "agent_b": "p01"}      # with their owners
CHEAT, WRONG_ONE, LATE = "p29", "p28", "p09"
FINALISTS, RUNS = 3, 2


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    """A platform with one problem, and everybody's tokens."""
    write_problem(tmp_path)
    organizer = Shell(tmp_path, {"DERBY_PROBLEMS": str(tmp_path / "problems"), "DERBY_WARM_BOXES": "3"})
    process = organizer.up()
    arena = Arena(folder=tmp_path, organizer=organizer, url=(tmp_path / ".derby" / "url").read_text().strip())
    arena.invite(PEOPLE)
    together(arena.make_agent, AGENTS.values(), AGENTS)
    yield arena
    process.terminate()
    process.communicate(timeout=60)


@pytest.mark.timeout(420)
def test_a_whole_contest(arena: Arena) -> None:
    it_is_made_and_its_problem_is_a_secret(arena)
    everybody_registers_and_asks(arena)
    it_opens_and_everybody_submits(arena)
    it_freezes_and_stands_still_for_contestants(arena)
    the_gates_change_on_the_same_board(arena)
    it_ends_and_the_best_run_again(arena)
    it_is_revealed(arena)
    practice_leaves_its_board_alone(arena)
    the_organizers_deeds_are_on_record(arena)


def it_is_made_and_its_problem_is_a_secret(arena: Arena) -> None:
    assert arena.organizer.derby("problem", "close", PROBLEM).returncode == 0
    made = said(arena.organizer, "contest", "create", CONTEST, "--title", "Spring cup", "--start", "+1h", "--end", "+3h", "--problem",
                f"{PROBLEM}@cpu", "--quota", "ranked=2:600", "--cap", "6000", "--sources", "public", "--finalists", str(FINALISTS),
                "--final-runs", str(RUNS))

    assert (made["stage"], [p["problem"] for p in made["problems"]], made["seed_commitment"]) == ("coming", [PROBLEM], None)
    for reader in (arena.people["p00"], arena.nobody):
        assert said(reader, "contest", "show", CONTEST)["problems"] == []
        assert PROBLEM not in reader.derby("problems").stdout
        refused(reader, "contest", "board", CONTEST, because="open at its start")
        refused(reader, "init", PROBLEM, because="no problem")
        refused(reader, "contest", "seeds", CONTEST, because="at the start")
    refused(arena.people["p00"], *arena.submit("p00", FAST, "--problem", PROBLEM), because="has not begun")
    refused(arena.people["p00"], "contest", "create", "mine", "--title", "x", "--start", "+1h", "--end", "+2h", "--problem",
            f"{PROBLEM}@cpu", because="organizer")


def everybody_registers_and_asks(arena: Arena) -> None:
    def register(name: str) -> None:
        said(arena.people[name], "contest", "register", CONTEST, "--real-name", f"Person {name}", "--email", f"{name}@example.org")
    together(register, PEOPLE)
    question = said(arena.people["p03"], "contest", "ask", CONTEST, "May n be 0?")["id"]
    assert said(arena.people["p04"], "contest", "notices", CONTEST)["notices"] == []

    said(arena.organizer, "contest", "answer", CONTEST, str(question), "No.", "--public")

    seen = said(arena.people["p04"], "contest", "notices", CONTEST)["notices"]
    assert [(n["text"], n["answer"], n["person"]) for n in seen] == [("May n be 0?", "No.", None)]
    assert said(arena.organizer, "contest", "show", CONTEST)["registered"] == len(PEOPLE)
    refused(arena.people["p00"], "contest", "export", CONTEST, because="organizer")


def it_opens_and_everybody_submits(arena: Arena) -> None:
    opened = said(arena.organizer, "contest", "change", CONTEST, "--start", "+0s")
    assert (opened["stage"], len(opened["seed_commitment"])) == ("open", 64)
    assert [p["problem"] for p in said(arena.nobody, "contest", "show", CONTEST)["problems"]] == [PROBLEM]
    refused(arena.organizer, *_as_organizer(arena), because="not registered")

    together(lambda name: arena.send(name, _source(name)), [*PEOPLE, *AGENTS])
    arena.wait_until_judged(arena.entries.values())

    rows = _board(arena.people["p05"])
    assert {_who(row) for row in rows} == {*PEOPLE, *AGENTS} - {WRONG_ONE}
    assert [_who(row) for row in rows[:3]] == [CHEAT, "p00", "p01"]
    assert _board(arena.nobody) == rows == _board(arena.organizer)
    assert said(arena.people["p02"], "contest", "quota", CONTEST)["modes"]
    wrong = arena.people[WRONG_ONE].derby("show", str(arena.entries[WRONG_ONE]), "--json")
    assert (wrong.returncode, json.loads(wrong.stdout)["outcome"]) == (1, "wrong_values")
    source = f"submissions/{arena.entries['p00']}/source"
    assert arena.api("p00", source).text == _source("p00")
    assert {arena.api(who, source).status_code for who in ("p01", "agent_b", None)} <= {401, 403, 404}


def it_freezes_and_stands_still_for_contestants(arena: Arena) -> None:
    before = _board(arena.people["p05"])
    assert said(arena.organizer, "contest", "freeze", CONTEST)["stage"] == "frozen"
    refused(arena.people["p05"], "contest", "freeze", CONTEST, because="organizer")

    arena.wait_until_judged([arena.send(LATE, FAST)])

    mine = said(arena.people[LATE], "show", str(arena.entries[LATE]))
    assert mine["outcome"] == "accepted"
    refused(arena.people[LATE], *arena.submit(LATE, FAST + "# again\n"), because="All 2 ranked runs")
    for reader in (arena.people["p05"], arena.people[LATE], arena.nobody):
        assert _entries(_board(reader)) == _entries(before)
    for reader in (arena.people["p05"], arena.people["agent_a"], arena.nobody):
        refused(reader, "show", str(arena.entries[LATE]), because="no submission")
    assert arena.entries[LATE] not in {s["submission"] for s in arena.api("p05", "submissions?limit=100").json()["submissions"]}
    assert arena.entries[LATE] in _entries(_board(arena.organizer))


def the_gates_change_on_the_same_board(arena: Arena) -> None:
    tightened = write_problem(arena.folder / "tightened", plants=True)
    change = said(arena.organizer, "contest", "gate", "preview", CONTEST, str(tightened), "--reason", "It clamps.", "--top", "4")["id"]
    refused(arena.people["p05"], "contest", "gate", "show", str(change), because="organizer")
    arena.wait_for(lambda: bool(said(arena.organizer, "contest", "gate", "show", str(change))["complete"]))

    found = said(arena.organizer, "contest", "gate", "show", str(change))
    for entry in found["entries"]:
        refused(arena.people[CHEAT], "show", str(entry["replay"]), because="no submission")
    assert [(e["person"], e["outcome"]) for e in found["entries"] if e["drops"]] == [(CHEAT, "wrong_values")]
    assert arena.entries[CHEAT] in _entries(_board(arena.organizer)), "a preview changes nothing"

    said(arena.organizer, "contest", "gate", "apply", str(change))
    arena.wait_for(lambda: all(e["now"] not in ("queued", "building", "running") for e in
                               said(arena.organizer, "contest", "gate", "show", str(change))["entries"]))

    rows = _board(arena.organizer)
    assert CHEAT not in {_who(row) for row in rows} and _who(rows[0]) == LATE
    fallen = arena.people[CHEAT].derby("show", str(arena.entries[CHEAT]), "--json")
    assert json.loads(fallen.stdout)["outcome"] == "wrong_values" and "It clamps." in fallen.stdout
    refused(arena.people["p05"], "contest", "appeal", str(arena.entries[CHEAT]), "Not fair.", because="Only whoever sent")
    appeal = said(arena.people[CHEAT], "contest", "appeal", str(arena.entries[CHEAT]), "x was never above 1.")["id"]
    said(arena.organizer, "contest", "deny", str(appeal), "The statement says no such thing.")
    assert "no such thing" in arena.people[CHEAT].derby("contest", "appeals", CONTEST).stdout


def it_ends_and_the_best_run_again(arena: Arena) -> None:
    refused(arena.organizer, "contest", "final", "start", CONTEST, because="end")
    assert said(arena.organizer, "contest", "end", CONTEST)["stage"] == "ended"
    refused(arena.people["p05"], *arena.submit("p05", FAST), because="ended at")
    refused(arena.people["p05"], "contest", "final", "start", CONTEST, because="organizer")

    said(arena.organizer, "contest", "final", "start", CONTEST)
    refused(arena.organizer, "contest", "reveal", CONTEST, because="still to be judged")
    arena.wait_for(lambda: said(arena.organizer, "contest", "final", "show", CONTEST)["heats"][0]["waiting"] == 0)

    heat = said(arena.organizer, "contest", "final", "show", CONTEST)["heats"][0]
    assert [f["person"] for f in heat["finalists"]][:FINALISTS] == [LATE, "p00", "p01"]
    assert {(f["runs"], tuple(f["failed"])) for f in heat["finalists"]} == {(RUNS, ())}
    assert arena.people["p05"].derby("contest", "final", "show", CONTEST).returncode == 2
    assert arena.entries[LATE] not in _entries(_board(arena.people[LATE])), "hidden until the reveal"
    refused(arena.people["p05"], "contest", "reveal", CONTEST, because="organizer")


def it_is_revealed(arena: Arena) -> None:
    assert said(arena.organizer, "contest", "reveal", CONTEST)["stage"] == "revealed"

    for reader in (arena.people["p05"], arena.nobody):
        rows = _board(reader)
        assert _who(rows[0]) == LATE and CHEAT not in {_who(row) for row in rows}
        assert [f["person"] for f in said(reader, "contest", "final", "show", CONTEST)["heats"][0]["finalists"]][0] == LATE
    assert said(arena.people["p05"], "contest", "seeds", CONTEST, "--verify", str(arena.entries["p00"]), str(arena.entries["p07"]))["sound"]
    assert arena.api("p05", f"submissions/{arena.entries[LATE]}/source").text == FAST
    registered = list(csv.DictReader(io.StringIO(arena.organizer.derby("contest", "export", CONTEST).stdout)))
    assert {row["email"] for row in registered} == {f"{name}@example.org" for name in PEOPLE}


def practice_leaves_its_board_alone(arena: Arena) -> None:
    before = _board(arena.nobody)

    assert said(arena.organizer, "contest", "practice", CONTEST)["problems"] == [PROBLEM]

    file = arena.people["p05"].folder / "practice.py"
    file.write_text(FAST)
    sent = said(arena.people["p05"], "submit", str(file), "--problem", PROBLEM, "--mode", "ranked", "--licence", "Apache-2.0", "--ai-use",
                "none")
    assert sent["outcome"] == "accepted"
    assert [_who(row) for row in said(arena.nobody, "board", PROBLEM)["rows"]] == ["p05"]
    assert _board(arena.nobody) == before


def the_organizers_deeds_are_on_record(arena: Arena) -> None:
    actions = {row["action"] for row in said(arena.organizer, "admin", "audit", "--limit", "500")["actions"]}

    assert {f"contest {what}" for what in ("create", "change", "freeze", "end", "reveal", "practice", "export")} <= actions
    assert {"gate preview", "gate apply", "final start"} <= actions


def _source(name: str) -> str:
    if name in (CHEAT, WRONG_ONE):
        return EXPLOIT if name == CHEAT else WRONG
    return HONEST.format(ms=_ms(int(name[1:])) if name in PEOPLE else 40 + sorted(AGENTS).index(name))


def _ms(number: int) -> int:
    """Far apart where the order is looked at."""
    return 1 + 4 * number if number < 4 else 13 + number


def _as_organizer(arena: Arena) -> list[str]:
    file = arena.organizer.folder / "kernel.py"
    file.write_text(FAST)
    return ["submit", str(file), "--contest", CONTEST, "--mode", "ranked", "--licence", "Apache-2.0", "--ai-use", "none", "--no-wait"]


def _board(reader: Shell) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = said(reader, "contest", "board", CONTEST)["rows"]
    return rows


def _entries(rows: list[dict[str, Any]]) -> list[int]:
    return [row["submission"] for row in rows]


def _who(row: dict[str, Any]) -> str:
    return str(row["agent"] or row["person"])
