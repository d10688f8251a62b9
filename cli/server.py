"""A Kernel Derby server, over HTTP: what every contestant command talks to."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import httpx

from kernelderby.cli.keys import is_loopback, key_for, server_of
from kernelderby.core.errors import DerbyError, RequestError
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line

_PATIENCE_S = 60     # how long a server that does not answer is asked again
_NEVER_THERE = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL)


class NoServer(DerbyError):
    """No server answers."""


class ServerFailed(DerbyError):
    """The server failed on its side. Try again in a moment."""


class Server:
    """The server that the settings name. Raises NoServer, ServerFailed, or RequestError with the server's own sentence."""

    def __init__(self, settings: Settings, transport: httpx.BaseTransport | None = None) -> None:
        self.url = server_of(settings)
        key = key_for(settings, self.url)
        self._was_reached = False
        try:
            self._http = httpx.Client(
                base_url=f"{self.url}/api/v1", transport=transport, timeout=httpx.Timeout(60, connect=5),
                headers={"Authorization": f"Bearer {key}"} if key else {},
                trust_env=not is_loopback(self.url),   # a proxy that the environment names cannot reach this machine's loopback
            )
        except (httpx.InvalidURL, UnicodeError) as error:
            raise RequestError(f"DERBY_URL is {one_line(self.url, 120)!r}, which is no address: {error}.") from None

    def get(self, path: str, expects: str, **query: str) -> dict[str, Any]:
        """`GET /api/v1/{path}` as an object that has the key `expects`."""
        return self._read(self._ask("GET", path, params=query), expects)

    def post(self, path: str, expects: str, **fields: Any) -> dict[str, Any]:
        """`POST /api/v1/{path}` with these fields as JSON, as an object that has the key `expects`."""
        return self._read(self._ask("POST", path, json=fields or None), expects)

    def upload(self, path: str, expects: str, file_name: str, data: bytes, **fields: str) -> dict[str, Any]:
        """`POST /api/v1/{path}` as a form with the file `file`, as an object that has the key `expects`."""
        return self._read(self._ask("POST", path, files={"file": (file_name, data)}, data=fields), expects)

    def patch(self, path: str, expects: str, **fields: Any) -> dict[str, Any]:
        """`PATCH /api/v1/{path}` with these fields as JSON, as an object that has the key `expects`."""
        return self._read(self._ask("PATCH", path, json=fields), expects)

    def text(self, path: str) -> str:
        """`GET /api/v1/{path}`, as the text that it is."""
        response = self._ask("GET", path)
        if not response.is_success:
            self._read(response, "")
        return response.text

    def delete(self, path: str, expects: str, **fields: Any) -> dict[str, Any]:
        """`DELETE /api/v1/{path}`, with these fields as JSON where there are any, as an object that has the key `expects`."""
        return self._read(self._ask("DELETE", path, json=fields or None), expects)

    def submit(self, file_name: str, source: bytes, fields: dict[str, str]) -> dict[str, Any]:
        """Send a kernel; the ticket. Safe to repeat: a lost answer is asked for again under the same key."""
        key = {"Idempotency-Key": uuid.uuid4().hex}

        def send() -> httpx.Response:
            return self._ask("POST", "submissions", files={"file": (file_name, source)}, data=fields, headers=key)
        return self._read(self._patiently(send, lambda _: None), "submission")

    def events(self, submission: int, after: int, lost: Callable[[str], None]) -> list[dict[str, Any]]:
        """The events after `after`, waiting for a first one. `lost` hears when the server went away and is asked again."""
        def ask() -> httpx.Response:
            return self._ask("GET", f"submissions/{submission}/events", params={"after": after, "wait": 20})
        events: list[dict[str, Any]] = self._read(self._patiently(ask, lost), "events")["events"]
        return events

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        with self._reachable():
            response = self._http.request(method, path, **options)
        self._was_reached = True
        return response

    def _patiently(self, ask: Callable[[], httpx.Response], lost: Callable[[str], None]) -> httpx.Response:
        deadline, pause_s = time.monotonic() + _PATIENCE_S, 0.5
        while True:
            try:
                return ask()
            except NoServer as error:
                never_there = not self._was_reached and isinstance(error.__cause__, _NEVER_THERE)
                if never_there or time.monotonic() > deadline:
                    raise
                lost("The server does not answer; asking again.")
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, 8)

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise NoServer(f"No server answers at {self.url} ({_reason(error)}). Start one with `./derby up`, "
                           "or name another with DERBY_URL.") from error

    def _read(self, response: httpx.Response, expects: str) -> dict[str, Any]:
        body = _json(response)
        if response.is_success and isinstance(body, dict) and expects in body:
            return body
        said = one_line(body.get("detail") or "", 1000) if isinstance(body, dict) else ""
        if response.status_code >= 500:
            raise ServerFailed(said or None)
        if response.status_code == 401:
            said = said or "The server wants to know who you are."
            raise RequestError(f"{said} (Here: set DERBY_TOKEN, or run `derby login`.)")
        raise RequestError(said or f"{self.url} answers HTTP {response.status_code}; is it a Kernel Derby server? Check DERBY_URL.")


def the_server() -> Server:
    """The one that the settings name. Raises SetupError."""
    return Server(Settings.from_env())


def contest_path(contest: str) -> str:
    """Where a contest's routes begin."""
    return f"contests/{quote(contest, safe='')}"


def _json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    return one_line(error, 120) or type(error).__name__
