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
    contest: Annotated[str | None, typer.Option(metavar="NAME", help="The board in a contest; else the practice board.")] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values with a header line.")] = False,
) -> None:
    """Show the ranking of a problem: the best entry of each person and agent, fastest first."""
    server = Server(Settings.from_env())
    if contest is None:
        data = server.get(f"problems/{quote(problem, safe='')}/board", "rows", device=device)
    else:
        data = server.get(f"contests/{quote(contest, safe='')}/board", "rows", problem=problem, device=device)
    print_board(data, as_json, as_csv)


def print_board(data: dict[str, Any], as_json: bool, as_csv: bool) -> None:
    """A board in the form that was asked for."""
    if as_json and as_csv:
        raise typer.BadParameter("Choose one of --json and --csv.")
    if as_json:
        print_json(data)
    elif as_csv:
        _print_csv(data["rows"])
    else:
        print("\n".join(board_lines(data)))


def board_lines(data: dict[str, Any]) -> list[str]:
    """A board for a person."""
    contest = data.get("contest")
    head = f"{data['problem']} on {data['device']} (version {data['version']})" + (f" in {contest}" if contest else "")
    if data.get("frozen_at"):
        head += f", as it was at {data['frozen_at'][:16].replace('T', ' ')} UTC"
    if not data["rows"]:
        send = RANK_IT.format(file="FILE", problem=data["problem"]) + (f" --contest {contest}" if contest else "")
        return [head, f"  Nobody yet. Be the first: {send}" if data["open"] else "  Nobody yet."]
    rows = [(places(r["rank"]), _who(r), number(r["score_us"]), ratio(r["speedup"]), r["language"],
             str(r["submission"])) for r in data["rows"]]
    lines = [head, *table(("rank", "who", "score µs", "× baseline", "language", "submission"), rows)]
    if data.get("leader") not in (None, data["rows"][0]["submission"]):
        lines.append(f"  Submission {data['leader']} leads: a better score takes the lead by winning a duel.")
    return lines


def _who(row: dict[str, Any]) -> str:
    if row.get("team") and not row.get("agent"):
        return one_line(row["team"], 60)
    return one_line(f"agent {row['agent']} of {row['person']}", 60) if row.get("agent") else one_line(row["person"], 40)


def _print_csv(rows: list[dict[str, Any]]) -> None:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("rank_first", "rank_last", "person", "agent", "submission", "score_us", "score_low_us", "score_high_us", "speedup",
                  "language", "at", "team"))
    for r in rows:
        low, high = r["score_ci_us"] or (None, None)
        out.writerow((*r["rank"], table_cell(r["person"]), table_cell(r.get("agent") or ""), r["submission"], r["score_us"], low, high,
                      r["speedup"], r["language"], r["at"], table_cell(r.get("team") or "")))
