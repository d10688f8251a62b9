"""Logins by GitHub and Discord, against a server that speaks as they do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from kernelderby.core.settings import Settings
from kernelderby.leaderboard_web.door import COOKIE
from kernelderby.leaderboard_web.pages.oauth import BROWSER_COOKIE
from kernelderby.storage import identities, people
from kernelderby.storage.identities import RoundRefused
from tests.leaderboard_web.oauth_mock import CLIENT, SECRET, OAuthMock, oauth_mock
from tests.leaderboard_web.site import Site, running, serving

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, OAuthMock]]:
    """A site that lets people in by both providers, and the providers."""
    folder = tmp_path_factory.mktemp("oauth")
    with running(folder) as site, oauth_mock() as mock:
        settings = Settings(data=folder / "data", github_client_id=CLIENT, github_client_secret=SECRET, github_url=mock.url,
                            discord_client_id=CLIENT, discord_client_secret=SECRET, discord_url=mock.url, contact="judges@example.org")
        with serving(settings) as url:
            yield replace(site, url=url), mock


@pytest.fixture
def site(doors: tuple[Site, OAuthMock]) -> Site:
    return doors[0]


@pytest.fixture
def mock(doors: tuple[Site, OAuthMock]) -> Iterator[OAuthMock]:
    mock = doors[1]
    yield mock
    fresh = OAuthMock()
    mock.users, mock.denies, mock.token_says, mock.user_says, mock.token_more = fresh.users, False, None, None, {}


@contextmanager
def browser_of(site: Site, cookie: str | None = None) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url, headers={"Origin": site.url, "Sec-Fetch-Site": "same-origin"}, timeout=20) as browser:
        if cookie:
            browser.cookies.set(COOKIE, cookie, domain="127.0.0.1")
        yield browser


def begin(browser: httpx.Client, provider: str = "github", **asked: Any) -> str:
    """The address at the provider that the button leads to."""
    answer = browser.post(f"/login/{provider}", **asked)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def come_back(browser: httpx.Client, address: str) -> httpx.Response:
    """The provider's redirect, on this server whatever its public address."""
    at = urlsplit(address)
    return browser.get(f"{at.path}?{at.query}", headers={"Sec-Fetch-Site": "cross-site", "Origin": ""})


def log_in(site: Site, mock: OAuthMock, provider: str = "github", next: str = "/entries") -> tuple[httpx.Response, str | None]:
    with browser_of(site) as browser:
        answer = come_back(browser, mock.consent(begin(browser, provider, data={"next": next})))
        return answer, browser.cookies.get(COOKIE)


def me(site: Site, cookie: str | None) -> dict[str, Any]:
    with browser_of(site, cookie) as browser:
        return dict(browser.get("/api/v1/people/me").json())


@pytest.mark.parametrize(("provider", "user"), [
    ("github", {"id": 101, "login": "hopper"}), ("discord", {"id": "102000000000000000", "username": "lovelace"})])
def test_an_unknown_account_makes_a_person_and_a_known_one_logs_its_person_in(
    site: Site, mock: OAuthMock, provider: str, user: dict[str, Any]
) -> None:
    mock.users[provider] = user
    answer, cookie = log_in(site, mock, provider)
    first = me(site, cookie)
    assert (answer.status_code, answer.headers["location"]) == (303, "/entries")
    assert (first["name"], first["role"], first["scopes"]) == (user.get("login") or user["username"], "contestant",
                                                              ["submit", "read", "organize"])
    mock.users[provider] = user | {"login": "renamed", "username": "renamed"}      # the number counts, not the name
    assert me(site, log_in(site, mock, provider)[1])["id"] == first["id"]


@pytest.mark.parametrize(("taken", "login", "name"), [
    ("turing", "turing", "turing-2"), ("Knuth", "knuth", "knuth-2"), (None, "12", "github-12"), (None, "me", "github-me"),
    (None, "deleted-3", "github-deleted-3"), (None, "a\u202eb\n", "a\ufffdb"), (None, "x" * 200, "x" * 59 + "…")])
def test_a_name_is_made_unique_and_means_nothing_else(site: Site, mock: OAuthMock, taken: str | None, login: str, name: str) -> None:
    if taken:
        site.person(taken)
    mock.users["github"] = {"id": 1000 + hash(login) % 10**6, "login": login}
    assert me(site, log_in(site, mock)[1])["name"] == name


@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/\\evil.example"])
def test_the_way_on_stays_on_this_site(site: Site, mock: OAuthMock, target: str) -> None:
    assert log_in(site, mock, next=target)[0].headers["location"] == "/"


def test_a_round_belongs_to_the_browser_that_began_it(site: Site, mock: OAuthMock) -> None:
    with browser_of(site) as attacker, browser_of(site) as victim:
        address = mock.consent(begin(attacker))
        begin(victim)                                     # has a round of their own under way
        forged = come_back(victim, address)
        assert forged.status_code == 401
        assert "another browser" in forged.text
        assert COOKIE not in victim.cookies
        with browser_of(site) as nobody:
            assert "another browser" in come_back(nobody, address).text
        assert come_back(attacker, address).status_code == 303


def test_a_state_that_is_not_ours_logs_nobody_in(site: Site, mock: OAuthMock) -> None:
    with browser_of(site) as browser:
        address = mock.consent(begin(browser))
        state = parse_qs(urlsplit(address).query)["state"][0]
        answer = come_back(browser, address.replace(state, state[:-1] + "-"))
        assert answer.status_code == 401
        assert "did not begin on this server" in answer.text
        crossed = come_back(browser, address.replace("/github/", "/discord/"))
        assert "did not begin on this server" in crossed.text


def test_a_round_is_used_once(site: Site, mock: OAuthMock) -> None:
    with browser_of(site) as browser:
        address = mock.consent(begin(browser))
        kept = browser.cookies[BROWSER_COOKIE]
        assert come_back(browser, address).status_code == 303
        browser.cookies.set(BROWSER_COOKIE, kept, path="/login")
        again = come_back(browser, address)
    assert again.status_code == 401
    assert "used already" in again.text


@pytest.mark.parametrize(("minutes", "passes"), [(-5, True), (0, True), (5, True), (9.9, True), (10.1, False), (15, False)])
def test_a_round_lives_ten_minutes_and_bears_clocks_that_differ_by_five(site: Site, minutes: float, passes: bool) -> None:
    with site.world.database.begin() as session:
        started = identities.start_round(session, "github", "/", None, NOW)
    with site.world.database.begin() as session:
        if passes:
            assert identities.end_round(session, "github", started.state, started.browser, NOW + timedelta(minutes=minutes)).next == "/"
        else:
            with pytest.raises(RoundRefused, match="longer than 10 minutes"):
                identities.end_round(session, "github", started.state, started.browser, NOW + timedelta(minutes=minutes))


@pytest.mark.parametrize("more", [{"expires_in": -300}, {"expires_in": 0}, {"expires_at": 1}, {"expires_in": "300"}])
def test_the_providers_clock_does_not_matter(site: Site, mock: OAuthMock, more: dict[str, Any]) -> None:
    mock.token_more = more
    assert log_in(site, mock)[0].status_code == 303


def test_who_says_no_there_is_back_at_the_login_with_a_sentence(site: Site, mock: OAuthMock) -> None:
    mock.denies = True
    answer, cookie = log_in(site, mock)
    assert answer.status_code == 401
    assert "GitHub did not log you in" in answer.text
    assert cookie is None


@pytest.mark.parametrize(("token_says", "user_says"), [
    ((500, "text/html", b"<h1>oops</h1>"), None), ((200, "text/html", b"<h1>hello</h1>"), None), ((200, "application/json", b"[]"), None),
    ((200, "application/json", b"{}"), None), ((200, "application/json", b'{"error": "bad_verification_code"}'), None),
    ((200, "application/json", b'{"error": {"a": 1}}'), None), ((200, "application/json", b'{"access_token": 3}'), None),
    ((200, "application/json", b'{"access_token": "a\\nb"}'), None), ((302, "http://127.0.0.1:1/", b""), None),
    ((200, "application/json", b'{"access_token": "a", "expires_at": "soon"}'), None),
    (None, (500, "text/plain", b"")), (None, (200, "application/json", b"null")), (None, (200, "application/json", b"{}")),
    (None, (200, "application/json", b'{"id": true, "login": "x"}')), (None, (200, "application/json", b'{"id": "7;", "login": "x"}')),
    (None, (200, "application/json", b'{"id": 7}')), (None, (200, "application/json", b'{"id": 7, "login": " "}')),
    (None, (200, "application/json", b'{"id": 7, "login": ["x"]}')), (None, (200, "application/json", b"\xff\xfe")),
])
def test_nonsense_from_a_provider_is_a_sentence(
    site: Site, mock: OAuthMock, token_says: tuple[int, str, bytes] | None, user_says: tuple[int, str, bytes] | None
) -> None:
    mock.token_says, mock.user_says = token_says, user_says
    answer, cookie = log_in(site, mock)
    assert answer.status_code == 502
    assert "GitHub" in answer.text
    assert 'role="alert"' in answer.text
    assert cookie is None


def test_a_provider_that_is_down_is_a_sentence(site: Site, mock: OAuthMock) -> None:
    folder = site.world.artifacts.path("0" * 64).parents[2]
    gone = Settings(data=folder, github_client_id=CLIENT, github_client_secret=SECRET, github_url="http://127.0.0.1:9")
    with browser_of(site) as browser:
        address = mock.consent(begin(browser))
        with serving(gone) as url:
            browser.base_url = httpx.URL(url)
            answer = come_back(browser, address)
    assert answer.status_code == 502
    assert "GitHub does not answer" in answer.text


def test_only_what_is_configured_is_offered(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    with browser_of(site) as browser:
        page = browser.get("/login")
        assert "Log in with GitHub" in page.text and "Log in with Discord" in page.text
        assert browser.post("/login/gitlab").status_code == 404
    with running(tmp_path_factory.mktemp("plain")) as plain, browser_of(plain) as browser:
        assert "Log in with GitHub" not in browser.get("/login").text
        assert browser.post("/login/github").status_code == 404


def test_forms_of_the_login_page_may_lead_to_the_providers_alone(site: Site, mock: OAuthMock) -> None:
    with browser_of(site) as browser:
        assert f"form-action 'self' {mock.url};" in browser.get("/login").headers["content-security-policy"] + ";"
        assert browser.get("/").headers["content-security-policy"].split("; ")[-1] == "form-action 'self'"


def test_each_login_is_a_new_cookie_and_ends_the_browsers_old_one(site: Site, mock: OAuthMock) -> None:
    old = log_in(site, mock)[1]
    with browser_of(site, old) as browser:
        come_back(browser, mock.consent(begin(browser)))
        new = [c.value for c in browser.cookies.jar if c.name == COOKIE][-1]
    assert new != old
    assert me(site, old)["status"] == 401
    assert me(site, new)["name"] == "octocat"


def test_a_planted_cookie_is_not_what_a_login_opens(site: Site) -> None:
    with browser_of(site, "planted-by-someone-else") as browser:
        answer = browser.post("/login", data={"code": site.login_code("planted")})
    assert answer.status_code == 303
    assert "planted-by-someone-else" not in answer.headers["set-cookie"]


def test_an_account_is_linked_to_who_is_logged_in(site: Site, mock: OAuthMock) -> None:
    mock.users["discord"] = {"id": "555", "username": "linker"}
    with site.world.database.begin() as session:
        person = people.create(session, "linking")
        cookie = people.open_login(session, person.id)
    with browser_of(site, cookie) as browser:
        answer = come_back(browser, mock.consent(begin(browser, "discord", params={"link": "1"}, data={"next": "/account"})))
        assert (answer.status_code, answer.headers["location"]) == (303, "/account")
        assert "Discord: linker" in browser.get("/account").text
    assert me(site, log_in(site, mock, "discord")[1])["id"] == person.id


def test_nobody_links_without_a_login_or_after_it_ended(site: Site, mock: OAuthMock) -> None:
    with site.world.database.begin() as session:
        cookie = people.open_login(session, people.create(session, "gone-meanwhile").id)
    with browser_of(site) as nobody:
        assert nobody.post("/login/github?link=1").status_code == 401
    with browser_of(site, cookie) as browser:
        address = mock.consent(begin(browser, "github", params={"link": "1"}))
        with site.world.database.begin() as session:
            people.end_session(session, cookie)
        answer = come_back(browser, address)
    assert answer.status_code == 401
    assert "not logged in any more" in answer.text


def test_an_account_that_is_someone_elses_is_not_linked(site: Site, mock: OAuthMock) -> None:
    mock.users["github"] = {"id": 777, "login": "owned"}
    log_in(site, mock)
    with site.world.database.begin() as session:
        cookie = people.open_login(session, people.create(session, "envious").id)
    with browser_of(site, cookie) as browser:
        answer = come_back(browser, mock.consent(begin(browser, "github", params={"link": "1"})))
    assert answer.status_code == 422
    assert "logs in another person here" in answer.text


def test_who_is_banned_reads_why_and_where_to_write(site: Site, mock: OAuthMock) -> None:
    mock.users["github"] = {"id": 888, "login": "cheater"}
    log_in(site, mock)
    with site.client("boss", "organizer") as boss:
        assert boss.post("/api/v1/people/cheater/ban", json={"reason": "Forged a clock."}).status_code == 200
    answer, cookie = log_in(site, mock)
    assert answer.status_code == 403
    assert "Forged a clock" in answer.text and "judges@example.org" in answer.text
    assert cookie is None


@pytest.mark.parametrize("name", ["token", "access_token"])
@pytest.mark.parametrize("path", ["/", "/api/v1/people/me", "/api/v1/devices", "/login"])
def test_a_token_in_an_address_is_refused_with_a_sentence(site: Site, name: str, path: str) -> None:
    token = site.token("careless")
    with site.client() as client:
        answer = client.get(path, params={name: token})
    assert answer.status_code == 422
    assert "does not belong into an address" in answer.text
    assert token not in answer.text
