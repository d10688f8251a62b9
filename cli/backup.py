"""`derby backup`: the whole platform in one file, and back. An organizer's commands, on the machine that holds the data folder."""

import os
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from kernelderby.cli.options import AsJson
from kernelderby.cli.output import print_json, say
from kernelderby.core.errors import DerbyError, RequestError, SetupError
from kernelderby.core.settings import Settings

if TYPE_CHECKING:
    from kernelderby.storage.backup import Made
    from kernelderby.storage.backup_file import Manifest

_KEYS = ("secret", "signing_key")     # settings, and files of the data folder
_MAKE = "make"
_FILE = typer.Argument(metavar="FILE", help="The backup.", show_default=False)


class _FileOrCommand(TyperGroup):
    """A first word that is no command is the file to write."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", ""):
            args = [_MAKE, *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


def build() -> typer.Typer:
    """`derby backup FILE` and the commands below it."""
    app = typer.Typer(no_args_is_help=True, cls=_FileOrCommand, subcommand_metavar="FILE | COMMAND [ARGS]...",
                      help="Keep the whole platform in one file: derby backup FILE. It may run meanwhile.")
    app.command(_MAKE, hidden=True)(backup)
    app.command("restore")(restore)
    app.command("verify")(verify)
    return app


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not be there yet.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Write database, sources, problems and secrets, all of one moment, into one file that only its owner can read."""
    from kernelderby.storage import audit
    from kernelderby.storage.artifacts import ArtifactStore
    from kernelderby.storage.backup import make
    from kernelderby.storage.database import connect

    settings = Settings.from_env()
    _insist_on_a_platform(settings)
    with closing(connect(settings.database)) as database:
        made = make(database, ArtifactStore(settings.artifacts), _keys_of(settings), file)
        with database.begin() as session:
            audit.note(session, None, "backup", file=str(file.absolute()), rows=made.manifest.rows)
    _tell(file, made, as_json)
    if made.lost:
        raise DerbyError(f"The backup is written, but {len(made.lost)} artifacts that rows name are missing or damaged in "
                         f"{settings.artifacts}, such as {made.lost[0][:12]}. Run it where the platform's data folder is (DERBY_DATA).")


def restore(file: Annotated[Path, _FILE], as_json: AsJson = False) -> None:
    """Fill an empty platform from a backup, once every part of it was verified. Runs that were at work wait in the queue again."""
    from kernelderby.cli.data_folder import AlreadyRunning, owned
    from kernelderby.storage import restore as restoring
    from kernelderby.storage.artifacts import ArtifactStore
    from kernelderby.storage.backup_file import reading
    from kernelderby.storage.database import connect

    settings = Settings.from_env()
    with reading(file) as found:
        restoring.verify(found)
        restoring.insist_on_room(found, settings.data)
        keys = {name: found.key(name) for name in found.manifest.keys}
        _insist_on_same_keys(settings, keys)
        try:
            with owned(settings.data), closing(connect(settings.database)) as database:
                restoring.restore(found, database, ArtifactStore(settings.artifacts), lambda: _keep_keys(settings, keys))
        except AlreadyRunning:
            raise SetupError(f"A platform runs on {settings.data.absolute()}. Stop it, or name an empty folder with DERBY_DATA.") from None
    if as_json:
        print_json({"file": str(file), **_contents(found.manifest)})
        return
    print(f"Restored as of {found.manifest.made_at:%Y-%m-%d %H:%M} UTC: {_in_words(found.manifest)}.\n"
          "Tokens, bans and roles are as they were then: revoke again what was revoked since. Start it: derby up")


def verify(file: Annotated[Path, _FILE], as_json: AsJson = False) -> None:
    """Read a backup against all its hashes; nothing is restored."""
    from kernelderby.storage import restore as restoring
    from kernelderby.storage.backup_file import reading

    with reading(file) as found:
        restoring.verify(found)
    if as_json:
        print_json({"file": str(file), **_contents(found.manifest)})
        return
    print(f"{file} is sound, as of {found.manifest.made_at:%Y-%m-%d %H:%M} UTC: {_in_words(found.manifest)}.")


def _tell(file: Path, made: "Made", as_json: bool) -> None:
    if as_json:
        print_json({"file": str(file), **_contents(made.manifest), "deleted": made.deleted, "lost": list(made.lost)})
        return
    print(f"{file} holds {_in_words(made.manifest)}.")
    if made.deleted:
        print(f"Not in it: {made.deleted} sources of people who deleted theirs.")
    if absent := [name for name in _KEYS if name not in made.manifest.keys]:
        say(f"There is no {' and no '.join(absent)} here yet; the first worker makes them.")
    print("Only its owner can read it (0600); keep it so: whoever has it can foresee seeds, sign receipts and read every source.")


def _contents(manifest: "Manifest") -> dict[str, Any]:
    return {"revision": manifest.revision, "made_at": manifest.made_at.isoformat(),
            "tables": {name: table.rows for name, table in manifest.tables.items()},
            "artifacts": len(manifest.artifacts), "secrets": list(manifest.keys), "bytes": manifest.bytes}


def _in_words(manifest: "Manifest") -> str:
    return (f"{manifest.rows} rows of {len(manifest.tables)} tables, {len(manifest.artifacts)} artifacts and {len(manifest.keys)} secrets "
            f"({manifest.bytes / 1e6:,.1f} MB unpacked, schema {manifest.revision})")


def _insist_on_a_platform(settings: Settings) -> None:
    """SQLite would make the file that is not there."""
    if not settings.database_url and not Path(settings.database.removeprefix("sqlite:///")).is_file():
        raise RequestError(f"There is no platform in {settings.data.absolute()}. Name its folder with DERBY_DATA.")


def _keys_of(settings: Settings) -> dict[str, str]:
    found = {name: getattr(settings, name) or _kept(settings.data / name) for name in _KEYS}
    return {name: value for name, value in found.items() if value}


def _kept(path: Path) -> str:
    try:
        return path.read_text().strip() if path.is_file() else ""
    except OSError as error:
        raise SetupError(f"The secret {path} cannot be read: {error.strerror}.") from None


def _insist_on_same_keys(settings: Settings, keys: Mapping[str, str]) -> None:
    here = _keys_of(settings)
    if unknown := keys.keys() - set(_KEYS):
        raise RequestError(f"The backup holds a secret that this Kernel Derby does not know: {min(unknown)}.")
    for name, value in keys.items():
        if here.get(name, value) != value:
            where = f"DERBY_{name.upper()}" if getattr(settings, name) else str(settings.data / name)
            raise RequestError(f"{where} is another secret than the backup's, whose seeds and receipts could not be verified with it. "
                               "Remove it, or name an empty folder with DERBY_DATA.")


def _keep_keys(settings: Settings, keys: Mapping[str, str]) -> None:
    """Into the data folder, for its owner alone, unless the setting says them."""
    for name, value in keys.items():
        path = settings.data / name
        if getattr(settings, name) or path.is_file():
            continue
        fd, temporary = tempfile.mkstemp(dir=path.parent)   # mode 0600
        with os.fdopen(fd, "w") as file:
            file.write(value + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
