"""A change of gates: previewed on the best entries, applied on the same board, or withdrawn."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import func, select

from kernelderby.core.errors import NotFound, RequestError
from kernelderby.core.verdict import Mode, Outcome, State
from kernelderby.storage import boards, claims, contests, gates, notices, people, problems, submissions
from kernelderby.storage.database import Database
from kernelderby.storage.models import LedgerRow, ProblemVersion, Submission, Turn
from tests.contest_world import CAUGHT, HOUR, ContestWorld, scored


@pytest.fixture
def held(database: Database, tmp_path: Path) -> ContestWorld:
    return ContestWorld.make(database, tmp_path)


def test_a_preview_tells_who_drops_and_the_ranks_after(held: ContestWorld) -> None:
    first, second, third = held.entry("ada", 10.0), held.entry("bob", 20.0), held.entry("cyd", 30.0)
    change = held.propose(top=2)
    assert [(f.submission, f.state, f.stands) for f in change.entries] == [(first, State.QUEUED, None), (second, State.QUEUED, None)]
    assert not change.is_complete

    held.run_all(caught={first})

    change = held.view(change.id)
    told = [(f.submission, f.rank_before, f.rank_after, f.outcome, f.gate, f.stands) for f in change.entries]
    assert told == [(first, (1, 1), None, Outcome.WRONG_VALUES, "any_input", False), (second, (2, 2), (1, 1), Outcome.ACCEPTED, None, True)]
    assert change.is_complete and change.entries[0].message == CAUGHT["message"]
    assert held.board() == [first, second, third], "a preview changes no board"


def test_a_preview_leaves_no_trace_on_boards_listings_counts_quotas_and_turns(held: ContestWorld) -> None:
    held.entry("ada", 10.0)
    before = held.world.view(1)
    with held.world.database.read() as session:
        counted = boards.board(session, "doubling", "cpu", held.number)
    held.propose()
    with held.world.database.read() as session:
        assert submissions.count_queued(session, held.boss) == 0
        assert submissions.sent_since(session, held.boss, held.number, Mode.RANKED, datetime.now(UTC) - HOUR) == []
        assert session.get(Turn, (held.boss, "cpu")) is None

    held.run_all()

    with held.world.database.read() as session:
        assert boards.board(session, "doubling", "cpu", held.number) == counted
        assert [v.id for v in submissions.recent(session)] == [1]
        assert session.get(Turn, (held.boss, "cpu")) is None
        rows = session.scalars(select(LedgerRow).where(LedgerRow.person == held.boss)).all()
        assert [(row.seconds, row.token) for row in rows] == [(2.0, None)], "kept under whoever asked, charged to no token"
    assert held.world.view(1) == before
    replay = held.world.view(2)
    assert (replay.replays, replay.contest, replay.outcome) == (1, "spring", Outcome.ACCEPTED)


def test_a_next_best_entry_and_a_second_copy_are_no_way_around_a_gate(held: ContestWorld) -> None:
    best, next_best = held.entry("ada", 10.0, source=b"one"), held.entry("ada", 11.0, source=b"two")
    twin = held.entry("ada", 10.0, source=b"one")
    slow = held.entry("bob", 20.0)
    change = held.propose(top=2)
    assert {f.submission for f in change.entries} == {best, next_best, slow}, "a source is played once"

    held.run_all(caught={best, next_best})
    assert [(f.submission, f.rank_after) for f in held.view(change.id).entries if f.stands] == [(slow, (1, 1))]
    held.apply(change.id)
    held.run_all(caught={best, next_best, twin})

    assert held.board() == [slow]


def test_applied_gates_judge_the_best_again_on_the_same_board_and_tell_why(held: ContestWorld) -> None:
    first, second, third = held.entry("ada", 10.0), held.entry("bob", 20.0), held.entry("cyd", 30.0)
    with held.world.database.read() as session:
        board = problems.board_version(session, held.place().version_id)
    change = held.propose(top=2)
    held.run_all(caught={first})

    applied = held.apply(change.id)

    assert applied.applied_at is not None and held.place().gate_set == change.gate_set
    assert held.board() == [third], "the first two are judged again"
    claims_made = held.run_all(caught={first})
    assert [(c.id, c.attempt, c.gate_set) for c in claims_made] == [(first, 2, change.gate_set), (second, 2, change.gate_set)]
    assert held.board() == [third, second]
    with held.world.database.read() as session:
        assert problems.board_version(session, held.place().version_id) == board
        ada, bob = people.by_name(session, "ada"), people.by_name(session, "bob")
        assert ada and bob
        told = notices.listing(session, held.number, ada.id)
        assert notices.listing(session, held.number, bob.id) == [] == notices.listing(session, held.number)
    assert len(told) == 1
    for part in ("A kernel kept results between calls", CAUGHT["message"].rstrip("."), f"derby contest appeal {first}", "any_input"):
        assert part in told[0].text
    fates = held.view(change.id).entries
    assert [(f.submission, f.rank_before, f.now) for f in fates] == [(first, (1, 1), "wrong_values"), (second, (2, 2), "accepted")]


def test_who_comes_up_without_having_been_judged_by_the_new_gates_is_told(held: ContestWorld) -> None:
    first, second, third = held.entry("ada", 10.0), held.entry("bob", 20.0), held.entry("cyd", 30.0)
    change = held.propose(top=1)
    assert held.view(change.id).unjudged == []
    held.run_all(caught={first})
    assert held.view(change.id).unjudged == [second]

    held.apply(change.id)
    held.run_all(caught={first})
    assert held.view(change.id).unjudged == [second]
    with held.world.database.begin() as session:
        submissions.rejudge(session, second)
    held.run_all(scores={second: 20.0})
    assert held.view(change.id).unjudged == [] and held.board() == [second, third]


def test_where_a_board_has_fewer_rows_everything_on_it_is_judged_again(held: ContestWorld) -> None:
    entries = {held.entry("ada", 10.0), held.entry("ada", 15.0)}
    assert {f.submission for f in held.propose(top=5).entries} == entries


def test_new_submissions_are_judged_by_the_new_gates_and_practice_by_the_old(held: ContestWorld) -> None:
    change = held.propose()
    with held.world.database.read() as session:
        assert problems.get(session, "doubling").gate_set != change.gate_set
        assert problems.newest_gate_set(session, held.world.problem.version_id) == held.world.problem.version_id
    held.apply(change.id)

    with held.world.database.read() as session:
        assert contests.problems_of(session, held.number)[0].gate_set == change.gate_set
        assert problems.get(session, "doubling").gate_set == held.world.problem.gate_set


def test_whatever_is_under_way_at_the_apply_ends_under_the_new_gates(held: ContestWorld) -> None:
    running = held.world.send("ada", contest=held.number)
    claim = held.world.take()
    queued = held.world.send("bob", contest=held.number)
    change = held.propose()

    held.apply(change.id)

    assert not held.world.finish(claim, **scored(10.0)), "fenced out"
    assert {(c.id, c.gate_set) for c in held.run_all()} == {(running, change.gate_set), (queued, change.gate_set)}
    assert set(held.board()) == {running, queued}


def test_a_second_apply_says_that_it_was_applied(held: ContestWorld) -> None:
    entry = held.entry("ada", 10.0)
    change = held.propose()
    held.run_all()
    barrier = threading.Barrier(2)

    def apply(_: int) -> str:
        barrier.wait()
        try:
            held.apply(change.id)
        except RequestError as error:
            return error.message
        return ""

    with ThreadPoolExecutor(2) as pool:
        said = sorted(pool.map(apply, range(2)))

    assert said[0] == "" and "was applied on" in said[1]
    assert [c.attempt for c in held.run_all()] == [2] and held.world.view(entry).attempt == 2


@pytest.mark.parametrize("pause_s", [0.0, 0.01, 0.03])
def test_whatever_ends_while_it_is_applied_stands_under_the_new_gates(held: ContestWorld, pause_s: float) -> None:
    for number in range(6):
        name, source = f"p{number}", b"the same" if number % 2 else None
        held.entry(name, 10.0 + number, source=source)
        held.world.send(name, contest=held.number, source=source or name.encode())
    change, over = held.propose(), threading.Event()

    def work(runner: str) -> None:
        while not over.is_set():
            claim = held.claim_by(runner)
            time.sleep(0.002)
            if claim is not None:
                held.world.finish(claim, **scored(10.0))

    with ThreadPoolExecutor(3) as pool:
        working = [pool.submit(work, runner) for runner in "abc"]
        time.sleep(pause_s)
        held.apply(change.id)
        over.set()
        for worker in working:
            worker.result()
    held.run_all()

    with held.world.database.read() as session:
        standing = session.scalars(select(ProblemVersion.gate_set).join(Submission, Submission.version == ProblemVersion.id).where(
            Submission.competes)).all()
        assert session.scalar(select(func.sum(Turn.queued))) == 0
    assert standing == [change.gate_set] * 12


def test_a_worker_that_dies_in_mid_preview_loses_nothing(held: ContestWorld) -> None:
    held.entry("ada", 10.0), held.entry("bob", 20.0)
    change = held.propose()
    first = held.world.take(lease_s=-1)
    with held.world.database.begin() as session:
        assert claims.expire(session, datetime.now(UTC)) == [(first.id, 1)]

    again = held.run_all()

    assert [(c.id, c.attempt) for c in again] == [(first.id, 2), (first.id + 1, 1)]
    assert held.view(change.id).is_complete


def test_a_preview_that_failed_is_not_complete_until_it_is_judged_again(held: ContestWorld) -> None:
    held.entry("ada", 10.0)
    change = held.propose()
    claim = held.world.take()
    held.world.finish(claim, outcome=Outcome.JUDGE_ERROR)
    with pytest.raises(RequestError, match=f"derby rejudge {claim.id}"):
        gates.check_complete(held.view(change.id))

    with held.world.database.begin() as session:
        submissions.rejudge(session, claim.id)
    assert held.world.take().gate_set == change.gate_set
    with pytest.raises(RequestError, match="0 of 1 entries"):
        gates.check_complete(held.view(change.id))


def test_a_withdrawn_change_leaves_everything_as_it_was(held: ContestWorld) -> None:
    entry, other = held.entry("ada", 10.0), held.entry("bob", 20.0)
    old = held.place()
    change = held.propose()
    running = held.world.take()
    with held.world.database.begin() as session:
        gates.withdraw(session, change.id, datetime.now(UTC))

    with held.world.database.read() as session:
        assert claims.standing(session, running.id, 1).cancelled
    assert held.world.claim() is None and held.place() == old and held.board() == [entry, other]
    for ask in (gates.apply, gates.withdraw):
        with pytest.raises(RequestError, match="was withdrawn"), held.world.database.begin() as session:
            ask(session, change.id, datetime.now(UTC))
    with held.world.database.begin() as session:
        submissions.rejudge(session, entry)
    held.world.finish(held.world.take(), **scored(10.0)) if held.world.view(running.id).state is State.DONE else None
    assert held.world.view(entry).gate_set == old.gate_set


def test_previews_go_behind_what_came_before_them_and_before_what_comes_after(held: ContestWorld) -> None:
    entry = held.entry("ada", 10.0)
    earlier = held.world.send("bob")
    replay = held.propose().entries[0].replay
    later = held.world.send("cyd")
    assert held.world.view(later).position == 3 and held.world.view(replay).position == 1

    assert [held.world.take().id for _ in range(3)] == [earlier, replay, later] and entry


WRONG = [
    ("a change that is open already", lambda h: h.propose(), lambda h: h.propose(budget=1e-9), "still open"),
    ("the gates that are in force", lambda h: None, lambda h: h.propose(budget=0.001), "by these gates already"),
    ("before the start", lambda h: None, lambda h: h.propose(later=-2 * HOUR), "has not begun"),
]


@pytest.mark.parametrize(("before", "ask", "said"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_cannot_be_proposed(held: ContestWorld, before, ask, said: str) -> None:   # type: ignore[no-untyped-def]
    before(held)
    with pytest.raises(RequestError, match=said):
        ask(held)


def test_a_change_that_is_not_there(held: ContestWorld) -> None:
    now = datetime.now(UTC)
    for ask in (lambda s: gates.view(s, 99), lambda s: gates.apply(s, 99, now), lambda s: gates.withdraw(s, 99, now)):
        with pytest.raises(NotFound, match="no change of gates 99"), held.world.database.begin() as session:
            ask(session)
