"""Teams, places and quotas over the API and by command line, on one contest."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from kernelderby.cli.main import build
from kernelderby.core.contest import ModeQuota
from kernelderby.core.rules import Quota
from kernelderby.core.verdict import Mode
from tests.leaderboard_web.site import SOURCE, Site

HOUR = timedelta(hours=1)


def hold(site: Site, name: str, **rules: Any) -> None:
    now = datetime.now(UTC)
    site.world.contest(name, **{"starts_at": now - HOUR, "ends_at": now + HOUR, **rules})


def send(by: httpx.Client, **fields: str) -> httpx.Response:
    return by.post("/api/v1/submissions", files={"file": ("kernel.py", SOURCE)}, data=fields)


def derby(site: Site, monkeypatch: pytest.MonkeyPatch, token: str, *arguments: str) -> str:
    """What the command prints; it must end with 0."""
    monkeypatch.setenv("DERBY_URL", site.url)
    monkeypatch.setenv("DERBY_TOKEN", token)
    done = CliRunner().invoke(build(), arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_team_enters_sends_and_is_told_what_is_left(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    hold(site, "teams_only", by_team=True, by_invitation=True, quotas={Mode.TEST: ModeQuota(runs=2)})
    ann, ben, boss = (site.token(n, r) for n, r in (("ann", "contestant"), ("ben", "contestant"), ("boss", "organizer")))
    first, second = derby(site, monkeypatch, boss, "contest", "invite", "teams_only", "--count", "2").split()
    derby(site, monkeypatch, ann, "team", "create", "Warps")
    code = derby(site, monkeypatch, ann, "team", "invite").split()[-1]
    assert "Warps" in derby(site, monkeypatch, ben, "team", "join", code)
    assert "ann, ben" in derby(site, monkeypatch, ben, "team", "show", "warps")
    for token, given in ((ann, first), (ben, second)):
        derby(site, monkeypatch, token, "contest", "register", "teams_only", "--team", "Warps", "--invitation", given,
              "--email", "a@example.org")

    with httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {ben}"}) as own:
        assert send(own, contest="teams_only").json()["left"] == {"runs": 1, "gpu_seconds": None}
    kernel = tmp_path / "kernel.py"
    kernel.write_bytes(SOURCE)
    derby(site, monkeypatch, ann, "submit", str(kernel), "--contest", "teams_only", "--no-wait")
    with httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {ben}"}) as own:
        refused = send(own, contest="teams_only")
        assert (refused.status_code, refused.headers.get("Retry-After")) == (429, None)      # it does not come back
        assert "does not come back" in refused.json()["detail"]
        modes = {m["mode"]: m for m in own.get("/api/v1/contests/teams_only/quota").json()["modes"]}
    assert (modes["test"]["runs_left"], modes["ranked"]["runs_left"]) == (0, None)
    assert "does not come back" in derby(site, monkeypatch, ben, "contest", "quota", "teams_only")

    assert "It belongs to ben" in derby(site, monkeypatch, ann, "team", "leave", "Warps")
    assert "no team" in derby(site, monkeypatch, ann, "team", "list")


def test_two_teams_merge_by_command_line(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    cyd, dan = site.token("cyd"), site.token("dan")
    derby(site, monkeypatch, cyd, "team", "create", "Cyd's")
    derby(site, monkeypatch, dan, "team", "create", "Dan's")
    code = derby(site, monkeypatch, cyd, "team", "merge").split()[-1]
    assert "cyd, dan" in derby(site, monkeypatch, dan, "team", "merge", "--code", code)


def test_an_hourly_quota_says_when_it_has_room_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelderby.judge.intake.Quota", lambda: Quota(an_hour=dict.fromkeys(Mode, 1)))
    with site.client("hourly") as own:
        assert send(own, problem="doubling", device="cpu").json()["left"] == {"runs": 0, "gpu_seconds": None}
        refused = send(own, problem="doubling", device="cpu")
    assert refused.status_code == 429
    assert 3500 < int(refused.headers["Retry-After"]) <= 3600


def test_a_contact_is_its_persons_and_the_organizers_alone(site: Site) -> None:
    hold(site, "prizes")
    with site.client("eve") as eve, site.client("fay") as fay:
        eve.post("/api/v1/contests/prizes/registration", json={"contact": {"email": "eve@secret.example"}})
        assert eve.get("/api/v1/contests/prizes/registration").json()["contact"]["email"] == "eve@secret.example"
        for path in ("registration", "quota", ""):
            assert "secret" not in fay.get(f"/api/v1/contests/prizes/{path}".rstrip("/")).text
        assert fay.get("/api/v1/contests/prizes/registration").status_code == 404


@pytest.mark.parametrize(("path", "body"), [
    ("teams", {"name": ""}), ("teams", {"name": "x" * 81}), ("teams", {"name": "a", "more": 1}), ("teams/join", {"code": "x" * 81}),
    (f"teams/{2**63}/leave", {}), ("contests/odd/registration", {"team": 2**63}), ("contests/odd/registration", {"team": 0}),
    ("contests/odd/registration", {"contact": {"name": "x" * 121}}), ("contests/odd/registration", {"contact": {"email": "none"}}),
])
def test_bad_input_is_a_sentence(site: Site, path: str, body: dict[str, Any]) -> None:
    with site.client("odd") as own:
        if not own.get("/api/v1/contests/odd").is_success:
            hold(site, "odd")
        answer = own.post(f"/api/v1/{path}", json=body)
    assert answer.status_code == 422 and len(answer.json()["detail"]) > 10
