"""Tokens that people make themselves: no token makes or opens more than itself; agents are named, and stop at their budget."""

from typing import Any

import httpx
import pytest

from tests.leaderboard_web.site import SOURCE, Site, full_verdict

TOKENS = "/api/v1/people/me/tokens"


def client(site: Site, token: str) -> httpx.Client:
    return httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {token}"}, timeout=20)


def make(site: Site, owner: str, **asked: Any) -> str:
    """The text of a token that its owner makes."""
    with site.client(owner) as own:
        answer = own.post(TOKENS, json=asked)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["token"])


def send(by: httpx.Client, **fields: str) -> httpx.Response:
    return by.post("/api/v1/submissions", files={"file": ("kernel.py", SOURCE)},
                   data={"problem": "doubling", "device": "cpu", "mode": "test", **fields})


def test_a_token_is_shown_once_and_listed_without_its_text(site: Site) -> None:
    token = make(site, "maker", name="laptop")
    with client(site, token) as own:
        listed = own.get(TOKENS)
    assert token not in listed.text
    assert [(t["name"], t["scopes"]) for t in listed.json()["tokens"]][0] == ("laptop", ["submit", "read"])


@pytest.mark.parametrize(("held", "asked", "status"), [
    (("read",), ["read"], 201), (("read",), ["submit"], 403), (("submit",), ["submit", "read"], 403),
    (("submit", "read"), ["organize"], 403),
    (("submit", "read", "organize"), ["organize"], 403),      # of a contestant, whose role may change
])
def test_a_token_makes_none_that_may_do_more(site: Site, held: tuple[str, ...], asked: list[str], status: int) -> None:
    with client(site, site.token("giver", scopes=held)) as own:
        answer = own.post(TOKENS, json={"name": "-".join((*held, "to", *asked)), "scopes": asked})
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize(("body", "status"), [
    ({"name": "x", "runs": 3}, 422), ({"name": "x", "gpu_seconds": 3}, 422), ({"name": "x", "agent": True, "runs": 0}, 422),
    ({"name": "x", "agent": True, "gpu_seconds": "inf"}, 422), ({"name": " "}, 422), ({"name": "x", "scopes": []}, 422),
    ({"name": "x", "scopes": ["all"]}, 422),
])
def test_what_no_token_can_be_is_refused(site: Site, body: dict[str, Any], status: int) -> None:
    with site.client("refused") as own:
        assert own.post(TOKENS, json=body).status_code == status


@pytest.mark.parametrize("odd", ["0", "-1", str(2**70), "%00", "%ff", "..%2f..", "%E2%80%AE", "x" * 80])
def test_no_name_makes_revoking_fail(site: Site, odd: str) -> None:
    with site.client("odd") as own:
        assert own.delete(f"{TOKENS}/{odd}").status_code == 404


def test_two_valid_tokens_have_two_names(site: Site) -> None:
    make(site, "namer", name="laptop")
    with site.client("namer") as own:
        assert own.post(TOKENS, json={"name": "laptop"}).status_code == 422
        assert own.delete(f"{TOKENS}/laptop").json()["revoked_at"]
    make(site, "namer", name="laptop")


def test_nobody_revokes_the_tokens_of_others_or_stronger_ones(site: Site) -> None:
    strong, weak, robot = make(site, "revoker", name="strong"), make(site, "revoker", name="weak", scopes=["read"]), make(
        site, "revoker", name="robot", agent=True)
    with client(site, weak) as own, site.client("other") as other:
        assert other.delete(f"{TOKENS}/strong").status_code == 404
        assert own.delete(f"{TOKENS}/strong").status_code == 403
        assert own.delete(f"{TOKENS}/weak").status_code == 200
        assert own.get("/api/v1/people/me").status_code == 401
    with client(site, robot) as own:
        assert own.delete(f"{TOKENS}/strong").status_code == 403
        assert own.delete(f"{TOKENS}/robot").status_code == 200
    with client(site, strong) as own:
        assert own.get("/api/v1/people/me").status_code == 200


@pytest.mark.parametrize(("asked", "scopes", "agent"), [
    ({"scopes": ["read"]}, ["read"], None), ({"agent": True, "runs": 1}, ["submit", "read"], "opener"),
])
def test_a_login_by_a_token_may_do_no_more_than_it_and_ends_with_it(
    site: Site, asked: dict[str, Any], scopes: list[str], agent: str | None
) -> None:
    owner = f"login-{agent}"
    token = make(site, owner, name="opener", **asked)
    with httpx.Client(base_url=site.url, headers={"Origin": site.url, "Sec-Fetch-Site": "same-origin"}, timeout=20) as browser:
        assert browser.post("/login", data={"token": token}).status_code == 303
        me = browser.get("/api/v1/people/me").json()
        assert (me["scopes"], me["agent"]) == (scopes, agent)
        form = {"files": {"file": ("kernel.py", SOURCE)}, "data": {"problem": "doubling", "device": "cpu", "mode": "test"}}
        sent = [browser.post("/submit", **form).status_code for _ in range(2)]    # type: ignore[arg-type]
        assert sent == ([303, 429] if agent else [403, 403])
        assert browser.post(TOKENS, json={"name": "more"}).status_code == 403
        with site.client(owner) as own:
            own.delete(f"{TOKENS}/opener")
        assert browser.get("/api/v1/people/me").status_code == 401


def test_an_agent_stops_at_its_runs_and_our_failure_gives_one_back(site: Site) -> None:
    with client(site, make(site, "runner", name="robot", agent=True, runs=2)) as robot:
        first, second = send(robot).json()["submission"], send(robot).json()["submission"]
        site.judge(first)
        refused = send(robot)
        assert refused.status_code == 429
        assert refused.json()["type"] == "urn:kernelderby:quota_spent"
        assert "2 of 2 runs" in refused.json()["detail"]
        site.judge(second, outcome="judge_error")
        assert robot.get("/api/v1/people/me").json()["budget"]["runs_left"] == 1
        assert send(robot).status_code == 201
    with site.client("runner") as own:
        assert send(own).status_code == 201         # its person is another matter


def test_an_agent_stops_at_its_seconds(site: Site) -> None:
    with client(site, make(site, "timer", name="robot", agent=True, gpu_seconds=0.5)) as robot:
        site.judge(send(robot).json()["submission"], **full_verdict(mode="test"))      # 0.91 s of box, load, check and time
        budget = robot.get("/api/v1/people/me").json()["budget"]
        assert (budget["gpu_seconds_spent"], budget["gpu_seconds_left"]) == (0.91, 0)
        refused = send(robot)
    assert (refused.status_code, "0.9 of 0.5 GPU-seconds" in refused.json()["detail"]) == (429, True)


def test_an_agent_is_named_beside_its_person_wherever_its_entry_is_shown(site: Site) -> None:
    with client(site, make(site, "joan", name="robot", agent=True)) as robot, site.client() as nobody:
        number = send(robot, mode="ranked", licence="MIT").json()["submission"]
        site.judge(number, **full_verdict(score_us=0.5, score_ci_us=(0.5, 0.5)))
        shown = nobody.get(f"/api/v1/submissions/{number}").json()
        listed = nobody.get("/api/v1/submissions?limit=1").json()["submissions"][0]
        board = nobody.get("/api/v1/problems/doubling/board?device=cpu").json()["rows"]
        for said in (shown, listed, next(r for r in board if r["submission"] == number)):
            assert (said["person"], said["agent"]) == ("joan", "robot")
        for page in (f"/submissions/{number}", "/problems/doubling?device=cpu"):
            assert "agent robot of joan" in nobody.get(page).text
