"""Bad requests: each has its status and a sentence that says what to do."""

import errno
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from kernelderby.storage import people, problems
from kernelderby.storage.artifacts import ArtifactStore
from tests.leaderboard_web.site import SOURCE, Site
from tests.small_world import add_problem, small_problem

GOOD = {"problem": "doubling", "device": "cpu", "mode": "test"}

FILES = [   # name, file name, bytes, status, words of the sentence
    ("empty", "kernel.py", b"", 422, "empty"),
    ("blank", "kernel.py", b" \n", 422, "empty"),
    ("binary", "kernel.py", b"\x7fELF\x00\x01", 422, "NUL"),
    ("2 MB", "kernel.py", b"#" * 2_000_000, 413, "larger than 1 MiB"),
    ("just above 1 MiB", "kernel.py", b"#" * (1024 * 1024 + 1), 413, "larger than 1 MiB"),
    ("far above", "kernel.py", b"#" * 9_000_000, 413, "larger than 1 MiB"),
    ("not UTF-8", "kernel.py", b"x = '\xff'", 422, "UTF-8"),
    ("wrong suffix", "kernel.exe", SOURCE, 422, ".py or .cu"),
    ("two problems", "kernel.py", b"#!POPCORN leaderboard a\n#!POPCORN leaderboard b\n", 422, "two problems"),
    ("another problem", "kernel.py", b"#!POPCORN leaderboard other\n" + SOURCE, 422, "Change one"),
    ("another device", "kernel.py", b"#!POPCORN gpu b200\n" + SOURCE, 422, "Change one"),
]
FIELDS = [
    ("unknown problem", {"problem": "nope"}, 404, "doubling"),
    ("NUL in the problem", {"problem": "doub\0ling"}, 404, "no problem"),
    ("script in the problem", {"problem": "</script>"}, 404, "no problem"),
    ("unknown device", {"device": "abacus"}, 404, "cpu"),
    ("device without a board", {"device": "b200"}, 404, "no board"),
    ("unknown mode", {"mode": "profile"}, 422, "mode"),
    ("ranked without a licence", {"mode": "ranked"}, 422, "licence"),
    ("licence that is none", {"licence": "<b>"}, 422, "SPDX"),
    ("unknown AI use", {"ai_use": "lots"}, 422, "none, assisted, agent"),
]


def _send(client: httpx.Client, fields: dict[str, str] | None = None, source: bytes = SOURCE, name: str = "kernel.py") -> httpx.Response:
    return client.post("/api/v1/submissions", files={"file": (name, source)}, data=GOOD | (fields or {}))


def _refused(answer: httpx.Response, status: int, words: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert set(found) == {"type", "title", "status", "detail"}
    assert found["status"] == status
    assert words in found["detail"]


@pytest.mark.parametrize(("file_name", "source", "status", "words"), [f[1:] for f in FILES], ids=[f[0] for f in FILES])
def test_a_bad_file_is_refused(site: Site, file_name: str, source: bytes, status: int, words: str) -> None:
    with site.client("sender") as client:
        _refused(_send(client, source=source, name=file_name), status, words)


@pytest.mark.parametrize(("fields", "status", "words"), [f[1:] for f in FIELDS], ids=[f[0] for f in FIELDS])
def test_a_bad_field_is_refused(site: Site, fields: dict[str, str], status: int, words: str) -> None:
    with site.client("sender") as client:
        _refused(_send(client, fields), status, words)


@pytest.mark.parametrize(("kind", "body", "words"), [
    ("application/json", b"{", "JSON"),
    ("application/json", b"[" * 100_000, "JSON"),
    ("application/json", b'{"file_name": "k.py"}', "source"),
    ("application/json", b'{"file_name": "k.py", "source": "\\ud800"}', "JSON"),
    ("application/json", b'{"file_name": "k.py", "source": "x", "extra": 1}', "extra"),
    ("multipart/form-data", b"x", "boundary"),
    ("multipart/form-data; boundary=x", b"nonsense", "form"),
    ("multipart/form-data; boundary=x", b"", "file"),
    ("text/plain", b"x", "file"),
    ("", b"", "file"),
], ids=range(10))
def test_a_body_that_is_no_submission_is_refused(site: Site, kind: str, body: bytes, words: str) -> None:
    with site.client("sender") as client:
        answer = client.post("/api/v1/submissions", content=body, headers={"Content-Type": kind} if kind else {})
        assert words.lower() in answer.json()["detail"].lower()
        _refused(answer, 422, "")


def test_a_large_body_without_a_length_is_refused(site: Site) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(40):
            yield b"#" * 65536

    with site.client("sender") as client:
        _refused(client.post("/api/v1/submissions", content=parts(), headers={"Content-Type": "application/json"}), 413, "1 MiB")


def test_a_closed_board_and_a_passed_deadline_are_refused(site: Site, tmp_path: Path) -> None:
    world = site.world
    for name, is_open, closes_at, status, words in (("shut", False, None, 409, "takes no submissions"),
                                                    ("over", True, datetime.now(UTC) - timedelta(hours=1), 410, "closed at")):
        add_problem(world.database, world.artifacts, small_problem(tmp_path, name))
        with world.database.begin() as session:
            problems.set_open(session, name, is_open, closes_at)
        with site.client("sender") as client:
            _refused(_send(client, {"problem": name}), status, words)


def test_a_spent_quota_is_refused_with_a_time_to_come_back(site: Site) -> None:
    with site.client("eager") as client:
        answers = [_send(client, {"mode": "ranked", "licence": "MIT"}) for _ in range(101)]
    assert [a.status_code for a in answers[:100]] == [201] * 100
    _refused(answers[100], 429, "wait already")
    assert answers[100].headers["retry-after"]


@pytest.mark.parametrize("header", ["Bearer", "Basic abc", "Bearer nonsense", "Bearer \x7f", "derby_x"])
def test_a_token_that_is_not_known_is_refused_everywhere(site: Site, header: str) -> None:
    with site.client() as client:
        for path in ("/api/v1/people/me", "/api/v1/submissions"):
            answer = client.get(path, headers={"Authorization": header})
            _refused(answer, 401, "")
            assert answer.headers["www-authenticate"] == "Bearer"


def test_no_token_and_a_revoked_one_are_refused(site: Site) -> None:
    person = site.person("former")
    token = site.token("former")
    with site.client() as client:
        _refused(_send(client), 401, "Authorization: Bearer")
        client.headers["Authorization"] = f"Bearer {token}"
        assert client.get("/api/v1/people/me").status_code == 200
        with site.world.database.begin() as session:
            people.revoke_token(session, person.id, people.tokens_of(session, person.id)[0].id)
        _refused(client.get("/api/v1/people/me"), 401, "revoked")


@pytest.mark.parametrize(("path", "status"), [
    ("/api/v1/submissions/999999", 404), ("/api/v1/submissions/0", 422), ("/api/v1/submissions/x", 422),
    (f"/api/v1/submissions/{2**63}", 422), (f"/api/v1/submissions/{'9' * 5000}", 422), ("/api/v1/submissions/999999/events", 404),
    ("/api/v1/submissions/999999/source", 404), ("/api/v1/problems/nope", 404), ("/api/v1/problems/a%00b", 404),
    ("/api/v1/problems/doubling/board?device=abacus", 404), ("/api/v1/problems/doubling/starters/..%2fproblem.yml", 404),
    ("/api/v1/problems/doubling/starters/%22%0d%0aX:y", 404), ("/api/v1/submissions?mine=true", 401),
    ("/api/v1/submissions?limit=0", 422), (f"/api/v1/submissions?before={2**63}", 422), ("/api/v1/nothing", 404),
])
def test_what_is_not_there_says_so(site: Site, path: str, status: int) -> None:
    with site.client() as client:
        _refused(client.get(path), status, "")


@pytest.mark.parametrize("key", ["a b", "", "x" * 201])
def test_a_bad_idempotency_key_is_refused(site: Site, key: str) -> None:
    with site.client("sender") as client:
        answer = client.post("/api/v1/submissions", files={"file": ("kernel.py", SOURCE)}, data=GOOD, headers={"Idempotency-Key": key})
    _refused(answer, 422, "dempotency-")


def test_a_field_that_is_not_known_is_refused(site: Site) -> None:
    with site.client("sender") as client:
        _refused(_send(client, {"modus": "ranked"}), 422, "'modus'")


@pytest.mark.parametrize("path", ["/", "/api/v1/devices", "/api/v1/problems/doubling/board", "/healthz", "/api/v1/keys", "/nowhere"])
def test_head_answers_as_get_does_without_a_body(site: Site, path: str) -> None:
    with site.client() as client:
        head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-type"] == get.headers["content-type"]


def test_head_of_a_stream_ends(site: Site) -> None:
    waiting = site.world.send("streamed")
    with site.client() as client:
        answer = client.head(f"/api/v1/submissions/{waiting}/events", headers={"Accept": "text/event-stream"})
        refused = client.head("/api/v1/submissions/999999")
    assert (answer.status_code, answer.content, refused.status_code) == (200, b"", 404)
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_method_that_is_not_taken_says_so(site: Site) -> None:
    with site.client() as client:
        answer = client.put("/api/v1/submissions")
    _refused(answer, 405, "method")
    assert "POST" in answer.headers["allow"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EROFS, "Read-only file system"),
                                   OperationalError("INSERT", {}, Exception("database is locked"))], ids=["full", "read-only", "locked"])
def test_storage_that_cannot_be_written_is_said_and_nothing_was_taken(
        site: Site, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(ArtifactStore, "put", fail)
    with site.client("nora") as client:
        answer = client.post("/api/v1/submissions", files={"file": ("kernel.py", SOURCE)}, data=GOOD)
        mine = client.get("/api/v1/submissions?mine=true")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:kernelderby:storage_unavailable")
    assert "try again" in answer.json()["detail"]
    assert answer.headers["retry-after"]
    assert mine.json()["submissions"] == []
