"""The one door while gates change: what is sent meanwhile, and what organizers' runs are not."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kernelderby.core.errors import NotFound, RequestError
from kernelderby.core.settings import Settings
from kernelderby.core.submission import SubmitRequest
from kernelderby.core.verdict import Mode
from kernelderby.judge import intake
from kernelderby.storage import contests, registrations
from kernelderby.storage.database import Database
from tests.contest_world import HOUR, ContestWorld
from tests.small_world import SOURCE

PEOPLE = ("ada", "bob", "cyd")


@pytest.fixture
def held(database: Database, tmp_path: Path) -> ContestWorld:
    """A contest with these people in it."""
    held = ContestWorld.make(database, tmp_path)
    early, people = datetime.now(UTC) - 2 * HOUR, [held.world.person(name) for name in PEOPLE]
    with database.begin() as session:
        for person in people:
            registrations.register(session, contests.by_id(session, held.number, early), person, None, None, None, early)
    return held


def send(held: ContestWorld, name: str) -> int:
    request = SubmitRequest(person_id=held.world.person(name).id, file_name="kernel.py", source=SOURCE, contest="spring", mode=Mode.RANKED,
                            licence="MIT", ai_use="none")
    return intake.submit(held.world.database, held.world.artifacts, Settings(data=held.folder), request, lambda _: None).submission


def test_what_is_sent_while_a_change_is_applied_is_judged_by_the_new_gates(held: ContestWorld) -> None:
    standing = held.entry("ada", 10.0)
    change = held.propose()
    held.run_all()
    barrier = threading.Barrier(len(PEOPLE) + 1)

    def race(name: str) -> int:
        barrier.wait()
        return send(held, name) if name else held.apply(change.id).id

    with ThreadPoolExecutor(len(PEOPLE) + 1) as pool:
        *sent, _ = pool.map(race, (*PEOPLE, ""))

    judged = {claim.id: claim.gate_set for claim in held.run_all()}
    assert judged == dict.fromkeys([standing, *sent], change.gate_set)
    assert len(held.board()) == len(PEOPLE)


def test_an_organizers_run_is_nobodys_to_cancel_or_to_duel(held: ContestWorld) -> None:
    entry = held.entry("ada", 10.0)
    replay = held.propose().entries[0].replay
    held.run_all()
    ada, boss = held.world.person("ada"), held.world.person("boss")
    settings = Settings(data=held.folder)

    with pytest.raises(NotFound, match=f"no submission {replay}"):
        intake.cancel(held.world.database, ada, replay)
    with pytest.raises(NotFound, match=f"no submission {replay}"):
        intake.duel(held.world.database, settings, ada, entry, replay, lambda _: None)
    with pytest.raises(RequestError, match=f"an organizers' run of submission {entry}"):
        intake.duel(held.world.database, settings, boss, entry, replay, lambda _: None)


def test_after_the_reveal_nothing_is_judged_again(held: ContestWorld) -> None:
    entry = held.entry("ada", 10.0)
    with held.world.database.begin() as session:
        contests.reveal(session, held.number, datetime.now(UTC) + 2 * HOUR)
    with pytest.raises(RequestError, match="its seeds are public"):
        intake.rejudge(held.world.database, held.world.person("boss"), entry, lambda _: None)
