"""`derby contest gate`, `final`, `appeal`, `appeals`, `grant`, `deny`: other gates in mid-contest, the final heat, and appeals."""

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelderby.cli.contest_show import Name, Said
from kernelderby.cli.options import AsJson, Number
from kernelderby.cli.output import number, places, table, told
from kernelderby.cli.server import contest_path, the_server
from kernelderby.core.errors import RequestError
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line

Change = Annotated[int, typer.Argument(metavar="ID", min=1, help="The change's number.", show_default=False)]
AppealNumber = Annotated[int, typer.Argument(metavar="ID", min=1, help="The appeal's number.", show_default=False)]
_NOT_SENT = {"submissions", "__pycache__", ".git"}      # of a problem's folder: what no judging needs


def mount(app: typer.Typer) -> None:
    """Add these commands below `derby contest`."""
    gate = typer.Typer(no_args_is_help=True, help="Change gates in mid-contest: try them on the best entries, then apply or withdraw.")
    for command in (preview, list_, show, apply, withdraw):
        gate.command(command.__name__.rstrip("_"))(command)
    final = typer.Typer(no_args_is_help=True, help="Have the best entries run again, equally often, on one runner.")
    final.command("start")(final_start)
    final.command("show")(final_show)
    app.command("appeal", rich_help_panel="Take part")(appeal)
    app.command("appeals", rich_help_panel="Take part")(appeals)
    for answer in (grant, deny):
        app.command(answer.__name__, rich_help_panel="Hold one")(answer)
    app.add_typer(gate, name="gate", rich_help_panel="Hold one")
    app.add_typer(final, name="final", rich_help_panel="Hold one")


def preview(
    contest: Name,
    problem: Annotated[str, typer.Argument(metavar="P", help="The problem with its new gates: a folder, a zip, or a name.",
                                           show_default=False)],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; those whose entries fall read it.")],
    top: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="So many places of each board are judged again.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Try other gates on the best entries. Nothing changes on any board yet."""
    file_name, data = _packed(problem)
    made = the_server().upload(f"{contest_path(contest)}/gates", "entries", file_name, data, reason=reason, top=str(top))
    told(made, as_json, f"Change {made['id']}: {len(made['entries'])} entries of {made['problem']} are judged again under gate set "
                        f"{made['gate_set']}.", f"See what it does: derby contest gate show {made['id']}")


def list_(contest: Name, as_json: AsJson = False) -> None:
    """List a contest's changes of gates."""
    found = the_server().get(f"{contest_path(contest)}/gates", "gates")
    rows = [(str(c["id"]), c["problem"], _standing(c), f"{c['drops']} of {len(c['entries'])}", one_line(c["reason"], 60))
            for c in found["gates"]]
    told(found, as_json, *(table(("change", "problem", "state", "drop", "reason"), rows) if rows else ["Its gates never changed."]))


def show(change: Change, as_json: AsJson = False) -> None:
    """Show what a change does to each entry: before, after, ranks, who drops."""
    found = the_server().get(f"gates/{change}", "entries")
    told(found, as_json, *_change_lines(found))


def apply(
    change: Change,
    anyway: Annotated[bool, typer.Option("--anyway", help="Although not every entry was judged under the new gates.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make the new gates the contest's: the best entries are judged again by them, on the same board."""
    found = the_server().post(f"gates/{change}/apply", "entries", anyway=anyway)
    told(found, as_json, f"Change {change} is applied: {found['problem']} is judged by gate set {found['gate_set']} from now on.",
         f"The best entries are judged again: derby contest gate show {change}")


def withdraw(change: Change, as_json: AsJson = False) -> None:
    """Throw a change away. Nothing was changed by it."""
    told(the_server().post(f"gates/{change}/withdraw", "entries"), as_json, f"Change {change} is withdrawn. The gates stay as they are.")


def final_start(
    contest: Name,
    problem: Annotated[str | None, typer.Option("--problem", "-p", metavar="P", help="Of this problem alone.")] = None,
    device: Annotated[str | None, typer.Option("--device", "-d", metavar="D", help="On this device class alone.")] = None,
    again: Annotated[bool, typer.Option("--again", help="From the start, where its runner is gone, a run failed, or finalists changed.")]
    = False,
    as_json: AsJson = False,
) -> None:
    """After the end, start the final heats: each finalist runs equally often, in turn, on one runner."""
    found = the_server().post(f"{contest_path(contest)}/final", "heats", problem=problem, device=device, again=again)
    said = [f"{h['problem']} on {h['device']}: {len(h['finalists'])} finalists, {h['runs']} runs each." for h in found["heats"]]
    waits = [f"{found['open_appeals']} appeals wait for an answer."] if found["open_appeals"] else []
    told(found, as_json, *said, *waits, f"See the order: derby contest final show {contest}")


def final_show(contest: Name, as_json: AsJson = False) -> None:
    """Show the final order; before the reveal for organizers alone."""
    found = the_server().get(f"{contest_path(contest)}/final", "heats")
    lines = [line for heat in found["heats"] for line in _heat_lines(heat)]
    told(found, as_json, *(lines or ["There is no final heat."]))


def appeal(submission: Number, text: Said, as_json: AsJson = False) -> None:
    """Appeal for an entry of yours that is not accepted."""
    made = the_server().post(f"submissions/{submission}/appeal", "id", text=text)
    told(made, as_json, f"Appeal {made['id']} is with the organizers. Read the answer: derby contest appeals {made['contest']}")


def appeals(contest: Name, as_json: AsJson = False) -> None:
    """Read your appeals and their answers; as an organizer everybody's."""
    found = the_server().get(f"{contest_path(contest)}/appeals", "appeals")
    lines = [line for one in reversed(found["appeals"]) for line in _appeal_lines(one)]
    told(found, as_json, *(lines or ["There are no appeals."]))


def grant(appeal: AppealNumber, text: Said = "Granted.", as_json: AsJson = False) -> None:
    """Grant an appeal: the entry is judged again, by the gates that the contest has now."""
    found = the_server().post(f"appeals/{appeal}/grant", "id", text=text)
    told(found, as_json, f"Appeal {appeal} is granted; submission {found['submission']} is judged again.")


def deny(appeal: AppealNumber, text: Said, as_json: AsJson = False) -> None:
    """Deny an appeal, with the reason."""
    told(the_server().post(f"appeals/{appeal}/deny", "id", text=text), as_json, f"Appeal {appeal} is denied.")


def _packed(problem: str) -> tuple[str, bytes]:
    """A zip as it is, or one of the folder by path or name."""
    from kernelderby.core.problem_folder import find_problem  # which reads YAML: a contestant's commands need none

    path = Path(problem)
    if path.is_file():
        return path.name, path.read_bytes()
    folder = path if path.is_dir() else find_problem(problem, Settings.from_env().problems).folder
    if not (folder / "problem.yml").is_file():
        raise RequestError(f"{one_line(folder, 120)} has no problem.yml. Name the folder of a problem.")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(p for p in folder.rglob("*") if p.is_file() and not _NOT_SENT.intersection(p.relative_to(folder).parts)):
            packed.write(file, file.relative_to(folder).as_posix())
    return f"{folder.resolve().name}.zip", out.getvalue()


def _change_lines(change: Mapping[str, Any]) -> Iterator[str]:
    yield f"Change {change['id']} of {change['problem']} in {change['contest']}, {_standing(change)}: {one_line(change['reason'], 500)}"
    rows = [(str(f["submission"]), _who(f), f["device"], places(f["rank_before"]), places(f["rank_after"]), _fate(f), f["now"] or "")
            for f in change["entries"]]
    yield from table(("entry", "who", "device", "rank", "rank after", "under the new gates", "since applied"), rows)
    yield f"{change['drops']} of {len(rows)} drop."
    for fate in (f for f in change["entries"] if f["drops"] and f["message"]):
        yield f"  {fate['submission']}: {one_line(fate['message'], 400)}"
    if change["unjudged"]:
        yield (f"{len(change['unjudged'])} come up into the first {change['top']} that these gates have not judged. Once it is applied: "
               f"derby rejudge {' '.join(map(str, change['unjudged'][:20]))}")
    if change["applied_at"] is None and change["withdrawn_at"] is None:
        yield (f"derby contest gate apply {change['id']}, or withdraw {change['id']}" if change["complete"] else
               "Not every entry is judged yet; look again.")


def _standing(change: Mapping[str, Any]) -> str:
    if change["applied_at"]:
        return "applied"
    return "withdrawn" if change["withdrawn_at"] else "ready" if change["complete"] else "being judged"


def _fate(fate: Mapping[str, Any]) -> str:
    if fate["outcome"] is None:
        return str(fate["state"])
    where = f" at {fate['gate']}" if fate["gate"] else ""
    return f"{fate['outcome']}{where}{', drops' if fate['drops'] else ''}"


def _heat_lines(heat: Mapping[str, Any]) -> Iterator[str]:
    state = f"{heat['waiting']} runs to come, provisional" if heat["waiting"] else "final"
    yield f"{heat['problem']} on {heat['device']}, {heat['runs']} runs each on {heat['runner'] or 'one runner'}: {state}"
    rows = [(places(f["rank"]), str(f["submission"]), _who(f), number(f["score_us"]), _interval(f), f"{f['runs']} of {heat['runs']}",
             " ".join(f["failed"])) for f in heat["finalists"]]
    yield from table(("rank", "entry", "who", "µs", "95 %", "runs", "failed"), rows)


def _interval(finalist: Mapping[str, Any]) -> str:
    ci = finalist["score_ci_us"]
    return f"{number(ci[0])} to {number(ci[1])}" if ci else "–"


def _appeal_lines(one: Mapping[str, Any]) -> Iterator[str]:
    state = "waits" if one["granted"] is None else "granted" if one["granted"] else "denied"
    yield f"{one['id']} for submission {one['submission']} by {one_line(one['person'], 60)}: {state}"
    yield f"    {one_line(one['text'], 2000)}"
    if one["answer"]:
        yield f"  > {one_line(one['answer'], 2000)}"


def _who(named: Mapping[str, Any]) -> str:
    who = f"agent {named['agent']} of {named['person']}" if named["agent"] else named.get("team") or named["person"]
    return one_line(who, 60)
