"""What stands before every route: host, origin and size of a request, and the headers of each answer."""

import asyncio
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kernelderby.core.errors import NotAllowed, RequestError, SourceTooLarge
from kernelderby.core.submission import LIMIT_BYTES
from kernelderby.leaderboard_web.door import COOKIE
from kernelderby.leaderboard_web.headers import FOR_GOOD, HEADERS
from kernelderby.leaderboard_web.problem_json import error_response, problem_of

BODY_LIMIT = LIMIT_BYTES + 128 * 1024     # the file, the form's other fields and JSON's escapes
DRAIN_LIMIT = 16 * LIMIT_BYTES            # read and dropped so that the sender hears the answer; beyond it the connection just ends
DRAIN_S = 20
_MOST_DIGITS = 18
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SECRETS = frozenset({"token", "access_token", "bearer_token", "api_key"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class WrongHost(RequestError):
    """This server does not answer under that host name."""

    status = 421


class Guard:
    """ASGI middleware. Refuses a wrong Host, a foreign Origin and a large body; adds the headers that browsers heed."""

    def __init__(self, app: ASGIApp, public_url: str) -> None:
        self.app = app
        self.public = urlsplit(public_url)
        self.hosts = LOOPBACK | {self.public.hostname}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it before any of its body is parsed."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_origin(scope["method"], headers)
            _check_no_secret(scope["query_string"])
            await _check_length(headers, receive)
        except RequestError as error:
            unasked = {**scope, "query_string": b""}      # a page repeats its own address, and this one may hold a secret
            response = error_response(Request(unasked, receive), problem_of(error))
            await response(scope, receive, send)
            return
        await self.app(scope, _counted(receive), _with_headers(send, scope))

    def _check_host(self, headers: Mapping[str, str]) -> None:
        """Refuse names that are not ours: a hostile page may point its own name at a loopback server."""
        if _hostname(headers.get("host", "")) not in self.hosts:
            raise WrongHost(f"This server does not answer under that host name. Open {self.public.geturl()} instead.")

    def _check_origin(self, method: str, headers: Mapping[str, str]) -> None:
        if method in SAFE_METHODS:
            return
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and _netloc(origin) not in (headers.get("host"), self.public.netloc):
            raise NotAllowed("This request comes from another site. Open the form on this server and send it from there.")
        if site not in (None, "same-origin", "none"):
            raise NotAllowed("This request was started by another site. Open the form on this server and send it from there.")
        if origin is None and site is None and f"{COOKIE}=" in headers.get("cookie", ""):
            raise NotAllowed("A request with a session cookie must say its Origin. Programs send a bearer token instead of the cookie.")


def _check_no_secret(query: bytes) -> None:
    """An address is kept by histories, proxies and logs: a token in one is no longer a secret."""
    if _SECRETS.intersection(name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)):
        raise RequestError("A token does not belong into an address, which histories and logs keep. Revoke this one with "
                           "`derby token revoke`, make another, and send it as `Authorization: Bearer …`.")


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


async def _check_length(headers: Mapping[str, str], receive: Receive) -> None:
    length = headers.get("content-length", "")
    if not length.isdecimal() or len(length) > _MOST_DIGITS or int(length) <= BODY_LIMIT:   # what is no number is the server's to refuse
        return
    if int(length) <= DRAIN_LIMIT:
        await _drain(receive)
    raise SourceTooLarge


async def _drain(receive: Receive) -> None:
    async def drop() -> None:
        while (message := await receive())["type"] == "http.request" and message.get("more_body"):
            pass

    try:
        await asyncio.wait_for(drop(), DRAIN_S)
    except TimeoutError:
        return


def _counted(receive: Receive) -> Receive:
    """`receive` that raises SourceTooLarge once a body without a length grows past the limit."""
    total = 0

    async def counted() -> Message:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > BODY_LIMIT:
            raise SourceTooLarge
        return message

    return counted


def _with_headers(send: Send, scope: Scope) -> Send:
    has_hash = scope["path"].startswith("/static/") and scope["query_string"].startswith(b"v=")

    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if has_hash and message["status"] == 200:
                headers["cache-control"] = FOR_GOOD
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped
