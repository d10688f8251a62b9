"""The web over both databases."""

from pathlib import Path

from tests.leaderboard_web.site import SOURCE, running
from tests.leaderboard_web.test_bad_input import GOOD

ODD = "a\0b</script>"


def test_a_submission_is_sent_watched_and_ranked_on_either_engine(database_url: str, tmp_path: Path) -> None:
    with running(tmp_path, database_url) as site, site.client("ada") as client:
        number = site.send("ada", mode="ranked", device="cpu", licence="MIT")
        assert client.get(f"/api/v1/submissions/{number}").json()["position"] == 1
        site.judge(number, score_us=10.0, score_ci_us=(9.9, 10.1), log="a\0b")
        assert client.get("/api/v1/problems/doubling/board?device=cpu").json()["rows"][0]["person"] == "ada"
        assert [e["kind"] for e in client.get(f"/api/v1/submissions/{number}/events").json()["events"]][-1] == "verdict"
        with site.browser("ada") as browser:
            for path in ("/", "/problems/doubling", f"/submissions/{number}", "/entries"):
                assert browser.get(path).status_code == 200


def test_no_text_breaks_a_query_on_either_engine(database_url: str, tmp_path: Path) -> None:
    with running(tmp_path, database_url) as site, site.client("ada") as client:
        for field in ("problem", "device", "licence", "ai_use"):
            answer = client.post("/api/v1/submissions", files={"file": (f"{ODD}.py", SOURCE)}, data={**GOOD, field: ODD})
            assert answer.status_code in (201, 404, 422)
        for path in (f"/api/v1/problems/{2**200}", "/api/v1/problems/a%00b", "/problems/a%00b", "/login?code=a%00b",
                     f"/api/v1/submissions/{2**63 - 1}", f"/api/v1/submissions/1/events?after={2**31 - 1}",
                     f"/api/v1/submissions?before={2**63 - 1}", "/api/v1/submissions?problem=a%00b"):
            assert client.get(path).status_code < 500, path
