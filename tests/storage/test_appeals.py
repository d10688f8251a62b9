"""Appeals: made by whoever fell, answered once, and judged again where granted."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kernelderby.core.errors import NotAllowed, NotFound, RequestError
from kernelderby.core.verdict import State
from kernelderby.storage import appeals, contests
from kernelderby.storage.appeals import AppealInfo
from kernelderby.storage.database import Database
from tests.contest_world import HOUR, ContestWorld


@pytest.fixture
def held(database: Database, tmp_path: Path) -> ContestWorld:
    return ContestWorld.make(database, tmp_path)


def fallen(held: ContestWorld) -> int:
    """Ada's entry, which a change of gates has taken off the board."""
    number = held.entry("ada", 10.0)
    held.apply(held.propose().id)
    held.run_all(caught={number})
    return number


def appeal(held: ContestWorld, number: int, name: str = "ada", text: str = "The row is padded.") -> AppealInfo:
    person = held.world.person(name)
    with held.world.database.begin() as session:
        return appeals.appeal(session, number, person.id, text, datetime.now(UTC))


def grant(held: ContestWorld, number: int) -> AppealInfo:
    with held.world.database.begin() as session:
        return appeals.grant(session, number, "You are right; the case is mended.", datetime.now(UTC))


def deny(held: ContestWorld, number: int) -> AppealInfo:
    with held.world.database.begin() as session:
        return appeals.answer(session, number, "It keeps results between calls.", False, datetime.now(UTC))


def test_granted_the_entry_is_judged_again_by_the_gates_that_were_mended_since(held: ContestWorld) -> None:
    number = fallen(held)
    made = appeal(held, number)
    assert (made.granted, made.outcome, made.contest) == (None, "wrong_values", "spring")
    mended = held.propose(budget=1e-4)
    held.apply(mended.id)

    found = grant(held, made.id)

    assert found.granted and found.outcome is None and held.world.view(number).state is State.QUEUED
    assert [(c.id, c.gate_set) for c in held.run_all()] == [(number, mended.gate_set)]
    assert held.board() == [number]


def test_denied_the_entry_stays_where_it_is_and_the_reason_is_told(held: ContestWorld) -> None:
    number = fallen(held)
    made = appeal(held, number)
    assert deny(held, made.id).answer == "It keeps results between calls."

    assert held.board() == [] and held.world.view(number).state is State.DONE
    with pytest.raises(RequestError, match="was answered: It keeps results"):
        appeal(held, number)
    for answer in (grant, deny):
        with pytest.raises(RequestError, match="was denied on"):
            answer(held, made.id)


def test_an_entry_that_fell_again_since_may_be_appealed_again(held: ContestWorld) -> None:
    number = fallen(held)
    grant(held, appeal(held, number).id)
    held.run_all(caught={number})

    assert appeal(held, number).granted is None


def test_everyone_reads_their_own_and_organizers_all(held: ContestWorld) -> None:
    made = appeal(held, fallen(held))
    with held.world.database.read() as session:
        assert [a.id for a in appeals.listing(session, held.number)] == [made.id]
        assert [a.id for a in appeals.of_person(session, held.number, made.person_id)] == [made.id]
        assert appeals.of_person(session, held.number, held.boss) == []
        assert appeals.open_count(session, held.number) == 1


def test_what_cannot_be_appealed(held: ContestWorld) -> None:
    number = fallen(held)
    standing = held.entry("bob", 20.0)
    practice = held.world.judged("cyd", 30.0)
    replay = held.propose(budget=1e-5).entries[0].replay
    with pytest.raises(NotAllowed, match="Only whoever sent"):
        appeal(held, number, "bob")
    with pytest.raises(RequestError, match="is accepted"):
        appeal(held, standing, "bob")
    with pytest.raises(RequestError, match="of a contest"):
        appeal(held, practice, "cyd")
    with pytest.raises(RequestError, match="nothing in the text"):
        appeal(held, number, text=" \n ")
    for unknown in (replay, 9999):
        with pytest.raises(NotFound, match=f"no submission {unknown}"):
            appeal(held, unknown, "boss")
    appeal(held, number)
    with pytest.raises(RequestError, match="waits for its answer"):
        appeal(held, number)


def test_after_the_reveal_an_appeal_can_only_be_denied(held: ContestWorld) -> None:
    made = appeal(held, fallen(held))
    with held.world.database.begin() as session:
        contests.reveal(session, held.number, datetime.now(UTC) + 2 * HOUR)

    with pytest.raises(RequestError, match="can only be denied"):
        grant(held, made.id)
    assert deny(held, made.id).granted is False
