"""Contests over HTTP: made, moved, shown, and kept from those who may not see."""

import csv
import io
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from kernelderby.core.receipt import opens
from kernelderby.storage import problems
from kernelderby.storage.contest_models import Contest
from kernelderby.storage.models import Audit
from tests.leaderboard_web.site import SOURCE, Site, full_verdict

HOUR = timedelta(hours=1)
NAMES = (f"contest{i}" for i in itertools.count())


@pytest.fixture(scope="module")
def boss(site: Site) -> Iterator[httpx.Client]:
    """An organizer's program."""
    with site.client("contest-boss", "organizer") as client:
        yield client


def made(boss: httpx.Client, starts_in: timedelta = -HOUR, **said: Any) -> str:
    """A contest that runs, unless it starts later; its name."""
    now, name = datetime.now(UTC), next(NAMES)
    asked = {"name": name, "title": "A cup", "starts_at": (now + starts_in).isoformat(), "ends_at": (now + 4 * HOUR).isoformat(),
             "problems": [{"problem": "doubling", "device": "cpu"}], **said}
    answer = boss.post("/api/v1/contests", json=asked)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["name"])


def entered(site: Site, contest: str, name: str, score_us: float, **said: Any) -> int:
    """A registered person's judged entry."""
    with site.client(name) as client:
        assert client.post(f"/api/v1/contests/{contest}/registration", json={}).status_code in (200, 201)
        sent = client.post("/api/v1/submissions", files={"file": ("kernel.py", SOURCE + f"# {name} {score_us}\n".encode())},
                           data={"contest": contest, "mode": "ranked", "licence": "MIT", "ai_use": "none"})
    assert sent.status_code == 201, sent.text
    number = int(sent.json()["submission"])
    site.judge(number, **full_verdict(score_us=score_us, score_ci_us=(score_us, score_us)), **said)
    return number


def test_it_is_listed_and_shown_with_its_commitment_from_the_start(site: Site, boss: httpx.Client) -> None:
    name, later = made(boss, quotas={"ranked": {"runs": 5}}), made(boss, HOUR)
    found = httpx.get(f"{site.url}/api/v1/contests/{name}").json()
    assert (found["stage"], found["quotas"], found["registered"]) == ("open", {"ranked": {"runs": 5, "gpu_seconds": None}}, 0)
    assert [(p["problem"], p["device"]) for p in found["problems"]] == [("doubling", "cpu")]
    assert len(found["seed_commitment"]) == 64
    listed = {c["name"]: c for c in httpx.get(f"{site.url}/api/v1/contests").json()["contests"]}
    assert listed[name] == found
    assert (listed[later]["stage"], listed[later]["seed_commitment"]) == ("coming", None)
    assert "published at the start" in httpx.get(f"{site.url}/api/v1/contests/{later}/seeds").json()["detail"]


@pytest.mark.parametrize("said", [
    {"ends_at": "2020-01-01T00:00:00Z"}, {"starts_at": "2030-01-01T00:00:00"}, {"starts_at": "9999-12-31T23:59:59-12:00"}, {"name": "A B"},
    {"problems": []}, {"problems": [{"problem": "doubling", "device": "h100"}]}, {"problems": [{"problem": "doubling"}] * 2},
    {"sources": "press"}, {"quotas": {"ranked": {"runs": -1}}}, {"quotas": {"dance": {}}}, {"gpu_seconds": 0}, {"more": 1}], ids=str)
def test_what_cannot_be_is_refused_with_a_sentence(boss: httpx.Client, said: dict[str, Any]) -> None:
    now = datetime.now(UTC)
    answer = boss.post("/api/v1/contests", json={"name": next(NAMES), "title": "A cup", "starts_at": now.isoformat(),
                                                 "ends_at": (now + HOUR).isoformat(), "problems": [{"problem": "doubling"}], **said})
    assert answer.status_code == 422, answer.text
    assert len(answer.json()["detail"]) > 15


def test_after_the_start_only_freeze_and_end_move_later(boss: httpx.Client) -> None:
    name = made(boss)
    later = (datetime.now(UTC) + 9 * HOUR).isoformat()
    assert boss.patch(f"/api/v1/contests/{name}", json={"ends_at": later}).status_code == 200
    for said in ({"title": "Other"}, {"ends_at": datetime.now(UTC).isoformat()}, {"problems": [{"problem": "doubling"}]}):
        assert boss.patch(f"/api/v1/contests/{name}", json=said).status_code == 422
    coming = made(boss, HOUR)
    assert boss.patch(f"/api/v1/contests/{coming}", json={"title": "Other", "problems": [{"problem": "doubling", "device": "h200"}]}
                      ).json()["title"] == "Other"


def test_every_step_of_an_organizer_is_in_the_audit(site: Site, boss: httpx.Client) -> None:
    name = made(boss)
    for step in ("freeze", "end", "reveal", "practice"):
        assert boss.post(f"/api/v1/contests/{name}/{step}").status_code == 200
    boss.post(f"/api/v1/contests/{name}/notices", json={"kind": "announcement", "text": "Done."})
    boss.get(f"/api/v1/contests/{name}/registrations.csv")
    with site.world.database.read() as session:
        noted = [row.action for row in session.scalars(select(Audit).order_by(Audit.id)) if row.detail.get("contest") == name]
    assert noted == [f"contest {what}" for what in ("create", "freeze", "end", "reveal", "practice", "announce", "export")]


def test_from_the_freeze_to_the_reveal_others_see_the_board_as_it_was(site: Site, boss: httpx.Client) -> None:
    name = made(boss, sources="public")
    first = entered(site, name, "frieda", 40.0)
    assert boss.post(f"/api/v1/contests/{name}/freeze").json()["stage"] == "frozen"
    late = entered(site, name, "lars", 20.0)
    board, seen = f"/api/v1/contests/{name}/board", f"/api/v1/submissions/{late}"
    with site.client("lars") as lars, site.client("frieda") as frieda, site.client() as nobody:
        for client in (lars, frieda, nobody):
            shown = client.get(board).json()
            assert [row["submission"] for row in shown["rows"]] == [first]
            assert (shown["stage"], shown["leader"]) == ("frozen", first)
            assert shown["frozen_at"] is not None
            assert "lars" not in client.get(f"{board}.csv").text
        assert [row["submission"] for row in boss.get(board).json()["rows"]] == [late, first]
        own = lars.get(seen).json()
        assert (own["outcome"], own["score_us"], own["rank"], own["contest"]) == ("accepted", 20.0, None, name)
        for client in (frieda, nobody):
            for path in (seen, f"{seen}/receipt", f"{seen}/events", f"{seen}/cases.csv", f"{seen}/source", f"/submissions/{late}"):
                assert client.get(path).status_code == 404, path
            assert late not in [s["submission"] for s in client.get("/api/v1/submissions").json()["submissions"]]
            assert f"entry-{late}" not in client.get("/").text
        assert "told at the reveal" in lars.get(f"/submissions/{late}").text

        boss.post(f"/api/v1/contests/{name}/end")
        assert [row["submission"] for row in nobody.get(board).json()["rows"]] == [first]
        assert nobody.get(f"/api/v1/submissions/{first}/source").status_code == 401
        assert boss.post(f"/api/v1/contests/{name}/reveal").json()["stage"] == "revealed"
        assert [row["submission"] for row in nobody.get(board).json()["rows"]] == [late, first]
        assert nobody.get(f"{seen}/source").status_code == 200
        assert frieda.get(f"/submissions/{late}/source").status_code == 200


def test_sources_stay_their_owners_where_the_contest_does_not_open_them(site: Site, boss: httpx.Client) -> None:
    name = made(boss)
    number = entered(site, name, "olga", 40.0)
    for step in ("end", "reveal"):
        boss.post(f"/api/v1/contests/{name}/{step}")
    with site.client("frieda") as frieda:
        assert frieda.get(f"/api/v1/submissions/{number}/source").status_code == 403


def test_seeds_are_shown_by_the_reveal_and_are_those_committed_to(site: Site, boss: httpx.Client) -> None:
    name = made(boss)
    address = f"{site.url}/api/v1/contests/{name}/seeds"
    before = httpx.get(address).json()
    assert (before["salt"], before["secret"]) == (None, None)
    for step in ("end", "reveal"):
        boss.post(f"/api/v1/contests/{name}/{step}")
    after = httpx.get(address).json()
    salt, secret = bytes.fromhex(after["salt"]), bytes.fromhex(after["secret"])

    assert after["commitment"] == before["commitment"]
    assert opens(before["commitment"], salt, secret)


def test_a_hidden_problem_is_told_to_nobody_before_the_start(site: Site, boss: httpx.Client) -> None:
    name = made(boss, HOUR)
    with closed(site, "doubling"), site.client("spy") as spy, site.client() as nobody:
        for client in (spy, nobody):
            assert client.get(f"/api/v1/contests/{name}").json()["problems"] == []
            for path in ("/api/v1/problems", "/", "/submit", f"/contests/{name}", "/api/v1/contests", "/contests"):
                assert "doubling" not in client.get(path).text, path
            for path in ("/problems/doubling", "/api/v1/problems/doubling", "/api/v1/problems/doubling/board",
                         "/api/v1/problems/doubling/board.csv", "/api/v1/problems/doubling/starters/starter.py",
                         f"/api/v1/contests/{name}/board?problem=doubling&device=cpu"):
                assert client.get(path).status_code == 404, path
        sent = [spy.post("/api/v1/submissions", files={"file": ("kernel.py", SOURCE)}, data={"problem": problem})
                for problem in ("doubling", "nothing")]
        assert [answer.status_code for answer in sent] == [404, 404]
        assert sent[0].json()["detail"] == sent[1].json()["detail"].replace("nothing", "doubling")
        for path in ("/api/v1/problems/doubling", f"/api/v1/contests/{name}/board", f"/contests/{name}"):
            assert boss.get(path).status_code == 200
        started(site, name)
        assert nobody.get("/problems/doubling").status_code == 200
        assert nobody.get(f"/api/v1/contests/{name}/board").status_code == 200


def test_a_question_is_its_askers_until_it_is_answered_for_all(site: Site, boss: httpx.Client) -> None:
    name = made(boss)
    notices = f"/api/v1/contests/{name}/notices"
    with site.client("quentin") as quentin, site.client("frieda") as other:
        assert quentin.post(notices, json={"text": "May I?"}).status_code == 403      # not registered
        quentin.post(f"/api/v1/contests/{name}/registration", json={})
        asked = quentin.post(notices, json={"text": "May I?"}).json()
        assert quentin.post(notices, json={"text": "I may!", "kind": "announcement"}).status_code == 403
        assert [n["text"] for n in quentin.get(notices).json()["notices"]] == ["May I?"]
        assert other.get(notices).json()["notices"] == []
        assert boss.get(notices).json()["notices"][0]["person"] == "quentin"

        answer = f"{notices}/{asked['id']}/answer"
        assert quentin.post(answer, json={"text": "Yes"}).status_code == 403
        boss.post(answer, json={"text": "Yes."})
        assert other.get(notices).json()["notices"] == []
        boss.post(answer, json={"text": "Yes.", "public": True})
        shown = other.get(notices).json()["notices"][0]
        assert (shown["text"], shown["answer"], shown["person"]) == ("May I?", "Yes.", None)
        told = boss.post(notices, json={"text": "Lunch <b>now</b>", "kind": "announcement"}).json()
        assert boss.post(f"{notices}/{told['id']}/answer", json={"text": "?"}).status_code == 422
        page = other.get(f"/contests/{name}").text
    assert "Lunch &lt;b&gt;now&lt;/b&gt;" in page
    assert "May I?" in page
    assert "quentin" not in page


def test_so_many_questions_may_wait(site: Site, boss: httpx.Client) -> None:
    name = made(boss)
    with site.client("chatty") as chatty:
        chatty.post(f"/api/v1/contests/{name}/registration", json={})
        codes = [chatty.post(f"/api/v1/contests/{name}/notices", json={"text": "Why?"}).status_code for _ in range(11)]
    assert codes == [201] * 10 + [429]


def test_an_export_runs_nothing_in_a_spreadsheet(site: Site, boss: httpx.Client) -> None:
    name = made(boss)
    contact = {"name": '=HYPERLINK("http://evil","x")', "email": "+1@example.org", "country": "@cmd"}
    with site.client("-1+1") as client:
        client.post(f"/api/v1/contests/{name}/registration", json={"contact": contact})
    rows = list(csv.DictReader(io.StringIO(boss.get(f"/api/v1/contests/{name}/registrations.csv").text)))
    assert [(r["person"], r["real_name"], r["email"], r["country"]) for r in rows] == [
        ("'-1+1", '\'=HYPERLINK("http://evil","x")', "'+1@example.org", "'@cmd")]


def test_practice_opens_after_the_end_and_leaves_the_contests_board(site: Site, boss: httpx.Client) -> None:
    name = made(boss)
    number = entered(site, name, "pia", 40.0)
    assert boss.post(f"/api/v1/contests/{name}/practice").status_code == 422
    with site.world.database.begin() as session:
        problems.set_open(session, "doubling", False)
    for step in ("end", "reveal"):
        boss.post(f"/api/v1/contests/{name}/{step}")
    assert boss.post(f"/api/v1/contests/{name}/practice").json()["problems"] == ["doubling"]
    practised = site.send("pia", device="cpu", mode="ranked", licence="MIT", ai_use="none")
    site.judge(practised, **full_verdict(score_us=1.0, score_ci_us=(1.0, 1.0)))
    assert [r["submission"] for r in httpx.get(f"{site.url}/api/v1/contests/{name}/board").json()["rows"]] == [number]


@pytest.mark.parametrize("stage", ["coming", "open", "frozen", "ended", "revealed"])
def test_its_page_reads_at_every_stage(site: Site, boss: httpx.Client, stage: str) -> None:
    quotas = {"ranked": {"runs": 5, "gpu_seconds": 10}}
    name = made(boss, HOUR if stage == "coming" else -HOUR, quotas=quotas, gpu_seconds=1000)
    for step, after in (("freeze", ("frozen", "ended", "revealed")), ("end", ("ended", "revealed")), ("reveal", ("revealed",))):
        if stage in after:
            assert boss.post(f"/api/v1/contests/{name}/{step}").status_code == 200
    with site.client() as nobody:
        page = nobody.get(f"/contests/{name}")
        assert (page.status_code, f'<span class="word">{stage}</span>' in page.text) == (200, True)
        assert ("data-until" in page.text) == (stage in ("coming", "open", "frozen"))
        assert (f"derby contest register {name}" in page.text) == (stage in ("coming", "open", "frozen"))
        assert name in nobody.get("/contests").text
        assert nobody.get(f"/contests/{name}?board=nothing@cpu").status_code == (200 if stage == "coming" else 404)


@contextmanager
def closed(site: Site, problem: str) -> Iterator[None]:
    """A problem without an open practice board, and known by no contest that began."""
    with site.world.database.begin() as session:
        problems.set_open(session, problem, False)
        past = {c.id: c.starts_at for c in session.scalars(select(Contest).where(Contest.starts_at <= datetime.now(UTC)))}
        for number in past:
            session.get_one(Contest, number).starts_at = datetime.now(UTC) + 2 * HOUR
    try:
        yield
    finally:
        with site.world.database.begin() as session:
            problems.set_open(session, problem, True)
            for number, at in past.items():
                session.get_one(Contest, number).starts_at = at


def started(site: Site, name: str) -> None:
    """Its start comes."""
    with site.world.database.begin() as session:
        session.scalars(select(Contest).where(Contest.name == name)).one().starts_at = datetime.now(UTC)
