"""`derby board`."""

import csv
import sys
from typing import Annotated, Any
from urllib.parse import quote

import typer

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import RANK_IT, number, places, print_json, ratio, table
from kernelderby.cli.server import Server
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line, table_cell


def board(
    problem: Annotated[str, typer.Argument(metavar="P", help="The problem's name.", show_default=False)],
    device: Annotated[str, typer.Option("--device", "-d", metavar="D", help="The device class.")] = "cpu",
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values with a header line.")] = False,
) -> None:
    """Show the ranking of a problem: the best entry of each person, fastest first."""
    if as_json and as_csv:
        raise typer.BadParameter("Choose one of --json and --csv.")
    data = Server(Settings.from_env()).get(f"problems/{quote(problem, safe='')}/board", "rows", device=device)
    if as_json:
        print_json(data)
    elif as_csv:
        _print_csv(data["rows"])
    else:
        print("\n".join(board_lines(data)))


def board_lines(data: dict[str, Any]) -> list[str]:
    """A board for a person."""
    head = f"{data['problem']} on {data['device']} (version {data['version']})"
    if not data["rows"]:
        return [head, f"  Nobody yet. Be the first: {RANK_IT.format(file='FILE', problem=data['problem'])}"]
    rows = [(places(r["rank"]), _who(r), number(r["score_us"]), ratio(r["speedup"]), r["language"],
             str(r["submission"])) for r in data["rows"]]
    lines = [head, *table(("rank", "who", "score µs", "× baseline", "language", "submission"), rows)]
    if data.get("leader") not in (None, data["rows"][0]["submission"]):
        lines.append(f"  Submission {data['leader']} leads: a better score takes the lead by winning a duel.")
    return lines


def _who(row: dict[str, Any]) -> str:
    return one_line(f"agent {row['agent']} of {row['person']}", 60) if row.get("agent") else one_line(row["person"], 40)


def _print_csv(rows: list[dict[str, Any]]) -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("rank_first", "rank_last", "person", "agent", "submission", "score_us", "score_low_us", "score_high_us", "speedup",
                  "language", "at"))
    for r in rows:
        low, high = r["score_ci_us"] or (None, None)
        out.writerow((*r["rank"], table_cell(r["person"]), table_cell(r.get("agent") or ""), r["submission"], r["score_us"], low, high,
                      r["speedup"], r["language"], r["at"]))
