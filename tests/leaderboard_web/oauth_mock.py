"""GitHub and Discord as far as a login needs them: a small server on loopback that checks what a real one checks."""

import hashlib
import json
import secrets
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

CLIENT, SECRET = "derby-client", "derby-secret"
PATHS = {"github": ("/login/oauth/authorize", "/login/oauth/access_token", "/api/v3/user"),
         "discord": ("/oauth2/authorize", "/api/v10/oauth2/token", "/api/v10/users/@me")}
Answer = tuple[int, str, bytes]        # status, media type, body


@dataclass
class OAuthMock:
    """What the server knows. `token_says` and `user_says` are its answers in place of the right ones."""

    url: str = ""
    users: dict[str, dict[str, Any]] = field(default_factory=lambda: {
        "github": {"id": 583231, "login": "octocat"}, "discord": {"id": "80351110224678912", "username": "nelly"}})
    denies: bool = False
    token_says: Answer | None = None
    user_says: Answer | None = None
    token_more: dict[str, Any] = field(default_factory=dict)      # beside the right token answer
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)          # text: provider

    def consent(self, address: str) -> str:
        """What a person does who presses the button there: the address the browser is sent back to."""
        answer = httpx.get(address)
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    def authorize(self, provider: str, query: dict[str, str]) -> Answer:
        """The page of consent, which agrees by itself."""
        assert query["response_type"] == "code"
        if query["client_id"] != CLIENT or query.get("code_challenge_method") != "S256" or not query.get("state"):
            return 400, "text/plain", b"bad request"
        back = {"state": query["state"]}
        if self.denies:
            back |= {"error": "access_denied", "error_description": "The person said no"}
        else:
            back["code"] = secrets.token_hex(8)
            self.codes[back["code"]] = query | {"provider": provider}
        return 302, f"{query['redirect_uri']}?{urlencode(back)}", b""

    def token(self, provider: str, form: dict[str, str]) -> Answer:
        """A token for a code: once, with the secret, and with the verifier of the challenge."""
        if self.token_says:
            return self.token_says
        asked = self.codes.pop(form.get("code", ""), None)
        challenge = urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=").decode()
        right = asked and asked["provider"] == provider and asked["code_challenge"] == challenge and (
            form.get("client_id"), form.get("client_secret"), form.get("redirect_uri")) == (CLIENT, SECRET, asked["redirect_uri"])
        if not right:      # GitHub says so with 200
            return 200 if provider == "github" else 400, "application/json", b'{"error": "bad_verification_code"}'
        text = secrets.token_hex(16)
        self.tokens[text] = provider
        return _json({"access_token": text, "token_type": "bearer", "scope": "", **self.token_more})

    def user(self, provider: str, authorization: str) -> Answer:
        """Whose token it is."""
        if self.user_says:
            return self.user_says
        if self.tokens.get(authorization.removeprefix("Bearer ")) != provider:
            return 401, "application/json", b'{"message": "Bad credentials"}'
        return _json(self.users[provider])


@contextmanager
def oauth_mock() -> Iterator[OAuthMock]:
    """A running mock of both."""
    mock = OAuthMock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            at = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(at.query).items()}
            for provider, (authorize, _, user) in PATHS.items():
                if at.path == authorize:
                    self._answer(mock.authorize(provider, query))
                elif at.path == user:
                    self._answer(mock.user(provider, self.headers["Authorization"] or ""))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            provider = next(p for p, (_, token, _) in PATHS.items() if token == self.path)
            self._answer(mock.token(provider, form))

        def _answer(self, answer: Answer) -> None:
            status, kind, body = answer
            self.send_response(status)
            self.send_header("Location" if status == 302 else "Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    mock.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield mock
    server.shutdown()
    server.server_close()


def _json(data: dict[str, Any]) -> Answer:
    return 200, "application/json", json.dumps(data).encode()
