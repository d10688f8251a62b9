"""Whatever is sent to the API, it answers with what its description promises, and never fails."""

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.leaderboard_web.site import SOURCE, Site

ODD = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["", "0", "1", "2", "nan", "-1", "1e999", "doubling", "cpu", "a\0b", "../..", "%", "\ud7ff"]),
    st.text(st.characters(codec="utf-8"), max_size=30))
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec="utf-8"), max_size=20),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5)
Operation = tuple[str, str, dict[str, Any]]   # method, path, description
CALM = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def fuzzer(site: Site) -> httpx.Client:
    """A client with a token, and something to find under small numbers."""
    client = site.client("fuzzer", "organizer")
    site.send("fuzzer", device="cpu")
    return client


@pytest.fixture(scope="module")
def operations(fuzzer: httpx.Client) -> list[Operation]:
    """Everything the API takes."""
    paths = fuzzer.get("/api/openapi.json").json()["paths"]
    return [(method, path, operation) for path, methods in paths.items() for method, operation in methods.items()
            if method != "delete"]      # it would revoke the token it asks with


@CALM
@given(data=st.data())
def test_no_address_fails_on_any_parameter(fuzzer: httpx.Client, operations: list[Operation], data: st.DataObject) -> None:
    method, path, operation = data.draw(st.sampled_from(operations))
    query: dict[str, str] = {}
    for parameter in operation.get("parameters", []):
        name, value = parameter["name"], data.draw(ODD)
        if parameter["in"] == "path":
            path = path.replace(f"{{{name}}}", quote(value, safe="") or "x")
        elif data.draw(st.booleans()):
            query[name] = "0.05" if name == "wait" and data.draw(st.booleans()) else value
    answer = fuzzer.request(method.upper(), path, params=query)
    assert answer.status_code < 500, answer.text
    if answer.is_error:
        assert set(answer.json()) == {"type", "title", "status", "detail"}
        assert len(answer.json()["detail"]) > 15
    if "submissions/{submission}" not in path and str(answer.status_code) not in operation["responses"]:
        assert answer.status_code in (404, 405)       # a parameter that made another path


@CALM
@given(fields=st.dictionaries(st.sampled_from(["file_name", "source", "problem", "device", "mode", "licence", "ai_use", "more"]), JSON))
def test_no_json_body_fails(fuzzer: httpx.Client, fields: dict[str, Any]) -> None:
    answer = fuzzer.post("/api/v1/submissions", content=json.dumps(fields).encode(), headers={"Content-Type": "application/json"})
    assert answer.status_code in (201, 404, 422), answer.text


CONTEST = st.fixed_dictionaries({}, optional={
    "name": st.sampled_from(["fuzzed", "other", "A"]) | JSON, "title": st.text(max_size=10) | JSON, "problems": JSON | st.just(
        [{"problem": "doubling"}]), "quotas": JSON | st.dictionaries(st.sampled_from(["ranked", "x"]), st.just({"runs": 2})), "more": JSON,
    **dict.fromkeys(("starts_at", "ends_at", "freezes_at"), st.datetimes().map(lambda at: f"{at.isoformat()}-11:00") | JSON),
    **dict.fromkeys(("by_team", "by_invitation", "sources", "gpu_seconds", "finalists", "final_runs"), JSON | st.integers())})


@CALM
@given(fields=CONTEST)
def test_no_contest_fails(fuzzer: httpx.Client, fields: dict[str, Any]) -> None:
    for method, path in (("POST", "/api/v1/contests"), ("PATCH", "/api/v1/contests/fuzzed"), ("POST", "/api/v1/contests/fuzzed/notices")):
        answer = fuzzer.request(method, path, content=json.dumps(fields).encode(), headers={"Content-Type": "application/json"})
        assert answer.status_code in (200, 201, 404, 422), answer.text
    for page in ("/contests/fuzzed", "/contests"):
        assert fuzzer.get(page).status_code in (200, 404)


@CALM
@given(fields=st.dictionaries(st.sampled_from(["problem", "device", "mode", "licence", "ai_use", "more"]), ODD),
       name=st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=300),
       source=st.binary(max_size=200) | st.just(SOURCE))
def test_no_form_fails(fuzzer: httpx.Client, fields: dict[str, str], name: str, source: bytes) -> None:
    answer = fuzzer.post("/api/v1/submissions", files={"file": (name, source)}, data=fields)
    assert answer.status_code in (201, 404, 409, 422), answer.text


@CALM
@given(body=st.binary(max_size=300),
       kind=st.sampled_from(["application/json", "multipart/form-data; boundary=a", "text/plain", "a/b; x", ";;"]))
def test_no_bytes_fail(fuzzer: httpx.Client, body: bytes, kind: str) -> None:
    for path in ("/api/v1/submissions", "/submit", "/login"):
        answer = fuzzer.post(path, content=body, headers={"Content-Type": kind})
        assert answer.status_code < 500, answer.text


@CALM
@given(path=ODD, query=ODD)
def test_no_page_fails(fuzzer: httpx.Client, path: str, query: str) -> None:
    for page in ("/", "/problems/", "/submissions/", "/login?code=", "/login?next=", "/submit?problem=", "/submit?device=",
                 "/entries?before=", "/problems/doubling?device=", "/contests/", "/contests/fuzzed?board=", "/theme/dark?next=", "/theme/",
                 "/login/github/back?state=", "/login/"):
        answer = fuzzer.get(f"{page}{quote(path, safe='')}", params=None)
        assert answer.status_code < 500, answer.text
    assert fuzzer.get("/", params={"x": query}).status_code == 200
