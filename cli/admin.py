"""`derby admin`: who did what, over HTTP; and the first admin, made where the database is."""

import json
from typing import Annotated

import typer

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json, table
from kernelderby.cli.server import Server
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line


def build() -> typer.Typer:
    """The commands below `derby admin`."""
    app = typer.Typer(no_args_is_help=True, help="See who did what, and give roles where no server can be asked.")
    for command in (audit, role):
        app.command(command.__name__)(command)
    return app


def audit(
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=500, help="How many, newest first.")] = 50,
    before: Annotated[int | None, typer.Option("--before", metavar="ID", min=1, help="Only actions before this one.")] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME|ID", help="Only what this person did.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show who did what. For organizers."""
    asked = {"limit": str(limit), **({"before": str(before)} if before else {}), **({"by": by} if by else {})}
    listed = Server(Settings.from_env()).get("audit", "actions", **asked)
    if as_json:
        print_json(listed)
        return
    rows = [(str(a["id"]), a["at"][:19], one_line(a["person"] or "(the database)", 30), a["action"],
             one_line(json.dumps(a["detail"], ensure_ascii=False), 100)) for a in listed["actions"]]
    print("\n".join(table(("id", "at", "who", "did", "what"), rows)))
    if listed["next"]:
        print(f"Earlier ones: derby admin audit --before {listed['next']}")


def role(
    person: Annotated[str, typer.Argument(metavar="NAME|ID", help="Their name or number.", show_default=False)],
    role: Annotated[str, typer.Argument(metavar="ROLE", help="contestant, organizer, admin.", show_default=False)],
) -> None:
    """Give someone a role, on the machine that holds the database: so the first admin is made."""
    from kernelderby.cli.organizer import opened
    from kernelderby.storage import accounts
    from kernelderby.storage import audit as actions

    with opened(Settings.from_env()) as database, database.begin() as session:
        found = accounts.set_role_here(session, person, role)
        actions.note(session, None, "people role", whom=found.id, role=found.role)
    print(one_line(f"{found.name} is {found.role} now."))
