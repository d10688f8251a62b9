"""HEAD: what GET would answer, without its body."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Heads:
    """Middleware that asks the app GET in place of HEAD, and ends the answer after its headers: a stream is not waited for."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        await self.app({**scope, "method": "GET"}, receive, _without_body(send))


def _without_body(send: Send) -> Send:
    async def wrapped(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})      # the server then tells the app that the reader is gone

    return wrapped
