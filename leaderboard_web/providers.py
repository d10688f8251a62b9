"""GitHub and Discord as places that say who someone is, as the settings describe them."""

from dataclasses import dataclass

from kernelderby.core.errors import DerbyError, NotFound
from kernelderby.core.settings import Settings
from kernelderby.core.text import one_line
from kernelderby.storage.identities import title


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
