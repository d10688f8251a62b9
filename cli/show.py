"""`derby show`."""

import typer

from kernelderby.cli.options import AsJson, Number
from kernelderby.cli.output import exit_status, print_json, print_verdict
from kernelderby.cli.server import Server
from kernelderby.cli.watch import print_why, verdict_of
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line


def show(submission: Number, as_json: AsJson = False) -> None:
    """Show a submission's verdict, or how far it is."""
    data = Server(Settings.from_env()).get(f"submissions/{submission}", "state")
    verdict = verdict_of(data)
    if as_json:
        print_json(data)
    else:
        print_verdict(verdict, data.get("file_name"))
        print_why(data)
        if data.get("agent"):
            print(one_line(f"Sent by agent {data['agent']} of {data.get('person')}."))
    raise typer.Exit(exit_status(verdict) if verdict.outcome else 0)
