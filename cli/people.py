"""`derby people`: your own account, and for organizers everyone's, over HTTP."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json, say, table, told
from kernelderby.cli.server import the_server
from kernelderby.core.errors import RequestError
from kernelderby.core.text import one_line

Who = Annotated[str, typer.Argument(metavar="NAME|ID", help="Their name or number.", show_default=False)]
_PAGE = 500


def build() -> typer.Typer:
    """The commands below `derby people`."""
    app = typer.Typer(no_args_is_help=True, help="Your account; and for organizers list, role, ban, unban.")
    for command in (list_, show, role, ban, unban, link, sessions, export, delete):
        app.command(command.__name__.rstrip("_"))(command)
    return app


def list_(as_json: AsJson = False) -> None:
    """List everyone. For organizers."""
    server, found, after = the_server(), list[dict[str, Any]](), 0
    while after is not None:
        page = server.get("people", "people", after=str(after), limit=str(_PAGE))
        found, after = found + page["people"], page["next"]
    if as_json:
        print_json({"people": found})
        return
    rows = [(str(p["id"]), one_line(p["name"], 40), p["role"], p["created_at"][:10], one_line(_state(p), 60)) for p in found]
    print("\n".join(table(("id", "name", "role", "since", "state"), rows)))


def show(person: Annotated[str | None, typer.Argument(metavar="[NAME|ID]", help="For organizers; else you yourself.",
                                                      show_default=False)] = None, as_json: AsJson = False) -> None:
    """Show yourself and what logs you in; or, for organizers, someone else."""
    server = the_server()
    if person is None:
        me = server.get("people/me", "name")
        logins = [f"{i['provider']} {i['name']} ({i['id']})" for i in server.get("people/me/identities", "identities")["identities"]]
        found, state = {**me, "logins": logins}, ""
    else:
        found = server.get(_path(person), "name")
        logins, state = found["logins"], f" State: {_state(found)}."
    linked = f" Linked: {', '.join(logins)}." if logins else " No account elsewhere is linked."
    told(found, as_json, f"{found['name']} (number {found['id']}) is {found['role']}.{linked}{state}")


def role(person: Who, role: Annotated[str, typer.Argument(metavar="ROLE", help="contestant, organizer, admin.", show_default=False)],
         as_json: AsJson = False) -> None:
    """Give someone a role. For admins."""
    found = the_server().post(_path(person, "role"), "name", role=role)
    told(found, as_json, f"{found['name']} is {found['role']} now.")


def ban(person: Who, reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="The person reads it.")],
        as_json: AsJson = False) -> None:
    """Shut someone out; their queued work is cancelled, their entries compete no more. For organizers."""
    found = the_server().post(_path(person, "ban"), "name", reason=reason)
    told(found, as_json, f"{found['name']} is banned: {found['ban_reason']}")


def unban(person: Who, as_json: AsJson = False) -> None:
    """Let someone in again; their entries compete again. For organizers."""
    found = the_server().post(_path(person, "unban"), "name")
    told(found, as_json, f"{found['name']} may log in and send again.")


def link(as_json: AsJson = False) -> None:
    """Make a code by which another door, such as the Discord bot, links an account there to you."""
    made = the_server().post("people/me/link-codes", "code")
    told(made, as_json, f"Give this code to the other door within 15 minutes; it works once: {made['code']}")


def sessions(
    end: Annotated[int | None, typer.Option("--end", metavar="ID", min=1, help="Log this browser out.")] = None,
    end_all: Annotated[bool, typer.Option("--end-all", help="Log every browser out, and end login links and codes that wait.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the browsers that are logged in as you, or log them out."""
    server = the_server()
    if end is not None and end_all:
        raise RequestError("--end names one browser, --end-all ends all. Give one of them.")
    if end is not None:
        ended = server.delete(f"people/me/sessions/{end}", "id")
        told(ended, as_json, f"The login {ended['id']} has ended.")
    elif end_all:
        ended = server.delete("people/me/sessions", "ended")
        told(ended, as_json, f"Logins ended: {ended['ended']}.")
    else:
        _print_sessions(server.get("people/me/sessions", "sessions"), as_json)


def export(file: Annotated[Path | None, typer.Argument(help="Where to write it; else stdout.", show_default=False)] = None) -> None:
    """Write everything that is yours as one JSON object, with the sources of your entries."""
    text = the_server().text("people/me/export")
    if file is None:
        sys.stdout.write(text)
        return
    try:
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as written:
            written.write(text)
    except OSError as error:
        raise RequestError(f"{file} cannot be written: {error.strerror}.") from None
    say(f"Everything that is yours lies in {file}.")


def delete(confirm: Annotated[str, typer.Option("--confirm", metavar="NAME", help="Your name, so that this is no accident.")],
           as_json: AsJson = False) -> None:
    """Delete your account for good. Entries stay without a name, sources that only you sent are deleted."""
    left = the_server().delete("people/me", "deleted", confirm=confirm)
    told(left, as_json, f"The account {confirm} is deleted. Its entries stay, as those of number {left['deleted']}.")


def _print_sessions(listed: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(listed)
        return
    rows = [(str(s["id"]), s["created_at"][:16], s["expires_at"][:10], one_line(s["token"] or "–", 40)) for s in listed["sessions"]]
    print("\n".join(table(("id", "since", "until", "by token"), rows)) if rows else "No browser is logged in as you.")


def _state(person: dict[str, Any]) -> str:
    if person["deleted_at"]:
        return "deleted"
    return f"banned: {person['ban_reason']}" if person["banned_at"] else "valid"


def _path(person: str, *more: str) -> str:
    return "/".join(("people", quote(person, safe=""), *more))
