"""`derby token`: one's own tokens, over HTTP; with --person an organizer's command, on the machine that holds the database."""

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from kernelderby.cli.keys import server_of
from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json, table
from kernelderby.cli.server import Server
from kernelderby.core.errors import NotFound, RequestError
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from kernelderby.storage.people import NewToken, PersonInfo, TokenInfo

Person = Annotated[str | None, typer.Option("--person", metavar="PERSON", help="For organizers, where the database is: this person's.")]
NameOrId = Annotated[str, typer.Argument(metavar="NAME|ID", help="As `derby token list` shows it.", show_default=False)]
Scopes = Annotated[str | None, typer.Option(metavar="A,B", help="submit, read, organize. Default: submit,read; an organizer's: all.")]
_PATH = "people/me/tokens"


def build() -> typer.Typer:
    """The commands below `derby token`."""
    app = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens: your own, or with --person those of others.")
    for command in (new, list_, revoke):
        app.command(command.__name__.rstrip("_"))(command)
    return app


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the token is for.", show_default=False)],
    scopes: Scopes = None,
    agent: Annotated[bool, typer.Option("--agent", help="It is an agent's, named beside its person. It makes no tokens.")] = False,
    runs: Annotated[int | None, typer.Option(min=1, metavar="N", help="The agent's budget: submissions, in every mode.")] = None,
    gpu_seconds: Annotated[float | None, typer.Option(min=0.001, metavar="S", help="The agent's budget: seconds of devices.")] = None,
    person: Person = None,
    role: Annotated[str | None, typer.Option(help="With --person, for one who is new: contestant (default), organizer, admin.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is shown once. With --person, a person who is new is made too."""
    settings = Settings.from_env()
    asked = [s.strip() for s in scopes.split(",")] if scopes else None
    budget = {"agent": agent, "runs": runs, "gpu_seconds": gpu_seconds}
    if person is None and role is not None:
        raise RequestError("--role goes with --person, for a person who is new.")
    if person is None:
        made = Server(settings).post(_PATH, "token", name=name, **({"scopes": asked} if asked else {}), **budget)
    else:
        made = _made_for(settings, person, role, name, asked, budget)
    if as_json:
        print_json(made)
        return
    whose = f"{made['person']} ({made['role']})" if person else "yours"
    print(one_line(f"The token {made['name']}, {whose}, may {', '.join(made['scopes'])}. It is shown this once:"))
    print(f"{made['token']}\nIt logs in by  derby login --url {server_of(settings)}  or on the page /login there.")


def list_(person: Person = None, as_json: AsJson = False) -> None:
    """List tokens without their secrets, and what agents have spent."""
    settings = Settings.from_env()
    listed = Server(settings).get(_PATH, "tokens") if person is None else _listed_of(settings, person)
    if as_json:
        print_json(listed)
        return
    rows = [(str(t["id"]), one_line(t["name"], 40), " ".join(t["scopes"]), t["created_at"][:10], "revoked" if t["revoked_at"] else "valid",
             _spent(t["budget"])) for t in listed["tokens"]]
    print("\n".join(table(("id", "name", "scopes", "made", "state", "agent's budget"), rows)))


def revoke(token: NameOrId, person: Person = None) -> None:
    """End a token, and the browser logins it opened."""
    settings = Settings.from_env()
    if person is None:
        name = Server(settings).delete(f"{_PATH}/{quote(token, safe='')}", "revoked_at")["name"]
    else:
        name = _revoked_of(settings, person, token)
    print(one_line(f"The token {name} is revoked."))


def _made_for(
    settings: Settings, person: str, role: str | None, name: str, scopes: list[str] | None, budget: dict[str, Any]
) -> dict[str, Any]:
    from kernelderby.cli.organizer import opened
    from kernelderby.storage import audit, people

    with opened(settings) as database, database.begin() as session:
        owner = people.by_name(session, person) or people.create(session, person, role or "contestant")
        if role not in (None, owner.role):
            raise RequestError(f"{owner.name} is a {owner.role} already, and stays one. Leave --role out, or name another person.")
        token: NewToken = people.NewToken(name=name, scopes=scopes or owner.may_give, **budget)
        text = people.own_token(session, owner, token)
        audit.note(session, None, "token new", owner=owner.id, name=token.name, scopes=list(token.scopes), agent=token.agent)
    return {"person": owner.name, "role": owner.role, "name": token.name, "scopes": list(token.scopes), "token": text}


def _listed_of(settings: Settings, person: str) -> dict[str, Any]:
    from kernelderby.cli.organizer import opened
    from kernelderby.storage import ledger, people

    with opened(settings) as database, database.read() as session:
        return {"tokens": [_as_json(t, ledger.budget(session, t.id)) for t in people.tokens_of(session, _owner(session, person).id)]}


def _as_json(token: "TokenInfo", budget: Any) -> dict[str, Any]:
    spent = {"runs": budget.runs, "runs_spent": budget.runs_spent, "gpu_seconds": budget.gpu_seconds,
             "gpu_seconds_spent": budget.seconds_spent}
    return {"id": token.id, "name": token.name, "scopes": list(token.scopes), "agent": token.agent,
            "created_at": token.created_at.isoformat(), "revoked_at": token.revoked_at and token.revoked_at.isoformat(),
            "budget": spent if token.agent else None}


def _revoked_of(settings: Settings, person: str, token: str) -> str:
    from kernelderby.cli.organizer import opened
    from kernelderby.storage import audit, people

    with opened(settings) as database, database.begin() as session:
        owner = _owner(session, person)
        found = people.revoke_own(session, owner, token)
        audit.note(session, None, "token revoke", owner=owner.id, token=found.id)
    return found.name


def _spent(budget: dict[str, Any] | None) -> str:
    """`12 of 100 runs, 3.1 s`: what an agent has spent, and of how much where there is a limit."""
    if budget is None:
        return "–"
    runs = f" of {budget['runs']}" if budget["runs"] is not None else ""
    seconds = f" of {budget['gpu_seconds']:,.1f}" if budget["gpu_seconds"] is not None else ""
    return f"{budget['runs_spent']}{runs} runs, {budget['gpu_seconds_spent']:,.1f}{seconds} s"


def _owner(session: "Session", name: str) -> "PersonInfo":
    from kernelderby.storage import people

    owner = people.by_name(session, name)
    if owner is None:
        raise NotFound(f"There is no person {name[:80]!r}. `derby token new NAME --person {name[:80]}` makes one.")
    return owner
