"""GitHub and Discord as places that say who someone is: where to send a browser, and what to ask when it comes back."""

from dataclasses import dataclass
from typing import Any

import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.oauth2.client import OAuth2Client

from kernelderby.core.errors import DerbyError, NotFound
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line
from kernelderby.storage.identities import Account, title

_PATIENCE = httpx.Timeout(10, connect=5)


class ProviderFailed(DerbyError):
    """The login did not work out. Try again in a minute, or log in another way."""

    status = 502


@dataclass(frozen=True, kw_only=True)
class Provider:
    """One provider, as the settings describe it."""

    key: str               # github, discord
    client_id: str
    client_secret: str
    authorize_url: str
    token_url: str
    user_url: str
    name_field: str        # of the answer about the user
    scope: str | None
    back_url: str          # of ours, where the browser returns to

    @property
    def title(self) -> str:
        """Its name as people write it."""
        return title(self.key)


def providers(settings: Settings) -> list[Provider]:
    """Those that the settings configure."""
    return [p for p in (_github(settings), _discord(settings)) if p.client_id and p.client_secret]


def provider(settings: Settings, key: str) -> Provider:
    """A provider by its key. Raises NotFound where none is configured under it."""
    found = next((p for p in providers(settings) if p.key == key), None)
    if found is None:
        raise NotFound(f"Nobody can log in by {one_line(key, 40)!r} here. The page /login shows the ways there are.")
    return found


def address_of_login(asked: Provider, state: str, verifier: str) -> str:
    """Where to send a browser, with the state and PKCE's challenge (S256) in the address."""
    with httpx.Client() as http:
        address, _ = _client(asked, http).create_authorization_url(asked.authorize_url, state=state, code_verifier=verifier)
    return str(address)


def account_of(asked: Provider, code: str, verifier: str) -> Account:
    """Whose account that code of a login is. Raises ProviderFailed where the provider is away, refuses, or answers nonsense."""
    try:
        with httpx.Client(timeout=_PATIENCE) as http:
            # the token is used at once and forgotten, so when it expires by the provider's clock is of no matter
            token = _client(asked, http).fetch_token(
                asked.token_url, code=code, code_verifier=verifier, grant_type="authorization_code", redirect_uri=asked.back_url,
                client_id=asked.client_id, client_secret=asked.client_secret, auth=httpx.Auth())
            answer = http.get(asked.user_url, headers={"Authorization": f"Bearer {token['access_token']}", "Accept": "application/json"})
            answer.raise_for_status()
            return _read(asked, answer.json())
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise ProviderFailed(f"{asked.title} does not answer ({type(error).__name__}). Try again in a minute, or log in another way."
                             ) from error
    except AuthlibBaseError as error:
        raise ProviderFailed(f"{asked.title} did not take the login: {one_line(error.error or 'no reason given', 80)}. Start it again."
                             ) from error
    except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProviderFailed(f"{asked.title} answered what cannot be understood. Try again in a minute, or log in another way."
                             ) from error


def _client(asked: Provider, http: httpx.Client) -> OAuth2Client:
    return OAuth2Client(http, client_id=asked.client_id, scope=asked.scope, redirect_uri=asked.back_url, code_challenge_method="S256")


def _read(asked: Provider, user: Any) -> Account:
    subject, name = str(user["id"]), user[asked.name_field]
    if isinstance(user["id"], bool) or not (subject.isascii() and subject.isdecimal() and len(subject) <= 30):
        raise ValueError("the account has no number")
    if not isinstance(name, str) or not one_line(name, 80):
        raise ValueError("the account has no name")
    return Account(provider=asked.key, subject=subject, name=one_line(name, 80))


def _github(settings: Settings) -> Provider:
    url = settings.github_url.rstrip("/")
    api = "https://api.github.com" if url == "https://github.com" else f"{url}/api/v3"      # as GitHub Enterprise Server has it
    return Provider(key="github", client_id=settings.github_client_id, client_secret=settings.github_client_secret,
                    authorize_url=f"{url}/login/oauth/authorize", token_url=f"{url}/login/oauth/access_token", user_url=f"{api}/user",
                    name_field="login", scope=None, back_url=settings.address("/login/github/back"))


def _discord(settings: Settings) -> Provider:
    url = settings.discord_url.rstrip("/")
    return Provider(key="discord", client_id=settings.discord_client_id, client_secret=settings.discord_client_secret,
                    authorize_url=f"{url}/oauth2/authorize", token_url=f"{url}/api/v10/oauth2/token",
                    user_url=f"{url}/api/v10/users/@me", name_field="username", scope="identify",
                    back_url=settings.address("/login/discord/back"))
