"""`derby contest`: what everybody may read and say: contests, boards, notices, seeds."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from kernelderby.cli.board import print_board
from kernelderby.cli.options import AsJson
from kernelderby.cli.output import NOT_ACCEPTED, number, table, told
from kernelderby.cli.server import Server, contest_path, the_server
from kernelderby.core import receipt
from kernelderby.core.errors import RequestError
from kernelderby.core.text import one_line

Name = Annotated[str, typer.Argument(metavar="NAME", help="The contest's name.", show_default=False)]
Said = Annotated[str, typer.Argument(metavar="TEXT", help="At most 2000 characters.", show_default=False)]
_STAGES = {"coming": "starts", "open": "ends", "frozen": "ends", "ended": "ended", "revealed": "was revealed"}


def show(contest: Name, as_json: AsJson = False) -> None:
    """Show a contest: its stage, times, rules, boards."""
    found = the_server().get(contest_path(contest), "stage")
    told(found, as_json, *contest_lines(found))


def list_(as_json: AsJson = False) -> None:
    """List all contests."""
    found = the_server().get("contests", "contests")
    rows = [(c["name"], c["stage"], _at(c["starts_at"]), _at(c["ends_at"]), str(c["registered"]), one_line(c["title"], 60))
            for c in found["contests"]]
    lines = table(("contest", "stage", "start (UTC)", "end (UTC)", "registered", "title"), rows) if rows else ["There are no contests yet."]
    told(found, as_json, *lines)


def board(
    contest: Name,
    problem: Annotated[str | None, typer.Option("--problem", "-p", metavar="P", help="The problem; else the first.")] = None,
    device: Annotated[str | None, typer.Option("--device", "-d", metavar="D", help="The device class; else the problem's first.")] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values with a header line.")] = False,
) -> None:
    """Show a board of a contest: the best entry of each team, person and agent."""
    asked = {key: value for key, value in (("problem", problem), ("device", device)) if value is not None}
    print_board(the_server().get(f"{contest_path(contest)}/board", "rows", **asked), as_json, as_csv)


def ask(contest: Name, text: Said, as_json: AsJson = False) -> None:
    """Ask the organizers. Nobody else reads it until they publish the answer."""
    made = the_server().post(f"{contest_path(contest)}/notices", "id", text=text, kind="question")
    told(made, as_json, f"Question {made['id']} is with the organizers. Read the answer: derby contest notices {contest}")


def announce(contest: Name, text: Said, as_json: AsJson = False) -> None:
    """Tell everybody something."""
    made = the_server().post(f"{contest_path(contest)}/notices", "id", text=text, kind="announcement")
    told(made, as_json, f"Announcement {made['id']} is on the contest's page.")


def answer(
    contest: Name, notice: Annotated[int, typer.Argument(metavar="ID", min=1, help="The question's number.", show_default=False)],
    text: Said, public: Annotated[bool, typer.Option("--public", help="Everybody reads the question and this, not who asked.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question."""
    made = the_server().post(f"{contest_path(contest)}/notices/{notice}/answer", "id", text=text, public=public)
    told(made, as_json, f"Question {notice} is answered for {'everybody' if public else made['person']}.")


def notices(contest: Name, as_json: AsJson = False) -> None:
    """Read announcements, answers and your own questions; as an organizer every question."""
    found = the_server().get(f"{contest_path(contest)}/notices", "notices")
    told(found, as_json, *(line for notice in reversed(found["notices"]) for line in _notice(notice)))


def seeds(
    contest: Name,
    submissions: Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="Receipts to check; else those on the boards.",
                                                            show_default=False)] = None,
    verify: Annotated[bool, typer.Option("--verify", help="After the reveal: recompute the seeds of runs and hold them against receipts.")]
    = False,
    as_json: AsJson = False,
) -> None:
    """Show what the seeds of a contest are committed to, and after its reveal what they come from."""
    server = the_server()
    found = server.get(f"{contest_path(contest)}/seeds", "commitment")
    if not verify:
        revealed = f"salt {found['salt']}\nsecret {found['secret']}" if found["secret"] else "Salt and secret are shown after the reveal."
        told(found, as_json, f"commitment {found['commitment']}", revealed)
        return
    wrong = _wrong(server, found, submissions or list(_on_boards(server, contest)))
    sound = not any(wrong.values())
    told({**found, "sound": sound, "checked": {str(n): said or "holds" for n, said in wrong.items()}}, as_json,
         *(f"submission {n}: {said or 'its seed follows from the secret'}" for n, said in wrong.items()),
         "The secret is the one committed to at the start; every seed checked follows from it." if sound else "A SEED DOES NOT FOLLOW.")
    raise typer.Exit(0 if sound else NOT_ACCEPTED)


def contest_lines(contest: Mapping[str, Any]) -> list[str]:
    """A contest for a person."""
    kind = f"{'by team' if contest['by_team'] else 'by person'}, {'by invitation' if contest['by_invitation'] else 'open to all'}"
    freeze = f", boards freeze {_at(contest['freezes_at'])}" if contest["freezes_at"] else ""
    lines = [one_line(f"{contest['name']}: {contest['title']}"), f"  {contest['stage']}{_when(contest)}; {kind}; "
             f"{contest['registered']} registered",
             f"  {_at(contest['starts_at'])} to {_at(contest['ends_at'])} UTC{freeze}"]
    lines += [f"  {p['problem']} on {p['device']} (version {p['version']})" for p in contest["problems"]]
    if not contest["problems"]:
        lines.append("  Its problems are told at the start.")
    each = "team" if contest["by_team"] else "person"
    lines += [f"  {mode}: {_limit(quota)} for each {each}" for mode, quota in contest["quotas"].items()]
    if contest["gpu_seconds"]:
        lines.append(f"  {number(contest['gpu_seconds'])} GPU-seconds for everyone together")
    if contest["seed_commitment"]:
        lines.append(f"  seeds are committed to: {contest['seed_commitment']}")
    return lines



def _wrong(server: Server, found: Mapping[str, Any], submissions: list[int]) -> dict[int, str]:
    """What does not hold of each run; empty for one whose seed follows from the contest's secret."""
    if not found["secret"]:
        raise RequestError("Salt and secret are shown after the reveal; until then there is nothing to recompute.")
    salt, secret = bytes.fromhex(found["salt"]), bytes.fromhex(found["secret"])
    if not receipt.opens(found["commitment"], salt, secret):
        raise RequestError("SALT AND SECRET ARE NOT those that were committed to.")
    return {n: _fault(server.get(f"submissions/{n}/receipt", "signature"), found, secret) for n in submissions}


def _fault(signed: Mapping[str, Any], found: Mapping[str, Any], secret: bytes) -> str:
    from kernelderby.judge.seeds import run_seed

    told_then = signed.get("receipt", {})
    if told_then.get("contest") != found["number"] or told_then.get("contest_commitment") != found["commitment"]:
        return "ITS RECEIPT IS NOT OF THIS CONTEST, or commits to another secret"
    seed = run_seed(secret, int(signed["submission"]), int(signed["attempt"]))
    salt = bytes.fromhex(signed.get("reveal", {}).get("salt", ""))
    return "" if receipt.opens(str(told_then.get("seed_commitment")), salt, seed) else "ITS SEED DOES NOT FOLLOW FROM THE SECRET"


def _on_boards(server: Server, contest: str) -> Iterator[int]:
    for place in server.get(contest_path(contest), "problems")["problems"]:
        rows = server.get(f"{contest_path(contest)}/board", "rows", problem=place["problem"], device=place["device"])["rows"]
        yield from (int(row["submission"]) for row in rows)


def _notice(notice: Mapping[str, Any]) -> Iterator[str]:
    who = f" by {one_line(notice['person'], 60)}" if notice["person"] else ""
    yield f"{notice['id']} {notice['kind']}{who}, {_at(notice['at'])} UTC{'' if notice['public'] else ', not public'}"
    yield from (f"    {line}" for line in str(notice["text"]).splitlines())
    if notice["answer"]:
        yield from (f"  > {line}" for line in str(notice["answer"]).splitlines())


def _when(contest: Mapping[str, Any]) -> str:
    at = {"coming": "starts_at", "revealed": "revealed_at"}.get(contest["stage"], "ends_at")
    seconds = (datetime.fromisoformat(contest[at]) - datetime.now(UTC)).total_seconds()
    return f", {_STAGES.get(contest['stage'], at)} {f'in {_span(seconds)}' if seconds > 0 else f'{_span(-seconds)} ago'}"


def _span(seconds: float) -> str:
    minutes = int(seconds // 60)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    return f"{days} d {hours} h" if days else f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _limit(quota: Mapping[str, Any]) -> str:
    runs = "any number of runs" if quota["runs"] is None else f"{quota['runs']} runs"
    return runs if quota["gpu_seconds"] is None else f"{runs}, {number(quota['gpu_seconds'])} GPU-seconds"


def _at(text: str) -> str:
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M")
