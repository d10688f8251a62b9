"""Templates to answers: one Jinja environment, the theme, addresses of static files."""

import hashlib
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from starlette.responses import HTMLResponse

from kernelderby.leaderboard_web.present import numbers, words

HERE = Path(__file__).parent
STATIC = HERE / "static"
THEMES = ("system", "light", "dark")
THEME_COOKIE = "derby_theme"


class Pages:
    """Renders templates. Everything is escaped unless it is Markup."""

    def __init__(self) -> None:
        self._env = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=select_autoescape(default=True),
                                undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, auto_reload=False)
        self._env.filters.update(numbers.FILTERS)
        self._env.globals.update(static=_static_addresses().__getitem__, words=words)

    def render(self, request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
        """A page as `template` writes it, for the reader and in the theme of this request."""
        theme = request.cookies.get(THEME_COOKIE)
        html = self._env.get_template(f"pages/{template}").render(
            here=address_of(request), theme=theme if theme in ("light", "dark") else None,
            me=getattr(request.state, "person", None), **context)
        return HTMLResponse(html, status)


def local_path(path: str | None) -> str:
    """`path` where it stays on this server, else `/`: for redirects that a request asks for."""
    if not path or not path.startswith("/") or path[1:2] in ("/", "\\") or not path.isprintable():
        return "/"
    return path


def address_of(request: Request) -> str:
    """Path and query of a request, for a link that leads back to it."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def _static_addresses() -> dict[str, str]:
    """Static files by name, with the hash of their bytes: a new version is a new address."""
    return {p.name: f"/static/{p.name}?v={hashlib.sha256(p.read_bytes()).hexdigest()[:8]}" for p in STATIC.iterdir() if p.is_file()}
