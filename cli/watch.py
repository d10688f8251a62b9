"""`derby watch`, and how a verdict is waited for."""

import sys
from collections.abc import Callable
from typing import Any

import typer

from kernelderby.cli.options import AsJson, Number
from kernelderby.cli.output import exit_status, print_json, print_verdict, say
from kernelderby.cli.server import Server
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line
from kernelderby.core.verdict import State, Verdict


def watch(submission: Number, as_json: AsJson = False) -> None:
    """Follow a submission to its verdict."""
    finish(Server(Settings.from_env()), submission, as_json)


def finish(server: Server, submission: int, as_json: bool, file: str | None = None) -> None:
    """Wait for the verdict, print it, and end with its exit status. Ctrl-C ends the waiting alone. `file`: where the kernel lies here."""
    try:
        data = wait_for(server, submission, say)
    except KeyboardInterrupt:
        say(f"\nThe judging goes on. Follow it: derby watch {submission}")
        sys.exit(130)
    verdict = verdict_of(data)
    if as_json:
        print_json(data)
    else:
        print_verdict(verdict, file or data.get("file_name"))
        print_why(data)
    raise typer.Exit(exit_status(verdict))


def wait_for(server: Server, submission: int, hear: Callable[[str], None]) -> dict[str, Any]:
    """The submission once it is done; `hear` gets each step as a line."""
    seq = 0
    while True:
        events = server.events(submission, seq, lost=hear)
        for event in events:
            seq = event["seq"]
            if line := progress_line(event["kind"], event["data"]):
                hear(line)
        if not events or events[-1]["kind"] == "verdict":   # a rejudged submission has older verdicts before its last
            data = server.get(f"submissions/{submission}", "state")
            if data["state"] == State.DONE:
                return data


def print_why(data: dict[str, Any]) -> None:
    """Why a submission was judged again, where it was."""
    if data.get("judged_again"):
        print(one_line(f"Judged again: {data['judged_again']}", 600))


def verdict_of(data: dict[str, Any]) -> Verdict:
    """The verdict in a server's answer, without the keys a newer or fuller form adds."""
    return Verdict.model_validate({k: v for k, v in data.items() if k in Verdict.model_fields})


def progress_line(kind: str, data: dict[str, Any]) -> str | None:
    """An event as a line of progress; None for one that says nothing to a person who waits."""
    if kind == "state" and data.get("state") in (State.QUEUED, State.RUNNING):     # what compiles says so by `build`
        return f"  {data.get('state')}"
    if kind == "build":
        return f"  {str(data.get('message') or 'Built').lower()}"
    if kind == "check":
        return f"  checked {data.get('done')} of {data.get('of')}: {data.get('case') or 'hidden'} {data.get('outcome') or ''}".rstrip()
    if kind == "time":
        return f"  timed {data.get('case')}, block {data.get('block')} of {data.get('of')}"
    return None
