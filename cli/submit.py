"""`derby submit`."""

from typing import Annotated

import typer

from kernelderby.cli.contest_places import say_left
from kernelderby.cli.kernel_file import read_kernel
from kernelderby.cli.options import AsJson, Device, File, Problem, TheMode
from kernelderby.cli.output import print_json, say
from kernelderby.cli.server import Server
from kernelderby.cli.watch import finish
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Mode


def submit(
    file: File,
    problem: Problem = None,
    device: Device = None,
    contest: Annotated[str | None, typer.Option(metavar="NAME", help="The contest it is for; else it is practice.")] = None,
    mode: TheMode = Mode.TEST,
    licence: Annotated[str, typer.Option(help="An SPDX name you grant, such as Apache-2.0. Ranked entries need one.")] = "",
    ai_use: Annotated[str, typer.Option(help="none, assisted or agent; a colon and free text may follow.")] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the verdict.")] = True,
    as_json: AsJson = False,
) -> None:
    """Send a kernel to a board and wait for its verdict."""
    source = read_kernel(file)
    server = Server(Settings.from_env())
    fields = {"problem": problem, "device": device, "contest": contest, "mode": mode.value, "licence": licence, "ai_use": ai_use}
    ticket = server.submit(file.name, source, {k: v for k, v in fields.items() if v})
    number = int(ticket["submission"])
    say(f"Submission {number}: {ticket['problem']} on {ticket['device']}, {ticket['mode']}. {ticket['url']}")
    say_left(ticket.get("left") if contest else None, ticket["mode"])
    if wait:
        finish(server, number, as_json, str(file))
    elif as_json:
        print_json(ticket)
    else:
        print(f"It waits in the queue. Follow it: derby watch {number}")
