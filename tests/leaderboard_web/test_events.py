"""Following a judging: the stream, its resumption and end, the long poll, one ticker for all."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from kernelderby.storage import events
from tests.leaderboard_web.site import Site

SSE = {"Accept": "text/event-stream"}
NASTY = "</script>\x00\r\ndata: forged\r\nid: 99\n\u2028event: verdict\n"


def _frames(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Events as a browser reads them."""
    frame: dict[str, str] = {}
    for line in lines:
        if line == "" and frame:
            yield frame
            frame = {}
        elif line and not line.startswith((":", "retry:")):
            key, _, value = line.partition(": ")
            assert key not in frame, "an event has one line of each kind"
            frame[key] = value


def _started(site: Site, name: str) -> int:
    number = site.send(name, device="cpu")
    while site.world.take().id != number:
        pass
    return number


def test_a_stream_tells_every_step_in_order_and_ends_after_the_verdict(site: Site) -> None:
    number = _started(site, "watched")
    heard: list[dict[str, str]] = []

    def listen() -> None:
        with site.client("watched") as client, client.stream("GET", f"/api/v1/submissions/{number}/events", headers=SSE) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            heard.extend(_frames(stream.iter_lines()))

    listener = threading.Thread(target=listen)
    listener.start()
    site.report(number, "state", {"state": "running"})
    site.report(number, "log", {"text": NASTY})
    time.sleep(0.5)
    site.report(number, "check", {"case": "tiny", "done": 1, "of": 1, "outcome": "accepted"})
    site.end(number, log=NASTY)
    listener.join(10)

    assert not listener.is_alive(), "the stream did not end"
    assert [f["id"] for f in heard] == [str(i) for i in range(1, len(heard) + 1)]
    assert [f["event"] for f in heard] == ["state", "state", "state", "log", "check", "state", "verdict"]
    assert json.loads(heard[3]["data"])["text"] == NASTY
    assert json.loads(heard[-1]["data"])["outcome"] == "accepted"


def test_a_broken_stream_goes_on_where_it_broke_and_a_finished_one_says_so(site: Site) -> None:
    number = _started(site, "resumed")
    site.report(number, "check", {"case": "tiny", "done": 1, "of": 1, "outcome": "accepted"})
    site.end(number)
    path = f"/api/v1/submissions/{number}/events"
    with site.client() as client:
        with client.stream("GET", path, headers={**SSE, "Last-Event-ID": "2"}) as stream:
            ids = [f["id"] for f in _frames(stream.iter_lines())]
        done = client.get(path, headers={**SSE, "Last-Event-ID": ids[-1]})

    assert ids == ["3", "4", "5"]
    assert done.status_code == 204


@pytest.mark.parametrize(("headers", "query", "words"), [
    ({"Last-Event-ID": "x"}, "", "Last-Event-ID"), ({"Last-Event-ID": "-1"}, "", "Last-Event-ID"),
    ({"Last-Event-ID": str(2**31)}, "", "Last-Event-ID"), ({"Last-Event-ID": "9" * 39}, "", "Last-Event-ID"),
    ({"Last-Event-ID": "9" * 4000}, "", "last-event-id"),
    ({}, f"?after={10**30}", "after"), ({}, "?after=-1", "after"), ({}, "?after=x", "after"),
    ({}, "?wait=1e9", "wait"), ({}, "?wait=nan", "wait"),
])
def test_a_place_that_is_none_is_refused(site: Site, headers: dict[str, str], query: str, words: str) -> None:
    number = site.send("placed", device="cpu")
    with site.client() as client:
        answer = client.get(f"/api/v1/submissions/{number}/events{query}", headers={**SSE, **headers})
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


def test_a_poll_waits_for_the_next_event_and_no_longer(site: Site) -> None:
    number = _started(site, "polled")
    path = f"/api/v1/submissions/{number}/events"
    with site.client("polled") as client:
        assert [e["kind"] for e in client.get(path).json()["events"]] == ["state", "state"]
        began = time.monotonic()
        assert client.get(path, params={"after": 2, "wait": 0.4}).json() == {"events": []}
        assert 0.3 < time.monotonic() - began < 3
        threading.Timer(0.3, site.report, (number, "log", {"text": "hello"})).start()
        found = client.get(path, params={"after": 2, "wait": 10}).json()["events"]

    assert [(e["seq"], e["kind"], e["data"]) for e in found] == [(3, "log", {"text": "hello"})]


def test_many_watchers_cost_one_look(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    real = events.after

    def counted(session: Any, submission: int, seq: int, limit: int) -> Any:
        looks.append(submission)
        return real(session, submission, seq, limit)

    monkeypatch.setattr(events, "after", counted)
    number = _started(site, "crowded")
    heard: list[int] = []

    def listen() -> None:
        with httpx.Client(base_url=site.url, timeout=20) as client:
            heard.append(len(client.get(f"/api/v1/submissions/{number}/events", params={"after": 2, "wait": 10}).json()["events"]))

    listeners = [threading.Thread(target=listen) for _ in range(30)]
    for listener in listeners:
        listener.start()
    time.sleep(1.0)
    looks.clear()
    time.sleep(1.0)
    assert 1 <= len(looks) <= 5
    site.report(number, "check", {"case": "tiny", "done": 1, "of": 1, "outcome": "accepted"})
    for listener in listeners:
        listener.join(10)
    assert heard == [1] * 30


def test_numbers_are_finite_or_null(site: Site) -> None:
    number = _started(site, "infinite")
    site.report(number, "check", {"case": "tiny", "done": float("nan"), "of": float("inf")})
    site.end(number)
    with site.client() as client:
        listed = client.get(f"/api/v1/submissions/{number}/events").json()["events"][2]["data"]
        with client.stream("GET", f"/api/v1/submissions/{number}/events", headers=SSE) as stream:
            streamed = json.loads(list(_frames(stream.iter_lines()))[2]["data"])
    assert listed == streamed == {"case": "tiny", "done": None, "of": None}


def test_others_hear_that_something_was_printed_but_not_what(site: Site) -> None:
    number = _started(site, "private")
    site.report(number, "log", {"text": "secret"})
    with site.client("nosy") as nosy, site.client("private") as owner:
        path = f"/api/v1/submissions/{number}/events"
        assert nosy.get(path).json()["events"][-1]["data"] == {"text": None}
        assert owner.get(path).json()["events"][-1]["data"] == {"text": "secret"}
