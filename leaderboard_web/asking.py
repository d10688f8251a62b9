"""A round over OAuth with a provider: where to send a browser, and what to ask when it comes back."""

from typing import Any

import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.oauth2.client import OAuth2Client

from kernelderby.core.text import one_line
from kernelderby.leaderboard_web.providers import Provider, ProviderFailed
from kernelderby.storage.identities import Account

_PATIENCE = httpx.Timeout(10, connect=5)


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
