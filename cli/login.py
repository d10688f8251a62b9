"""`derby login`."""

import sys
from dataclasses import replace
from typing import Annotated

import typer

from kernelderby.cli.keys import keep_key, server_of
from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json, say
from kernelderby.cli.server import Server
from kernelderby.core.errors import RequestError
from kernelderby.core.settings import Settings


def login(
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="The server; the default is DERBY_URL.")] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a token for a server. It is asked for, or read from standard input."""
    settings = Settings.from_env()
    if url:
        settings = replace(settings, url=url.rstrip("/"))
    address = server_of(settings)
    token = typer.prompt(f"Token for {address}", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not token.strip().isascii() or not token.strip():
        raise RequestError("A token is one line of plain characters, as an organizer or `derby token new` gave it.")
    me = Server(replace(settings, token=token.strip(), url=address)).get("people/me", "name")
    kept = keep_key(address, token.strip())
    say(f"The token is kept in {kept}.")
    if as_json:
        print_json(me)
    else:
        print(f"You are {me['name']} ({me['role']}) at {address}.")
