"""The one door: what is acknowledged is there, what is refused leaves nothing, and a repeat is no second submission."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from kernelderby.core.errors import (
    BadSource,
    BoardClosed,
    ConflictingDirectives,
    DeadlinePassed,
    DuplicateKey,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    QuotaSpent,
    RequestError,
    SourceTooLarge,
)
from kernelderby.core.rules import Quota
from kernelderby.core.settings import Settings
from kernelderby.core.submission import SubmitRequest
from kernelderby.core.verdict import Mode, Outcome, State
from kernelderby.judge import intake
from kernelderby.judge.intake import Ticket
from kernelderby.storage import events, problems, submissions
from kernelderby.storage.database import Database
from kernelderby.storage.models import Audit, Submission
from tests.small_world import NOON, SOURCE, World

SMALL = Quota(an_hour={Mode.TEST: 2, Mode.BENCHMARK: 1, Mode.RANKED: 1}, queued=2)


class Door:
    """A door with one contestant at it, and a bell that counts."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.world = World.make(database, folder)
        self.database = database
        self.settings = Settings(data=folder, public_url="https://derby.example/")
        self.rung: list[str] = []
        self.request = SubmitRequest(person_id=self.world.person("ada").id, file_name="kernel.py", source=SOURCE, problem="doubling")

    def submit(self, quota: Quota | None = None, **changes: Any) -> Ticket:
        return intake.submit(self.database, self.world.artifacts, self.settings, replace(self.request, **changes), self.ring, quota)

    def ring(self, device: str) -> None:
        with self.database.read() as session:   # the bell comes after the commit
            assert session.scalar(select(func.count()).select_from(Submission))
        self.rung.append(device)

    def count(self) -> int:
        with self.database.read() as session:
            return session.scalar(select(func.count()).select_from(Submission)) or 0


@pytest.fixture
def door(database: Database, tmp_path: Path) -> Door:
    return Door(database, tmp_path)


def test_a_ticket_stands_for_a_row_a_source_and_a_first_event(door: Door) -> None:
    ticket = door.submit(licence="MIT", ai_use="none", mode=Mode.RANKED)
    assert (ticket.problem, ticket.device, ticket.mode, ticket.inferred, ticket.position) == ("doubling", "cpu", Mode.RANKED, ["device"], 1)
    assert ticket.url == f"https://derby.example/submissions/{ticket.submission}"
    assert door.rung == ["cpu"]
    with door.database.read() as session:
        view = submissions.view(session, ticket.submission)
        steps = events.after(session, ticket.submission, 0)
    assert (view.licence, view.ai_use, view.language, view.person) == ("MIT", "none", "torch", "ada")
    assert door.world.artifacts.get(view.source_sha) == SOURCE
    assert [(e.seq, e.kind, e.data) for e in steps] == [(1, "state", {"state": "queued"})]
    assert door.world.take().id == ticket.submission


def test_header_lines_stand_in_for_the_request(door: Door) -> None:
    ticket = door.submit(problem=None, source=b"#!POPCORN leaderboard doubling\n#!POPCORN gpu CPU\n" + SOURCE)
    assert (ticket.problem, ticket.device, ticket.inferred) == ("doubling", "cpu", ["problem", "device"])


REFUSED: list[tuple[dict[str, Any], type[RequestError]]] = [
    ({"source": b"x" * (1024 * 1024 + 1)}, SourceTooLarge),
    ({"source": b""}, BadSource),
    ({"source": b" \n"}, BadSource),
    ({"source": b"\x7fELF\0\0"}, BadSource),
    ({"source": b"caf\xe9"}, BadSource),
    ({"file_name": "kernel.txt"}, BadSource),
    ({"file_name": "kernel"}, BadSource),
    ({"file_name": "a\0.exe"}, BadSource),
    ({"problem": "nothing"}, NotFound),
    ({"problem": "a\0b\ud800"}, NotFound),
    ({"problem": None}, RequestError),
    ({"device": "h100"}, NotFound),
    ({"device": "abacus\0"}, NotFound),
    ({"contest": "nothing"}, NotFound),
    ({"mode": Mode.RANKED}, RequestError),
    ({"licence": "</script>"}, RequestError),
    ({"ai_use": "maybe"}, RequestError),
    ({"idempotency_key": "a b"}, RequestError),
    ({"person_id": 999}, NotLoggedIn),
    ({"source": b"#!POPCORN leaderboard other\n" + SOURCE}, ConflictingDirectives),
    ({"source": b"#!POPCORN gpu H100\n" + SOURCE, "device": "cpu"}, ConflictingDirectives),
    ({"source": b"#!POPCORN leaderboard a\n#!POPCORN leaderboard b\n" + SOURCE}, ConflictingDirectives),
]


@pytest.mark.parametrize(("changes", "error"), REFUSED, ids=[f"{e.__name__}-{str(c)[:40]}" for c, e in REFUSED])
def test_what_is_refused_leaves_nothing_behind(
    sqlite_database: Database, tmp_path: Path, changes: dict[str, Any], error: type[Exception]
) -> None:
    door = Door(sqlite_database, tmp_path)
    kept = sorted((tmp_path / "artifacts").rglob("*"))
    with pytest.raises(error) as caught:
        door.submit(**changes)
    assert str(caught.value)
    assert (door.count(), door.rung, sorted((tmp_path / "artifacts").rglob("*"))) == (0, [], kept)


def test_a_name_with_markup_or_nul_is_tidied_and_taken(door: Door) -> None:
    ticket = door.submit(file_name="../</script>\0.py")
    with door.database.read() as session:
        assert submissions.view(session, ticket.submission).file_name == "script>\N{REPLACEMENT CHARACTER}.py"


def test_a_closed_board_and_a_passed_deadline_take_nothing(door: Door) -> None:
    for is_open, error in ((False, BoardClosed), (True, DeadlinePassed)):
        with door.database.begin() as session:
            problems.set_open(session, "doubling", is_open, NOON.replace(year=2020))
        with pytest.raises(error):
            door.submit()


def test_a_quota_is_counted_by_mode_and_an_organizer_has_none(door: Door) -> None:
    door.submit(SMALL, mode=Mode.BENCHMARK)
    with pytest.raises(QuotaSpent, match="1 benchmark"):
        door.submit(SMALL, mode=Mode.BENCHMARK)
    door.submit(SMALL)
    with pytest.raises(QuotaSpent, match="wait already"):
        door.submit(SMALL)
    organizer = door.world.person("olga", "organizer")
    for _ in range(4):
        door.submit(SMALL, person_id=organizer.id)


def test_requests_of_one_person_at_once_do_not_pass_a_quota(door: Door) -> None:
    barrier = threading.Barrier(6)

    def send(_: int) -> bool:
        barrier.wait()
        try:
            door.submit(SMALL)
        except QuotaSpent:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(send, range(6))) == 2
    assert door.count() == 2


def test_the_same_key_and_request_get_the_same_ticket(door: Door) -> None:
    first = door.submit(SMALL, idempotency_key="k1", mode=Mode.BENCHMARK)
    again = door.submit(SMALL, idempotency_key="k1", mode=Mode.BENCHMARK)   # though the quota is spent
    assert again.submission == first.submission
    with pytest.raises(DuplicateKey):
        door.submit(SMALL, idempotency_key="k1", mode=Mode.TEST)
    with pytest.raises(DuplicateKey):
        door.submit(SMALL, idempotency_key="k1", mode=Mode.BENCHMARK, source=SOURCE + b"\n")
    other = door.submit(person_id=door.world.person("bob").id, idempotency_key="k1", mode=Mode.BENCHMARK)
    assert other.submission != first.submission
    assert door.count() == 2


def test_the_same_key_sent_many_times_at_once_makes_one_submission(door: Door) -> None:
    barrier = threading.Barrier(6)

    def send(_: int) -> int:
        barrier.wait()
        return door.submit(idempotency_key="k1").submission

    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(send, range(6)))) == 1
    assert door.count() == 1


def test_an_owner_or_an_organizer_cancels_and_nobody_else(door: Door) -> None:
    ada, bob, olga = door.world.person("ada"), door.world.person("bob"), door.world.person("olga", "organizer")
    first, second = door.submit().submission, door.submit().submission
    with pytest.raises(NotAllowed):
        intake.cancel(door.database, bob, first)
    assert intake.cancel(door.database, ada, first).outcome is Outcome.CANCELLED
    assert intake.cancel(door.database, olga, second).outcome is Outcome.CANCELLED
    with pytest.raises(NotFound):
        intake.cancel(door.database, olga, 999)


def test_only_an_organizer_has_a_submission_judged_again(door: Door) -> None:
    submission = door.submit().submission
    door.world.finish(door.world.take())
    door.rung.clear()
    with pytest.raises(NotAllowed):
        intake.rejudge(door.database, door.world.person("ada"), submission, door.ring)
    view = intake.rejudge(door.database, door.world.person("olga", "organizer"), submission, door.ring)
    assert (view.state, view.outcome, door.rung) == (State.QUEUED, None, ["cpu"])
    with door.database.read() as session:
        assert list(session.scalars(select(Audit.action))) == ["rejudge"]
