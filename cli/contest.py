"""`derby contest`: contests from both sides, over HTTP."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kernelderby.cli import contest_gates, contest_places, contest_rules, contest_show
from kernelderby.cli.contest_show import Name, contest_lines
from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json, told
from kernelderby.cli.server import contest_path, the_server

_TIME = "ISO 8601, UTC unless it says a zone, or +2h from now."
Title = Annotated[str | None, typer.Option(help="What people read.")]
Start = Annotated[str | None, typer.Option(metavar="TIME", help=_TIME)]
End = Annotated[str | None, typer.Option(metavar="TIME", help=_TIME)]
Freeze = Annotated[str | None, typer.Option(metavar="TIME", help=f"From then on contestants see the boards as they were. {_TIME}")]
Boards = Annotated[list[str] | None, typer.Option("--problem", "-p", metavar="P@DEVICE", help="A board, as vector_add@cpu; repeatable.")]
ByTeam = Annotated[bool | None, typer.Option("--by-team/--by-person", help="Quotas and ranks are a team's.")]
Closed = Annotated[bool | None, typer.Option("--closed/--open", help="Only who has a code may register; see invite.")]
Sources = Annotated[Literal["owner", "public"] | None, typer.Option(help="Who may read sources after the reveal.")]
Quotas = Annotated[list[str] | None, typer.Option("--quota", metavar="MODE=RUNS[:GPU_SECONDS]", help="Of one person or team; repeatable.")]
Cap = Annotated[float | None, typer.Option(metavar="GPU_SECONDS", help="Hard cap of the whole contest.")]
Finalists = Annotated[int | None, typer.Option(min=2, max=50, help="Of each board's final heat.")]
FinalRuns = Annotated[int | None, typer.Option(min=1, max=50, help="Of each finalist.")]


def build() -> typer.Typer:
    """The commands below `derby contest`."""
    app = typer.Typer(no_args_is_help=True, help="Take part in contests, and hold them.")
    take_part: tuple[Callable[..., None], ...] = (
        contest_show.show, contest_show.list_, contest_show.board, contest_places.register, contest_places.withdraw, contest_places.quota,
        contest_show.ask, contest_show.notices, contest_show.seeds)
    hold_one: tuple[Callable[..., None], ...] = (
        create, change, contest_places.invite, contest_show.announce, contest_show.answer, freeze, end, reveal, practice, export)
    for command in take_part:
        app.command(_name(command), rich_help_panel="Take part")(command)
    for command in hold_one:
        app.command(_name(command), rich_help_panel="Hold one")(command)
    contest_gates.mount(app)
    return app


def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters, digits and _.", show_default=False)],
    title: Annotated[str, typer.Option(help="What people read.")],
    start: Annotated[str, typer.Option(metavar="TIME", help=_TIME)],
    end: Annotated[str, typer.Option(metavar="TIME", help=_TIME)],
    problem: Annotated[list[str], typer.Option("--problem", "-p", metavar="P@DEVICE", help="A board; repeatable.")],
    freeze: Freeze = None, by_team: ByTeam = False, closed: Closed = False, sources: Sources = "owner", quota: Quotas = None,
    cap: Cap = None, finalists: Finalists = None, final_runs: FinalRuns = None, as_json: AsJson = False,
) -> None:
    """Make a contest. Its problems stay hidden until the start where their practice boards are closed."""
    said = _said(title=title, start=start, end=end, freeze=freeze, problem=problem, by_team=by_team, closed=closed, sources=sources,
                 quota=quota, cap=cap, finalists=finalists, final_runs=final_runs)
    _tell(the_server().post("contests", "name", name=name, **said), as_json)


def change(
    contest: Name, title: Title = None, start: Start = None, end: End = None, freeze: Freeze = None, problem: Boards = None,
    by_team: ByTeam = None, closed: Closed = None, sources: Sources = None, quota: Quotas = None, cap: Cap = None,
    finalists: Finalists = None, final_runs: FinalRuns = None, as_json: AsJson = False,
) -> None:
    """Change a contest before its start; after it only --freeze and --end may move, and only later."""
    said = _said(title=title, start=start, end=end, freeze=freeze, problem=problem, by_team=by_team, closed=closed, sources=sources,
                 quota=quota, cap=cap, finalists=finalists, final_runs=final_runs)
    _tell(the_server().patch(contest_path(contest), "name", **said), as_json)


def freeze(contest: Name, as_json: AsJson = False) -> None:
    """Freeze the boards now: contestants see them as they are until the reveal; entries are still taken."""
    _tell(the_server().post(f"{contest_path(contest)}/freeze", "name"), as_json)


def end(contest: Name, as_json: AsJson = False) -> None:
    """End it now: nothing more is taken, what was sent is still judged."""
    _tell(the_server().post(f"{contest_path(contest)}/end", "name"), as_json)


def reveal(contest: Name, as_json: AsJson = False) -> None:
    """Show everybody the final boards and the secret of the seeds, and the sources where the contest says so."""
    _tell(the_server().post(f"{contest_path(contest)}/reveal", "name"), as_json)


def practice(contest: Name, as_json: AsJson = False) -> None:
    """After the end, open the practice boards of its problems. The contest's own boards stay as they are."""
    opened = the_server().post(f"{contest_path(contest)}/practice", "problems")
    told(opened, as_json, f"Open for practice: {', '.join(opened['problems'])}.")


def export(
    contest: Name, output: Annotated[Path | None, typer.Option("--output", "-o", help="A file to write; else it is printed.")] = None
) -> None:
    """Print who registered, with the contacts that a prize needs, as CSV."""
    rows = the_server().text(f"{contest_path(contest)}/registrations.csv")
    if output is None:
        print(rows, end="")
        return
    with output.open("w", encoding="utf-8", newline="") as file:
        file.write(rows)


def _said(**given: Any) -> dict[str, Any]:
    """The options that were given, as the API names them."""
    now = datetime.now(UTC)
    names: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "title": ("title", str), "start": ("starts_at", lambda t: contest_rules.moment(t, now)),
        "end": ("ends_at", lambda t: contest_rules.moment(t, now)), "freeze": ("freezes_at", lambda t: contest_rules.moment(t, now)),
        "problem": ("problems", contest_rules.boards), "by_team": ("by_team", bool), "closed": ("by_invitation", bool),
        "sources": ("sources", str), "quota": ("quotas", contest_rules.quotas), "cap": ("gpu_seconds", float),
        "finalists": ("finalists", int), "final_runs": ("final_runs", int),
    }
    return {name: read(given[key]) for key, (name, read) in names.items() if given[key] not in (None, [])}


def _tell(contest: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(contest)
    else:
        print("\n".join(contest_lines(contest)))


def _name(command: Callable[..., None]) -> str:
    return command.__name__.rstrip("_")
