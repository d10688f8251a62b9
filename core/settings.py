"""The one place that reads the environment. Every setting is `DERBY_` + the field's name; every secret also `…_FILE`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kernelderby.core.errors import SetupError

ROOT = Path(__file__).resolve().parent.parent   # the checkout, or site-packages/kernelderby


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings, with defaults that suit one machine."""

    data: Path = Path(".derby")                 # the data folder: database, sources, problem archives, the local token
    database_url: str = ""                      # empty: SQLite in the data folder
    broker_url: str = ""                        # empty: no doorbell; idle workers look every 5 s
    public_url: str = "http://127.0.0.1:8000"
    problems: Path = ROOT / "problems"          # what `derby up` adds at start
    url: str = ""                               # the server a contestant's commands talk to; empty: public_url
    token: str = ""                             # the contestant's token; empty: the local one on loopback
    secret: str = ""                            # signs seeds and login codes; empty: made once, kept in the data folder
    signing_key: str = ""                       # signs receipts: 32 bytes in base64url; empty: made once, kept in the data folder
    github_client_id: str = ""                  # of an OAuth app; empty: no login by GitHub
    github_client_secret: str = ""
    github_url: str = "https://github.com"      # or a GitHub Enterprise Server
    discord_client_id: str = ""                 # of a Discord application; empty: no login by Discord
    discord_client_secret: str = ""
    discord_url: str = "https://discord.com"
    contact: str = ""                           # where those who are banned can write: an address, a channel
    sandbox: str = "bubblewrap"
    warm_boxes: int = 2                         # how many boxes a worker keeps ready
    gpu: int = 0                                # which GPU a GPU class judges on: 0 is /dev/nvidia0

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Settings from the environment. Raises SetupError for a value that cannot be read."""
        environ = os.environ if environ is None else environ
        given: dict[str, Any] = {}
        for field in fields(cls):
            value = _lookup(environ, f"DERBY_{field.name.upper()}")
            if value is not None:
                given[field.name] = _parse(field.name, value, type(field.default))
        return cls(**given)

    def child_environment(self) -> dict[str, str]:
        """The environment of a process that shall run with these settings."""
        environ = dict(os.environ)
        for field in fields(self):
            name, value = f"DERBY_{field.name.upper()}", getattr(self, field.name)
            if value != field.default:
                environ.pop(f"{name}_FILE", None)
                environ[name] = str(value)
        return environ

    @property
    def database(self) -> str:
        """The SQLAlchemy address of the database."""
        return self.database_url or f"sqlite:///{self.data.absolute() / 'derby.sqlite'}"

    @property
    def artifacts(self) -> Path:
        """The folder of sources and problem archives."""
        return self.data / "artifacts"

    @property
    def builds(self) -> Path:
        """The folder that keeps what was compiled: in the data folder where there is one, else the user's own cache."""
        return (self.data if self.data.is_dir() else Path.home() / ".cache/kernelderby") / "builds"

    @property
    def url_file(self) -> Path:
        """Where `derby up` says its address while it runs."""
        return self.data / "url"

    @property
    def token_file(self) -> Path:
        """Where the local organizer's token is kept."""
        return self.data / "token"

    @property
    def server(self) -> str:
        """The address a contestant's commands talk to, without a trailing slash."""
        return (self.url or self.public_url).rstrip("/")

    def address(self, path: str) -> str:
        """The public address of one of our paths, such as `/submissions/12`."""
        return self.public_url.rstrip("/") + path


def process_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with changes, for a process that it starts."""
    return {**os.environ, **changes}


def _lookup(environ: Mapping[str, str], name: str) -> str | None:
    if path := environ.get(f"{name}_FILE"):
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise SetupError(f"{name}_FILE cannot be read: {error.strerror}.") from None
    return environ.get(name)


def _parse(name: str, value: str, kind: type[Any]) -> Any:
    if issubclass(kind, Path):
        return Path(value)
    if issubclass(kind, int) and not (value.isdecimal() and len(value) < 10):
        raise SetupError(f"DERBY_{name.upper()} must be a whole number, 0 or more; it is {value[:40]!r}.")
    return kind(value)
