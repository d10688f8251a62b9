"""`derby team`: people who compete together, over HTTP."""

from typing import Annotated

import typer

from kernelderby.cli.options import AsJson, is_number
from kernelderby.cli.output import print_json, table, told
from kernelderby.cli.server import Server, the_server
from kernelderby.core.errors import NotFound, RequestError
from kernelderby.core.text import one_line

Team = Annotated[str | None, typer.Argument(metavar="[TEAM]", help="Its name or number; may be left out by who is in one team.",
                                            show_default=False)]
Code = Annotated[str, typer.Argument(metavar="CODE", help="As its owner gave it to you.", show_default=False)]


def build() -> typer.Typer:
    """The commands below `derby team`."""
    app = typer.Typer(no_args_is_help=True, help="Make teams, invite to them, join, leave and merge them.")
    for command in (create, list_, show, invite, join, leave, merge):
        app.command(command.__name__.rstrip("_"))(command)
    return app


def create(name: Annotated[str, typer.Argument(metavar="NAME", help="What boards will call it.", show_default=False)],
           as_json: AsJson = False) -> None:
    """Make a team; you own it and are its first member."""
    team = the_server().post("teams", "id", name=name)
    told(team, as_json, f"The team {team['name']} has number {team['id']}. Invite people: derby team invite {team['id']}")


def list_(as_json: AsJson = False) -> None:
    """List the teams you are in."""
    listed = the_server().get("teams", "teams")
    if as_json:
        print_json(listed)
        return
    rows = [(str(t["id"]), one_line(t["name"], 40), one_line(t["owner"], 40), str(len(t["members"]))) for t in listed["teams"]]
    print("\n".join(table(("id", "team", "owner", "members"), rows)) if rows else "You are in no team. Make one: derby team create NAME")


def show(team: Team = None, as_json: AsJson = False) -> None:
    """Show a team and who is in it."""
    server = the_server()
    found = server.get(f"teams/{team_number(server, team)}", "id")
    told(found, as_json, f"{found['name']} (number {found['id']}), owned by {found['owner']}: {', '.join(found['members'])}.")


def invite(team: Team = None, as_json: AsJson = False) -> None:
    """Make a code by which one person joins, once, within 7 days. For the owner."""
    server = the_server()
    made = server.post(f"teams/{team_number(server, team)}/invitations", "code")
    if as_json:
        print_json(made)
        return
    print(f"Give this to one person, who joins by it within 7 days:  derby team join {one_line(made['code'])}")


def join(code: Code, as_json: AsJson = False) -> None:
    """Join a team by the code its owner gave you."""
    team = the_server().post("teams/join", "id", code=code)
    told(team, as_json, f"You are in the team {team['name']} (number {team['id']}).")


def leave(team: Team = None, as_json: AsJson = False) -> None:
    """Leave a team, and the contests you entered for it. What you sent stays the team's."""
    server = the_server()
    left = server.post(f"teams/{team_number(server, team)}/leave", "id")
    owner = f"It belongs to {left['owner']} now." if left["owner"] else "Nobody is left in it, so it is closed."
    told(left, as_json, f"You left the team {left['name']}. {owner}")


def merge(
    team: Team = None,
    code: Annotated[str | None, typer.Option("--code", metavar="CODE", help="Of the other team's owner: your team becomes part of theirs."
                                             )] = None,
    as_json: AsJson = False,
) -> None:
    """Merge two teams: one owner makes a code, the other redeems it with --code, and theirs becomes part of the first one's."""
    server = the_server()
    number = team_number(server, team)
    if code is None:
        made = server.post(f"teams/{number}/merge-code", "code")
        told(made, as_json, f"Give this to the other team's owner, within 7 days: derby team merge TEAM --code {made['code']}")
        return
    merged = server.post(f"teams/{number}/merge", "id", code=code)
    told(merged, as_json, f"Your team is part of {merged['name']} (number {merged['id']}) now: {', '.join(merged['members'])}.")


def team_number(server: Server, team: str | None) -> int:
    """The number of a team of one's own, by name or number; None: the only one. Raises NotFound, RequestError."""
    if team is not None and is_number(team):
        return int(team)
    own = server.get("teams", "teams")["teams"]
    found = [t for t in own if team is None or t["name"].casefold() == one_line(team, 80).casefold()]
    if len(found) == 1:
        return int(found[0]["id"])
    if team is not None:
        raise NotFound(f"You are in no team {one_line(team, 80)!r}. `derby team list` shows yours.")
    raise RequestError("You are in no team. `derby team create NAME` makes one." if not own else
                       f"Which team? You are in {', '.join(one_line(t['name'], 80) for t in own)}.")
