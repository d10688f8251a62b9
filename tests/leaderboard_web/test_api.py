"""The API as programs use it."""

import csv
import io
import json

import httpx
import pytest

from tests.leaderboard_web.site import SOURCE, Site, full_verdict


def test_a_kernel_is_sent_followed_and_read(site: Site) -> None:
    with site.client("runner-1") as client:
        ticket = client.post("/api/v1/submissions", files={"file": ("kernel.py", SOURCE)},
                             data={"problem": "doubling", "device": "cpu", "mode": "ranked", "licence": "MIT", "ai_use": "none"})
        assert ticket.status_code == 201
        number = ticket.json()["submission"]
        assert ticket.json() == {
            "submission": number, "url": f"http://127.0.0.1:8000/submissions/{number}", "problem": "doubling", "device": "cpu",
            "mode": "ranked", "state": "queued", "position": ticket.json()["position"], "inferred": [],
            "left": {"runs": 119, "gpu_seconds": None}}
        waiting = client.get(f"/api/v1/submissions/{number}").json()
        assert (waiting["state"], waiting["outcome"], waiting["person"]) == ("queued", None, "runner-1")

        site.judge(number, **full_verdict())

        found = client.get(f"/api/v1/submissions/{number}").json()
        assert (found["state"], found["outcome"], found["score_us"]) == ("done", "accepted", 41.6)
        assert found["events_url"] == f"/api/v1/submissions/{number}/events"
        assert found["log"] == "compiled in 3 ms\n"
        assert client.get(f"/api/v1/submissions/{number}/source").content == SOURCE


def test_json_says_the_same_as_a_form_and_the_header_fills_what_is_missing(site: Site) -> None:
    text = "#!POPCORN leaderboard doubling\n#!POPCORN gpu cpu\n" + SOURCE.decode()
    with site.client("runner-2") as client:
        ticket = client.post("/api/v1/submissions", json={"file_name": "../dir/kernel.py", "source": text}).json()

        assert (ticket["problem"], ticket["device"], ticket["mode"]) == ("doubling", "cpu", "test")
        assert ticket["inferred"] == ["problem", "device"]
        assert client.get(f"/api/v1/submissions/{ticket['submission']}").json()["file_name"] == "kernel.py"


def test_the_same_idempotency_key_sends_once(site: Site) -> None:
    with site.client("runner-3") as client:
        def send(mode: str) -> httpx.Response:
            return client.post("/api/v1/submissions", files={"file": ("kernel.py", SOURCE)}, headers={"Idempotency-Key": "once"},
                               data={"problem": "doubling", "device": "cpu", "mode": mode})

        first, again, other = send("test"), send("test"), send("benchmark")

    assert first.json()["submission"] == again.json()["submission"]
    assert other.status_code == 409
    assert "new key" in other.json()["detail"]


def test_others_see_the_verdict_without_source_and_log(site: Site) -> None:
    number = site.send("owner", device="cpu")
    site.judge(number, **full_verdict(mode="test"))
    with site.client("stranger") as stranger, site.client("boss", "organizer") as boss, site.client() as nobody:
        assert stranger.get(f"/api/v1/submissions/{number}").json()["log"] is None
        assert nobody.get(f"/api/v1/submissions/{number}").json()["score_us"] == 41.6
        assert boss.get(f"/api/v1/submissions/{number}").json()["log"] == "compiled in 3 ms\n"
        assert [c.get(f"/api/v1/submissions/{number}/source").status_code for c in (boss, stranger, nobody)] == [200, 403, 401]
        events = nobody.get(f"/api/v1/submissions/{number}/events").json()["events"]
        assert events[-1]["kind"] == "verdict"
        assert events[-1]["data"]["log"] is None


def test_a_submission_is_cancelled_by_its_owner_alone(site: Site) -> None:
    number = site.send("owner-2", device="cpu")
    with site.client("owner-2") as owner, site.client("stranger") as stranger:
        assert stranger.post(f"/api/v1/submissions/{number}/cancel").status_code == 403
        assert owner.post(f"/api/v1/submissions/{number}/cancel").json()["outcome"] == "cancelled"


def test_a_token_that_may_only_read_sends_nothing(site: Site) -> None:
    token = site.token("reader", scopes=("read",))
    with site.client() as client:
        client.headers["Authorization"] = f"Bearer {token}"
        assert client.get("/api/v1/people/me").json()["name"] == "reader"
        answer = client.post("/api/v1/submissions", files={"file": ("kernel.py", SOURCE)})
    assert answer.status_code == 403
    assert "`submit`" in answer.json()["detail"]


def test_problems_are_told_whole_but_for_what_is_hidden(site: Site) -> None:
    with site.client() as client:
        listed = client.get("/api/v1/problems").json()["problems"]
        shown = client.get("/api/v1/problems/doubling").json()
        starter = client.get("/api/v1/problems/doubling/starters/starter.py")

    assert [p["name"] for p in listed] == ["doubling"]
    assert shown["spec"]["inputs"]["x"]["dtype"] == "float32"
    assert shown["spec"]["hidden"] == {}
    assert starter.content == SOURCE


def test_a_board_ranks_and_is_there_as_csv(site: Site) -> None:
    for person, score in (("fast", 11.0), ("slow", 12.0)):
        number = site.send(person, mode="ranked", device="h200", licence="MIT")
        claim = site.world.take("h200")
        assert claim.id == number
        site.world.finish(claim, score_us=score, score_ci_us=(score - 0.1, score + 0.1), speedup=2.0, device="h200")
    with site.client() as client:
        board = client.get("/api/v1/problems/doubling/board?device=h200").json()
        rows = list(csv.DictReader(io.StringIO(client.get("/api/v1/problems/doubling/board.csv?device=h200").text)))

    assert [(r["person"], r["rank"], r["language"]) for r in board["rows"]] == [("fast", [1, 1], "triton"), ("slow", [2, 2], "triton")]
    assert [(r["person"], r["rank_first"], r["score_us"]) for r in rows] == [("fast", "1", "11.0"), ("slow", "2", "12.0")]


def test_csv_holds_no_formula(site: Site) -> None:
    number = site.send("=cmd|' /C calc'!A0", mode="ranked", device="cpu", licence="MIT")
    site.judge(number, **full_verdict())
    with site.client() as client:
        rows = list(csv.DictReader(io.StringIO(client.get("/api/v1/problems/doubling/board.csv?device=cpu").text)))
    assert "'=cmd|' /C calc'!A0" in [r["person"] for r in rows]


@pytest.mark.parametrize(("path", "key", "first"), [
    ("/api/v1/devices", "devices", {"name": "cpu", "title": "CPU (Triton interpreter)", "kind": "cpu", "arch": None, "environment": None}),
    ("/api/v1/contests", "contests", None),
])
def test_lists_answer(site: Site, path: str, key: str, first: object) -> None:
    with site.client() as client:
        found = client.get(path).json()[key]
    assert (found[0] if found else None) == first


def test_lists_page_backwards(site: Site) -> None:
    numbers = [site.send("lister", device="cpu") for _ in range(3)]
    with site.client("lister") as client:
        newest = client.get("/api/v1/submissions?mine=true&limit=2").json()
        rest = client.get(f"/api/v1/submissions?mine=true&limit=2&before={newest['next']}").json()
    assert [s["submission"] for s in newest["submissions"]] == numbers[:0:-1]
    assert [s["submission"] for s in rest["submissions"]] == numbers[:1]
    assert rest["next"] is None


def test_the_description_names_every_address_and_its_errors(site: Site) -> None:
    with site.client() as client:
        described = client.get("/api/openapi.json").json()
    operations = {(m, p): o for p, methods in described["paths"].items() for m, o in methods.items()}

    assert ("post", "/api/v1/submissions") in operations
    assert all(o.get("description") for o in operations.values())
    assert "multipart/form-data" in operations["post", "/api/v1/submissions"]["requestBody"]["content"]
    refs = {r.rpartition("/")[2] for r in _references(described)}
    assert refs <= set(described["components"]["schemas"])


def _references(value: object) -> list[str]:
    return [r for r in json.dumps(value).split('"') if r.startswith("#/components/schemas/")]
