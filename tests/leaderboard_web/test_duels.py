"""Duels over the API: who may ask, for what, how often, and what is told."""

from typing import Any

import httpx
import pytest

from kernelderby.core.duel import Duel, DuelCase, with_result
from kernelderby.core.verdict import Mode
from kernelderby.storage import duels
from tests.leaderboard_web.site import Site


def judged(site: Site, name: str, mode: Mode = Mode.RANKED, **said: Any) -> int:
    """A person's finished submission."""
    number = site.world.send(name, mode=mode, source=f"# {name} {mode}".encode())
    site.judge(number, **{"mode": mode, "score_us": 10.0, "score_ci_us": (10.0, 10.0), **said})
    return number


def ask(client: httpx.Client, a: Any, b: Any) -> httpx.Response:
    return client.post("/api/v1/duels", json={"a": a, "b": b})


def test_a_duel_is_asked_for_played_and_read(site: Site) -> None:
    mine, theirs = judged(site, "duelist"), judged(site, "rival")
    with site.client("duelist") as client:
        ticket = ask(client, mine, theirs)
        assert ticket.status_code == 201, ticket.text
        number = ticket.json()["duel"]
        assert ticket.json()["url"] == f"http://127.0.0.1:8000/api/v1/duels/{number}"
        waiting = client.get(f"/api/v1/duels/{number}").json()
        assert (waiting["state"], waiting["result"], waiting["a"], waiting["b"]) == ("queued", None, mine, theirs)

        _play(site, number)

        found = client.get(f"/api/v1/duels/{number}").json()
    assert (found["state"], found["result"]["faster"], found["result"]["ratio"], found["for_crown"]) == ("done", "a", 0.5, False)


def test_a_contestant_asks_once_a_day_for_an_entry_and_an_organizer_as_often_as_needed(site: Site) -> None:
    mine, theirs, third = judged(site, "often"), judged(site, "other"), judged(site, "third")
    with site.client("often") as client, site.client("referee", "organizer") as boss:
        assert ask(client, mine, theirs).status_code == 201
        again = ask(client, mine, third)
        assert again.status_code == 429 and str(mine) in again.json()["detail"]
        assert [ask(boss, theirs, mine).status_code for _ in range(2)] == [201, 201]
        assert ask(boss, mine, mine).status_code == 201


REFUSED = ["not there", "not mine", "not ranked", "not accepted", "no number", "nobody"]


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_duel_is_refused_with_a_sentence(site: Site, what: str) -> None:
    mine, theirs = judged(site, f"asker {what}"), judged(site, "another")
    cases: dict[str, tuple[Any, Any, int, str]] = {
        "not there": (mine, 10**6, 404, "no submission"),
        "not mine": (theirs, theirs, 403, "yours"),
        "not ranked": (mine, judged(site, "tester", Mode.TEST), 422, "ranked"),
        "not accepted": (mine, judged(site, "loser", outcome="wrong_values"), 422, "accepted"),
        "no number": (mine, "x", 422, ""),
        "nobody": (mine, theirs, 401, ""),
    }
    a, b, status, word = cases[what]
    with site.client(None if what == "nobody" else f"asker {what}") as client:
        answer = ask(client, a, b)

    assert answer.status_code == status, answer.text
    assert word in answer.json()["detail"]


def test_there_is_no_duel_by_another_number(site: Site) -> None:
    with site.client() as client:
        assert client.get("/api/v1/duels/999999").status_code == 404


def _play(site: Site, number: int) -> None:
    blocks = DuelCase(name="tiny", a_us=[[1.0], [1.0]], b_us=[[2.0], [2.0]])
    with site.world.database.begin() as session:
        row = session.get_one(duels.DuelRow, number)
        row.state, row.attempt = "running", 1
        session.flush()
        assert duels.finish(session, number, 1, with_result(Duel(problem="doubling", version="v", device="cpu", cases=[blocks]))) is None
