"""Other gates, final heats, appeals and rejudges over the API: what organizers do, and what contestants never read."""

import io
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

from kernelderby.core.problem_folder import archive, load_problem
from kernelderby.storage import contests, registrations
from kernelderby.storage.contest_models import Contest
from kernelderby.storage.models import Audit
from tests.contest_world import CAUGHT, scored
from tests.leaderboard_web.site import SOURCE, Site
from tests.small_world import small_problem

SECRET = "needle_seven"      # the new hidden case's recipe
HOUR = timedelta(hours=1)


@dataclass
class Held:
    """A contest that goes on at a site, its organizer, and two people in it."""

    site: Site
    name: str
    folder: Path
    boss: httpx.Client
    ada: httpx.Client
    bob: httpx.Client

    def send(self, client: httpx.Client, score_us: float, **said: Any) -> int:
        """A judged entry of theirs."""
        fields = {"problem": "doubling", "device": "cpu", "mode": "ranked", "licence": "MIT", "ai_use": "none", "contest": self.name}
        source = f"# {score_us} {self.name}\n".encode() + SOURCE
        number = int(client.post("/api/v1/submissions", files={"file": ("k.py", source)}, data=fields).json()["submission"])
        self.site.judge(number, **scored(score_us, **said))
        return number

    def zipped(self, budget: str = "1.0e-6", **other: bytes) -> bytes:
        """The problem's folder with another budget and a new hidden case."""
        folder = small_problem(self.folder).folder
        spec = (folder / "problem.yml").read_text().replace("max_abs: 0.001", f"max_abs: {budget}")
        hidden = f"hidden: {{cpu: [{{from: tiny, draw: {{n: {{range: [2, 9]}}}}, recipe: {SECRET}}}]}}\n"
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as packed:
            files = {file.name: file.read_bytes() for file in folder.iterdir()} | {"problem.yml": (spec + hidden).encode()}
            for name, data in (files | {name.replace("_py", ".py"): data for name, data in other.items()}).items():
                packed.writestr(f"doubling/{name}", data)
        return out.getvalue()

    def preview(self, client: httpx.Client | None = None, data: bytes | None = None, **fields: Any) -> httpx.Response:
        """A change of gates, asked for."""
        said = {"reason": "A kernel kept results between calls.", "top": "2", **fields}
        return (client or self.boss).post(f"/api/v1/contests/{self.name}/gates", data=said, files={
            "file": ("doubling.zip", self.zipped() if data is None else data)})

    def judge_all(self, caught: set[int]) -> None:
        """Whatever waits, entries in `caught` and their replays not accepted."""
        world = self.site.world
        while (claim := world.claim()) is not None:
            view = world.view(claim.id)
            world.finish(claim, **(CAUGHT if (view.replays or view.id) in caught else scored(50.0)))

    def ends(self) -> None:
        """The contest's end came just now."""
        with self.site.world.database.begin() as session:
            session.scalars(select(Contest).where(Contest.name == self.name)).one().ends_at = datetime.now(UTC)


@pytest.fixture
def held(site: Site, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Held]:
    name, now = str(request.node.name)[:60], datetime.now(UTC)
    info = site.world.contest(name, starts_at=now - HOUR, ends_at=now + HOUR, finalists=2, final_runs=1)
    people, early = [site.person(person) for person in ("gate-ada", "gate-bob")], now - 2 * HOUR
    with site.world.database.begin() as session:
        for person in people:
            registrations.register(session, contests.by_id(session, info.id, early), person, None, None, None, early)
    with site.client("gate-boss", "organizer") as boss, site.client("gate-ada") as ada, site.client("gate-bob") as bob:
        yield Held(site=site, name=name, folder=tmp_path, boss=boss, ada=ada, bob=bob)


def test_a_hot_gate_from_the_preview_to_the_appeal(held: Held) -> None:
    first, second = held.send(held.ada, 10.0), held.send(held.bob, 20.0)
    made = held.preview()
    assert made.status_code == 201, made.text
    change = made.json()["id"]
    held.judge_all(caught={first})
    shown = held.boss.get(f"/api/v1/gates/{change}").json()
    assert [(e["submission"], e["rank_before"], e["rank_after"], e["drops"]) for e in shown["entries"]] == [
        (first, [1, 1], None, True), (second, [2, 2], [1, 1], False)]
    assert (shown["complete"], shown["drops"]) == (True, 1)

    assert held.boss.post(f"/api/v1/gates/{change}/apply").json()["applied_at"]
    held.judge_all(caught={first})

    board = held.bob.get(f"/api/v1/contests/{held.name}/board").json()
    assert [row["submission"] for row in board["rows"]] == [second] and board["gate_set"] == shown["gate_set"]
    notice = held.ada.get(f"/api/v1/contests/{held.name}/notices").json()["notices"][0]
    assert "A kernel kept results between calls" in notice["text"] and f"derby contest appeal {first}" in notice["text"]
    appeal = held.ada.post(f"/api/v1/submissions/{first}/appeal", json={"text": "My rows are padded."})
    assert appeal.status_code == 201, appeal.text
    answered = held.boss.post(f"/api/v1/appeals/{appeal.json()['id']}/grant", json={"text": "Mended."})
    assert answered.json()["granted"] and held.site.world.view(first).outcome is None
    assert held.ada.get(f"/api/v1/contests/{held.name}/appeals").json()["appeals"][0]["answer"] == "Mended."
    assert held.bob.get(f"/api/v1/contests/{held.name}/appeals").json() == {"appeals": []}
    with held.site.world.database.read() as session:
        done = {row.action: row.detail for row in session.scalars(select(Audit))}
    assert done["gate apply"]["drops"] == [first] and {"gate preview", "appeal grant"} <= set(done)


def test_contestants_read_nothing_of_a_preview_or_of_its_hidden_case(held: Held) -> None:
    first = held.send(held.ada, 10.0)
    replay = held.preview().json()["entries"][0]["replay"]
    held.judge_all(caught={first})
    for client in (held.ada, held.bob):
        for path in ("", "/source", "/events", "/receipt", "/cases.csv"):
            assert client.get(f"/api/v1/submissions/{replay}{path}").status_code == 404
        for ask, body in (("cancel", None), ("appeal", {"text": "mine"})):
            assert client.post(f"/api/v1/submissions/{replay}/{ask}", json=body).status_code == 404
        assert client.post("/api/v1/duels", json={"a": first, "b": replay}).status_code == 404
        seen = [client.get(path).text for path in (
            "/api/v1/submissions", f"/api/v1/contests/{held.name}", f"/api/v1/contests/{held.name}/board", "/api/v1/problems/doubling",
            f"/api/v1/contests/{held.name}/notices", f"/api/v1/submissions/{first}", f"/api/v1/submissions/{first}/events")]
        assert not any(SECRET in text or f'"submission":{replay},' in text for text in seen)
    assert held.boss.get(f"/api/v1/submissions/{replay}").json()["outcome"] == "wrong_values"


def test_a_changed_reference_makes_a_new_version_and_it_says_what_differs(held: Held) -> None:
    answer = held.preview(data=held.zipped(reference_py=b"# another\n"))
    assert answer.status_code == 422
    for part in ("another version of doubling", "reference.py", "derby problem add"):
        assert part in answer.json()["detail"]


def test_what_is_no_folder_is_refused_with_what_to_send(held: Held) -> None:
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as out:
        out.addfile(tarfile.TarInfo("../problem.yml"))
    cases = {b"": "Send a zip or tar", b"PK\x05\x06" + bytes(18): "0 files problem.yml", tar.getvalue(): "no file below a folder",
             held.zipped("0.001").replace(b"x" * 99, b""): None}
    for data, said in cases.items():
        answer = held.preview(data=data)
        assert answer.status_code == (422 if said else 201), answer.text
        assert said is None or said in answer.json()["detail"]
    assert held.preview(reason=" ").status_code == 422 == held.preview(top="0").status_code


def test_the_folder_comes_as_a_whole_tree_as_well(held: Held) -> None:
    problem = small_problem(held.folder)
    spec = problem.folder / "problem.yml"
    spec.write_text(spec.read_text().replace("max_abs: 0.001", "max_abs: 1.0e-5"))
    changed = load_problem(problem.folder)
    answer = held.preview(data=archive(changed))
    assert answer.status_code == 201 and answer.json()["gate_set"] == changed.gate_set


def test_an_incomplete_preview_is_applied_only_by_saying_so(held: Held) -> None:
    held.send(held.ada, 10.0)
    change = held.preview().json()["id"]
    answer = held.boss.post(f"/api/v1/gates/{change}/apply")
    assert answer.status_code == 422 and "0 of 1 entries" in answer.json()["detail"]
    assert held.boss.post(f"/api/v1/gates/{change}/apply", json={"anyway": True}).status_code == 200
    assert held.boss.post(f"/api/v1/gates/{change}/apply", json={"anyway": True}).status_code == 422
    assert held.boss.post(f"/api/v1/gates/{change}/withdraw").status_code == 422
    held.judge_all(set())


def test_the_final_order_is_everybodys_after_the_reveal(held: Held) -> None:
    first, second = held.send(held.ada, 10.0), held.send(held.bob, 20.0)
    final = f"/api/v1/contests/{held.name}/final"
    assert held.boss.post(final).status_code == 422
    held.ends()
    begun = held.boss.post(final, json={"problem": "doubling", "device": "cpu"})
    assert begun.status_code == 201, begun.text
    assert held.ada.get(final).status_code == 403 == held.site.client().get(final).status_code
    claims = [held.site.world.take() for _ in range(2)]
    for claim, score in zip(claims, (22.0, 20.0), strict=True):
        held.site.world.finish(claim, **scored(score))
    held.boss.post(f"/api/v1/contests/{held.name}/reveal")

    heat = held.ada.get(final).json()["heats"][0]
    assert [(f["rank"], f["submission"], f["runs"]) for f in heat["finalists"]] == [([1, 1], second, 1), ([2, 2], first, 1)]
    assert (heat["waiting"], heat["runner"]) == (0, "runner")
    refused = held.boss.post(f"/api/v1/submissions/{first}/rejudge")
    assert refused.status_code == 422 and "revealed" in refused.json()["detail"]


def test_a_rejudge_is_written_down_with_its_reason(held: Held) -> None:
    number = held.send(held.ada, 10.0)
    answer = held.boss.post(f"/api/v1/submissions/{number}/rejudge", json={"reason": "The runner was too warm."})
    assert (answer.status_code, answer.json()["state"]) == (200, "queued")
    with held.site.world.database.read() as session:
        noted = session.scalars(select(Audit).where(Audit.action == "rejudge").order_by(Audit.id.desc())).first()
    assert noted is not None and noted.detail == {"submission": number, "reason": "The runner was too warm."}
    held.judge_all(set())
