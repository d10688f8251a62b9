"""`derby rejudge`."""

from typing import Annotated, Any

import typer

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json, say
from kernelderby.cli.server import Server
from kernelderby.core.settings import Settings

Numbers = Annotated[list[int], typer.Argument(metavar="ID...", min=1, help="Submissions' numbers.", show_default=False)]


def rejudge(
    submissions: Numbers,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; the audit log keeps it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Judge submissions again, at nobody's cost. For organizers."""
    server, queued = Server(Settings.from_env()), list[dict[str, Any]]()
    for number in submissions:
        queued.append(server.post(f"submissions/{number}/rejudge", "state", reason=reason))
        if not as_json:
            say(f"Submission {number}: {queued[-1]['state']}. Watch it: derby watch {number}")
    if as_json:
        print_json({"submissions": [{"submission": one["submission"], "state": one["state"]} for one in queued]})
