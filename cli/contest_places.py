"""Places in a contest: the commands `register`, `withdraw`, `quota` and `invite` below `derby contest`."""

from typing import Annotated, Any

import typer

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import number, print_json, say, table, told
from kernelderby.cli.server import contest_path, the_server
from kernelderby.cli.team import team_number
from kernelderby.core.text import one_line

Contest = Annotated[str, typer.Argument(metavar="NAME", help="The contest's name.", show_default=False)]


def register(
    contest: Contest,
    team: Annotated[str | None, typer.Option(metavar="TEAM", help="The team you enter for: its name or number.")] = None,
    invitation: Annotated[str | None, typer.Option(metavar="CODE", help="Where the contest is closed: the code you were given.")] = None,
    real_name: Annotated[str, typer.Option(metavar="TEXT", help="For prizes; organizers alone see it.")] = "",
    email: Annotated[str, typer.Option(metavar="ADDRESS", help="For prizes; organizers alone see it.")] = "",
    country: Annotated[str, typer.Option(metavar="TEXT", help="For prizes; organizers alone see it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Enter a contest, alone or for a team; again to change your team or contact."""
    server = the_server()
    contact = {"name": real_name, "email": email, "country": country}
    place = server.post(f"{contest_path(contest)}/registration", "contest", team=team_number(server, team) if team else None,
                        invitation=invitation, contact=contact if any(contact.values()) else None)
    who = f"for the team {place['team']}" if place["team"] else "alone"
    told(place, as_json, f"You are registered in {place['contest']}, {who}. Send with: derby submit FILE --contest {place['contest']}")


def withdraw(contest: Contest, as_json: AsJson = False) -> None:
    """Leave a contest before its end. What you sent stays."""
    place = the_server().delete(f"{contest_path(contest)}/registration", "contest")
    told(place, as_json, f"You are no longer registered in {place['contest']}. What you sent stays, and no quota comes back.")


def quota(contest: Contest, as_json: AsJson = False) -> None:
    """Show what you, or your team, may still send in a contest."""
    left = the_server().get(f"{contest_path(contest)}/quota", "modes")
    if as_json:
        print_json(left)
        return
    print("\n".join(table(("mode", "runs", "runs left", "GPU-seconds", "GPU-seconds left", "wait"), [_mode(m) for m in left["modes"]])))
    cap = left["cap"]
    if cap["gpu_seconds"] is not None:
        print(f"For everyone together {number(cap['gpu_seconds_left'])} of {number(cap['gpu_seconds'])} GPU-seconds are left.")
    print(one_line(left["returns"]))


def invite(
    contest: Contest,
    count: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="So many codes, one for each person.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Make codes that each open a closed contest for one person, once, within 7 days. For organizers."""
    made = the_server().post(f"{contest_path(contest)}/invitations", "codes", count=count)
    told(made, as_json, *made["codes"])


def say_left(left: dict[str, Any] | None, mode: str) -> None:
    """What a contest's quota still has in a mode, on stderr; nothing where there is no limit."""
    parts = [f"{number(left[key], digits)} {what}" for key, what, digits in (("runs", "runs", 0), ("gpu_seconds", "GPU-seconds", 1))
             if left and left[key] is not None]
    if parts:
        say(f"Left in the contest, {mode}: {', '.join(parts)}.")



def _mode(mode: dict[str, Any]) -> tuple[str, ...]:
    return (mode["mode"], _limit(mode["runs"], 0), _limit(mode["runs_left"], 0), _limit(mode["gpu_seconds"], 1),
            _limit(mode["gpu_seconds_left"], 1), str(mode["waiting"]))


def _limit(value: float | None, digits: int) -> str:
    return "no limit" if value is None else number(value, digits)
