"""Which server a command talks to, and the token it shows there."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import typer

from kernelderby.core.errors import RequestError
from kernelderby.core.settings import Settings

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def server_of(settings: Settings) -> str:
    """DERBY_URL; else the platform that runs in the data folder; else the default address."""
    if not settings.url and settings.url_file.is_file():
        return settings.url_file.read_text().strip().rstrip("/")
    return settings.server


def key_for(settings: Settings, url: str) -> str | None:
    """DERBY_TOKEN; else the token `derby login` kept for that server; else, on loopback, the local organizer's."""
    if settings.token:
        return settings.token
    if saved := _saved().get(url):
        return saved
    if is_loopback(url) and settings.token_file.is_file():
        return settings.token_file.read_text().strip()
    return None


def keep_key(url: str, token: str) -> Path:
    """Keep a token for a server, readable by its owner alone; the file it went to."""
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(json.dumps({**_saved(), url: token}, indent=1))
    return path


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own."""
    try:
        return urlsplit(url).hostname in _LOOPBACK
    except ValueError:
        raise RequestError(f"{url[:120]!r} is not the address of a server. Check DERBY_URL.") from None


def _saved() -> dict[str, str]:
    try:
        data = json.loads(_path().read_text())
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in data.items()} if isinstance(data, dict) else {}


def _path() -> Path:
    return Path(typer.get_app_dir("kernelderby")) / "tokens.json"
