"""One's own account over HTTP, what organizers do with people, and the commands for both."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from kernelderby.cli.main import build
from kernelderby.core.errors import Banned
from kernelderby.core.settings import Settings
from kernelderby.core.submission import SubmitRequest
from kernelderby.judge import intake
from kernelderby.leaderboard_web.door import COOKIE
from kernelderby.storage import identities, people
from kernelderby.storage.identities import Account
from tests.leaderboard_web.site import SOURCE, Site, full_verdict
from tests.leaderboard_web.test_pages import _sound

ME = "/api/v1/people/me"


def derby(site: Site, token: str, *words: str) -> str:
    """What a command prints."""
    done = CliRunner().invoke(build(), words, env={"DERBY_URL": site.url, "DERBY_TOKEN": token}, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_banned_person_reads_why_at_every_door_and_can_log_out(site: Site) -> None:
    with site.browser("banned") as browser, site.client("banned") as program, site.client("ban-boss", "organizer") as boss:
        assert boss.post("/api/v1/people/banned/ban", json={"reason": "Copied an entry"}).json()["ban_reason"] == "Copied an entry"
        for answer in (browser.get("/"), browser.get(ME), program.get(ME), program.get("/api/v1/submissions"),
                       program.post("/api/v1/submissions", files={"file": ("k.py", SOURCE)}, data={"problem": "doubling"})):
            assert answer.status_code == 403
            assert "Copied an entry" in answer.text and "write to the organizers" in answer.text
        assert browser.post("/logout").status_code == 303
        assert browser.get("/").status_code == 200
        with site.client() as nobody:
            nobody.headers["Origin"] = site.url
            code = site.login_code("banned")
            assert nobody.post("/login", data={"code": code}).status_code == 403
        assert boss.post("/api/v1/people/banned/unban").json()["banned_at"] is None
        assert program.get(ME).status_code == 200


def test_intake_takes_nothing_from_who_is_banned_whatever_the_door(site: Site) -> None:
    person = site.person("banned-elsewhere")
    with site.client("intake-boss", "organizer") as boss:
        boss.post("/api/v1/people/banned-elsewhere/ban", json={"reason": "Copied an entry"})
    asked = SubmitRequest(person_id=person.id, file_name="kernel.py", source=SOURCE, problem="doubling", device="cpu", door="bot")
    with pytest.raises(Banned, match="Copied an entry"):
        intake.submit(site.world.database, site.world.artifacts, Settings(), asked, lambda _: None)


def test_bans_are_by_name_or_number_and_stand_in_the_audit_with_their_reason(site: Site) -> None:
    other = site.person("noted")
    with site.client("note-boss", "organizer") as boss:
        assert boss.post(f"/api/v1/people/{other.id}/ban", json={"reason": "x"}).json()["name"] == "noted"
        boss.post("/api/v1/people/noted/unban")
        listed = boss.get("/api/v1/audit", params={"by": "note-boss", "limit": 1}).json()
        assert [(a["person"], a["action"], a["detail"]) for a in listed["actions"]] == [("note-boss", "people unban", {"whom": other.id})]
        earlier = boss.get("/api/v1/audit", params={"by": "note-boss", "before": listed["next"]}).json()
        assert [(a["action"], a["detail"]) for a in earlier["actions"]] == [("people ban", {"whom": other.id, "reason": "x"})]
        assert earlier["next"] is None


def test_everyone_is_listed_page_by_page(site: Site) -> None:
    for name in ("paged-1", "paged-2", "paged-3"):
        site.person(name)
    with site.client("page-boss", "organizer") as boss:
        found, after = list[str](), 0
        while after is not None:
            page = boss.get("/api/v1/people", params={"limit": 2, "after": after}).json()
            found, after = found + [p["name"] for p in page["people"]], page["next"]
    assert {"paged-1", "paged-2", "paged-3", "page-boss"} <= set(found)
    assert len(found) == len(set(found))


def test_an_export_has_every_submission_with_its_source(site: Site) -> None:
    numbers = [site.send("exporter", device="cpu", mode="ranked", licence="MIT"), site.send("exporter", device="cpu")]
    site.judge(numbers[0], **full_verdict())
    with site.client("exporter") as own:
        answer = own.get(f"{ME}/export")
    told = answer.json()
    assert "attachment" in answer.headers["content-disposition"]
    assert told["person"]["name"] == "exporter"
    assert [s["id"] for s in told["submissions"]] == numbers[::-1]
    assert {s["source"] for s in told["submissions"]} == {SOURCE.decode()}
    assert told["submissions"][1]["verdict"]["outcome"] == "accepted"
    assert "hash" not in json.dumps(told["tokens"]) and "derby_" not in answer.text


def test_deleting_ones_account_needs_its_name_and_leaves_nothing_to_log_in_with(site: Site) -> None:
    source = b"# only leaver sent this\n" + SOURCE
    with site.client("leaver") as own, site.browser("leaver") as browser:
        sent = own.post("/api/v1/submissions", files={"file": ("leaver.py", source)}, data={"problem": "doubling", "device": "cpu"}).json()
        kept = site.world.artifacts.path(site.world.view(sent["submission"]).source_sha)
        assert kept.exists()
        assert own.request("DELETE", ME, json={"confirm": "someone"}).status_code == 422
        number = own.get(ME).json()["id"]
        assert own.request("DELETE", ME, json={"confirm": "leaver"}).json() == {"deleted": number}
        assert own.get(ME).status_code == browser.get(ME).status_code == 401
    assert not kept.exists()
    with site.client("leave-boss", "organizer") as boss:
        entry = boss.get(f"/api/v1/submissions/{sent['submission']}").json()
        assert (entry["person"], entry["outcome"], entry["file_name"]) == (f"deleted-{number}", "cancelled", "kernel")
        assert boss.get(f"/api/v1/submissions/{sent['submission']}/source").status_code == 404
        noted = boss.get("/api/v1/audit", params={"by": str(number)}).json()["actions"]
        assert noted[0]["action"] == "account deleted"


def test_the_account_page_shows_logins_tokens_and_links_and_acts_on_them(site: Site) -> None:
    site.token("holder")
    with site.world.database.begin() as session:
        person = people.by_name(session, "holder")
        assert person is not None
        for subject in ("41", "42"):
            identities.link(session, person.id, Account(provider="github", subject=subject, name=f"cat{subject}"), datetime.now(UTC))
    with site.browser("holder") as other, site.browser("holder") as browser:
        page = _sound(browser.get("/account").text)
        assert "GitHub: cat41" in page and "(this browser)" in page
        made = browser.post("/account/link-code")
        code = re.search(r"<pre><code>([\w-]{16})</code></pre>", _sound(made.text))
        assert code
        identity = re.findall(r"/account/identities/(\d+)/unlink", page)[0]
        assert browser.post(f"/account/identities/{identity}/unlink").status_code == 303
        assert "cat41" not in browser.get("/account").text
        assert browser.post("/account/sessions/end").status_code == 303
        assert other.get(ME).status_code == 401
        refused = browser.post("/account/delete", data={"confirm": "someone else"})
        assert refused.status_code == 422
        assert "say its name as confirmation" in _sound(refused.text)
        gone = browser.post("/account/delete", data={"confirm": "holder"})
        assert (gone.status_code, gone.headers["location"]) == (303, "/")
        assert COOKIE not in browser.cookies


def test_forms_of_the_account_count_only_when_sent_from_here(site: Site) -> None:
    with site.browser("forged") as browser:
        for path in ("/account/delete", "/account/link-code", "/account/sessions/end", "/login/github?link=1"):
            foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
            answer = browser.post(path, data={"confirm": "forged"}, headers=foreign)
            assert answer.status_code == 403, path
        assert browser.get(ME).status_code == 200


@pytest.mark.parametrize("odd", ["0", "-1", str(2**70), "%00", "%ff", "..%2f..", "%E2%80%AE", "x" * 80, "x" * 81])
def test_no_name_or_number_makes_a_command_for_organizers_fail(site: Site, odd: str) -> None:
    with site.client("odd-boss", "organizer") as boss:
        for path, method, body in ((f"/api/v1/people/{odd}", "GET", None), (f"/api/v1/people/{odd}/ban", "POST", {"reason": "x"}),
                                   (f"/api/v1/people/{odd}/unban", "POST", None), (f"{ME}/sessions/{odd}", "DELETE", None),
                                   (f"{ME}/identities/{odd}", "DELETE", None), (f"/api/v1/audit?by={odd}", "GET", None)):
            assert boss.request(method, path, json=body).status_code in (404, 405, 422), path


def test_the_commands_do_what_the_routes_do(site: Site, tmp_path: Path) -> None:
    root, ada = site.token("cli-root", "admin"), site.token("cli-ada", scopes=("submit", "read"))
    number = str(site.person("cli-ada").id)
    assert "cli-ada" in derby(site, root, "people", "list")
    assert "is contestant" in derby(site, root, "people", "show", "cli-ada")
    assert "No account elsewhere" in derby(site, ada, "people", "show")
    assert "is organizer now" in derby(site, root, "people", "role", number, "organizer")
    derby(site, root, "people", "role", number, "contestant")
    assert "Forged" in derby(site, root, "people", "ban", "cli-ada", "--reason", "Forged")
    assert "may log in" in derby(site, root, "people", "unban", "cli-ada")
    assert json.loads(derby(site, root, "people", "show", number, "--json"))["ban_reason"] == ""
    assert len(json.loads(derby(site, ada, "people", "link", "--json"))["code"]) == 16
    with site.browser("cli-ada"):
        login = json.loads(derby(site, ada, "people", "sessions", "--json"))["sessions"][0]["id"]
        assert f"login {login} has ended" in derby(site, ada, "people", "sessions", "--end", str(login))
    assert "Logins ended: 0" in derby(site, ada, "people", "sessions", "--end-all")
    derby(site, ada, "people", "export", str(tmp_path / "mine.json"))
    assert json.loads((tmp_path / "mine.json").read_text())["person"]["name"] == "cli-ada"
    assert "is deleted" in derby(site, ada, "people", "delete", "--confirm", "cli-ada")
    assert "people ban" in derby(site, root, "admin", "audit", "--by", "cli-root")


def test_the_first_admin_is_made_where_the_database_is(site: Site) -> None:
    person = site.person("first")
    data = site.world.artifacts.path("0" * 64).parents[2]
    done = CliRunner().invoke(build(), ["admin", "role", "first", "admin"], env={"DERBY_DATA": str(data)}, catch_exceptions=False)
    assert (done.exit_code, done.stdout) == (0, "first is admin now.\n")
    with httpx.Client(base_url=site.url, headers={"Authorization": f"Bearer {site.token('first')}"}) as own:
        assert own.get(ME).json() | {"budget": None} == {
            "id": person.id, "name": "first", "role": "admin", "scopes": ["submit", "read", "organize"], "agent": None, "budget": None}
