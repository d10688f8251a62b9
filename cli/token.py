"""`derby token`: an organizer's command, on the machine that holds the database."""

from typing import TYPE_CHECKING, Annotated

import typer

from kernelderby.cli.keys import server_of
from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json, table
from kernelderby.core.errors import NotFound, RequestError
from kernelderby.core.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from kernelderby.storage.people import PersonInfo

Person = Annotated[str, typer.Argument(metavar="PERSON", help="The person's name.", show_default=False)]


def build() -> typer.Typer:
    """The commands below `derby token`."""
    app = typer.Typer(no_args_is_help=True, help="Give people access: make, list and revoke tokens.")
    for command in (new, list_, revoke):
        app.command(command.__name__.rstrip("_"))(command)
    return app


def new(
    person: Person,
    role: Annotated[str | None, typer.Option(help="For a person who is new: contestant (the default), organizer or admin.")] = None,
    name: Annotated[str, typer.Option(help="What the token is for.")] = "",
    scope: Annotated[list[str] | None, typer.Option(help="submit, read, organize; repeatable. The default fits the role.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token; a person who is new is made too. It is shown once."""
    from kernelderby.cli.organizer import opened
    from kernelderby.storage import people

    settings = Settings.from_env()
    with opened(settings) as database, database.begin() as session:
        owner = people.by_name(session, person) or people.create(session, person, role or "contestant")
        if role not in (None, owner.role):
            raise RequestError(f"{owner.name} is a {owner.role} already, and stays one. Leave --role out, or name another person.")
        scopes = scope or (["submit", "read"] if owner.role == "contestant" else list(people.SCOPES))
        token = people.new_token(session, owner.id, name or "made by derby token", scopes)
    if as_json:
        print_json({"person": owner.name, "role": owner.role, "scopes": scopes, "token": token})
        return
    print(f"The token of {owner.name} ({owner.role}; {', '.join(scopes)}), shown this once:\n{token}\n"
          f"With it they log in:  derby login --url {server_of(settings)}  or on the page /login there.")


def list_(person: Person, as_json: AsJson = False) -> None:
    """List a person's tokens, without their secrets."""
    from kernelderby.cli.organizer import opened
    from kernelderby.storage import people

    with opened(Settings.from_env()) as database, database.read() as session:
        tokens = people.tokens_of(session, _owner(session, person).id)
    if as_json:
        print_json({"tokens": [{"id": t.id, "name": t.name, "scopes": list(t.scopes), "created_at": t.created_at.isoformat(),
                                "revoked_at": t.revoked_at and t.revoked_at.isoformat()} for t in tokens]})
        return
    rows = [(str(t.id), t.name, " ".join(t.scopes), f"{t.created_at:%Y-%m-%d}", "revoked" if t.revoked_at else "valid") for t in tokens]
    print("\n".join(table(("id", "name", "scopes", "made", "state"), rows)))


def revoke(person: Person, number: Annotated[int, typer.Argument(metavar="ID", help="As `derby token list` shows it.")]) -> None:
    """End a token."""
    from kernelderby.cli.organizer import opened
    from kernelderby.storage import people

    with opened(Settings.from_env()) as database, database.begin() as session:
        people.revoke_token(session, _owner(session, person).id, number)
    print(f"Token {number} of {person} is revoked.")


def _owner(session: "Session", name: str) -> "PersonInfo":
    from kernelderby.storage import people

    owner = people.by_name(session, name)
    if owner is None:
        raise NotFound(f"There is no person {name[:80]!r}. `derby token new {name[:80]}` makes one.")
    return owner
