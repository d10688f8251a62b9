"""Who is let in: hosts, origins, logins, and what an answer tells browsers."""

import subprocess
import sys

import httpx
import pytest

from kernelderby.leaderboard_web.door import COOKIE
from kernelderby.storage import submissions
from tests.leaderboard_web.site import SOURCE, Site

FORM = {"problem": "doubling", "device": "cpu", "mode": "test"}


@pytest.mark.parametrize(("host", "status"), [
    ("localhost:8000", 200), ("127.0.0.1:1", 200), ("[::1]:8000", 200), ("LOCALHOST", 200),
    ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("[", 421), ("", 421), ("a@b:c:d", 421),
])
def test_only_our_own_host_names_are_answered(site: Site, host: str, status: int) -> None:
    with site.client() as client:
        for path in ("/", "/api/v1/devices", "/static/style.css"):
            answer = client.get(path, headers={"Host": host})
            assert answer.status_code == status
            if status == 421:
                assert "http://127.0.0.1:8000" in answer.text


@pytest.mark.parametrize(("headers", "status"), [
    ({"Origin": "https://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://["}, 403),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Origin": "http://127.0.0.1:8000"}, 303),      # the public address, behind a proxy that changes Host
    ({}, 403),                                       # a cookie alone does not say where the request began
])
def test_a_form_counts_only_when_it_was_sent_from_here(site: Site, headers: dict[str, str], status: int) -> None:
    with site.browser("former-1") as browser:
        for name in ("Origin", "Sec-Fetch-Site"):
            del browser.headers[name]
        answer = browser.post("/submit", files={"file": ("kernel.py", SOURCE)}, data=FORM, headers=headers)
    assert answer.status_code == status


def test_a_login_link_logs_in_once_and_only_by_its_button(site: Site) -> None:
    code = site.login_code("linked")
    with httpx.Client(base_url=site.url, headers={"Origin": site.url}) as browser:
        for _ in range(2):   # a preview of the link spends nothing
            page = browser.get(f"/login?code={code}")
            assert f'value="{code}"' in page.text
            assert COOKIE not in browser.cookies
        first = browser.post("/login", data={"code": code, "next": "/entries"})
        cookie = first.headers["set-cookie"]
        assert (first.status_code, first.headers["location"]) == (303, "/entries")
        assert "HttpOnly" in cookie
        assert "samesite=lax" in cookie.lower()
        assert browser.get("/entries").status_code == 200
        again = browser.post("/login", data={"code": code})
        assert again.status_code == 401
        assert "used already" in again.text


def test_a_token_logs_a_browser_in_and_logging_out_ends_its_session(site: Site) -> None:
    with httpx.Client(base_url=site.url, headers={"Origin": site.url}) as browser:
        assert browser.post("/login", data={"token": "nonsense"}).status_code == 401
        browser.post("/login", data={"token": site.token("tokened")})
        cookie = browser.cookies[COOKIE]
        assert browser.get("/api/v1/people/me").json()["name"] == "tokened"
        browser.post("/logout")
        assert COOKIE not in browser.cookies
        browser.cookies.set(COOKIE, cookie)
        assert browser.get("/api/v1/people/me").status_code == 401


@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/\r\nX: y"])
def test_no_redirect_leaves_this_site(site: Site, target: str) -> None:
    with site.client() as client:
        assert client.get("/theme/dark", params={"next": target}).headers["location"] == "/"
        client.headers["Origin"] = site.url
        answer = client.post("/login", data={"code": site.login_code("roamer"), "next": target})
        assert answer.headers["location"] == "/"


def test_pages_that_need_a_login_lead_there_and_back(site: Site) -> None:
    with site.client() as client:
        answer = client.get("/submit?problem=doubling")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fsubmit%3Fproblem%3Ddoubling")


def test_a_failure_of_ours_says_so_and_tells_nothing_of_the_inside(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(submissions, "view", broken)
    page, answer = (httpx.get(site.url + path) for path in ("/submissions/1", "/api/v1/submissions/1"))
    for failed in (page, answer):
        assert failed.status_code == 500
        assert "Something went wrong on our side" in failed.text
        assert "secret" not in failed.text
        assert failed.headers["content-security-policy"].startswith("default-src 'self'")
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/", "/problems/doubling", "/api/v1/devices", "/static/style.css", "/nothing", "/api/v1/nothing"])
def test_every_answer_is_held_to_our_own_resources(site: Site, path: str) -> None:
    with site.client() as client:
        headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


def test_the_theme_is_kept_in_a_cookie(site: Site) -> None:
    with site.client() as client:
        assert "data-theme" not in client.get("/").text
        back = client.get("/theme/dark", params={"next": "/problems/doubling?device=cpu"})
        assert back.headers["location"] == "/problems/doubling?device=cpu"
        assert '<html lang="en" data-theme="dark">' in client.get("/").text
        assert client.get("/theme/pink").status_code == 404


def test_the_server_loads_none_of_the_heavy_libraries() -> None:
    code = "import sys, kernelderby.leaderboard_web.app; print([m for m in ('torch', 'triton', 'numpy', 'alembic') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
