"""Runs: one owner at a time, a fair share, one verdict, events without gaps."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from kernelderby.core.verdict import Mode, Outcome, State
from kernelderby.storage import claims, events, turns
from tests.small_world import World


def seqs(world: World, submission: int) -> list[int]:
    with world.database.read() as session:
        return [e.seq for e in events.after(session, submission, 0)]


def kinds(world: World, submission: int) -> list[str]:
    with world.database.read() as session:
        return [str(e.data["state"]) if e.kind == "state" else e.kind for e in events.after(session, submission, 0)]


def lose(world: World, claim: claims.Claim, box_alive: bool) -> bool:
    with world.database.begin() as session:
        return claims.lose(session, claim.id, claim.attempt, box_alive, "It broke.")


def test_a_run_goes_from_queue_to_verdict(world: World) -> None:
    submission = world.send()
    claim = world.take()
    assert (claim.id, claim.attempt, claim.problem, claim.mode) == (submission, 1, "doubling", Mode.RANKED)
    assert world.view(submission).state is State.BUILDING

    with world.database.begin() as session:
        claims.add_events(session, claim.id, claim.attempt, [("state", {"state": "running"})])
        assert claims.add_events(session, claim.id, claim.attempt, [("check", {"case": "tiny", "done": 1, "of": 1})]) == 4
    assert world.view(submission).state is State.RUNNING

    assert world.finish(claim, score_us=10.0, score_ci_us=(9.9, 10.1), stages_s={"total": 1.5})
    view = world.view(submission)
    assert view.state is State.DONE
    assert view.verdict is not None and view.verdict.rank == (1, 1) and view.verdict.submission == submission
    assert kinds(world, submission) == ["queued", "building", "running", "check", "done", "verdict"]
    assert seqs(world, submission) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("said", ["a\0b", "\ud800", "</script>\x1b[2J", "\N{RIGHT-TO-LEFT OVERRIDE}", "x" * 60_000], ids=ascii)
def test_any_text_can_be_reported_and_be_part_of_a_verdict(world: World, said: str) -> None:
    submission = world.send()
    claim = world.take()
    with world.database.begin() as session:
        assert claims.add_events(session, claim.id, claim.attempt, [("log", {"text": said})]) == 3
    assert world.finish(claim, environment={"gpu": said})
    with world.database.read() as session:
        assert events.after(session, submission, 2)[0].data == {"text": said}


def test_nothing_waits_means_nothing_is_claimed(world: World) -> None:
    assert world.claim() is None
    world.send(device="cpu")
    assert world.claim(device="h100") is None


def test_the_person_served_least_lately_is_next_then_their_oldest(world: World) -> None:
    sent = {name: [world.send(name) for _ in range(count)] for name, count in (("ada", 3), ("bob", 1), ("cyd", 2))}
    order = [world.take().id for _ in range(6)]
    assert order == [sent["ada"][0], sent["bob"][0], sent["cyd"][0], sent["ada"][1], sent["cyd"][1], sent["ada"][2]]


def test_the_place_in_the_queue_is_the_turn_it_will_be_claimed(world: World) -> None:
    names = ["ada", "ada", "bob", "ada", "cyd", "bob", "ada"]
    sent = [world.send(name) for name in names]
    world.take()   # ada was served, so the others go before
    places = {s: world.view(s).position for s in sent}
    assert places.pop(sent[0]) is None
    assert [world.take().id for _ in places] == sorted(places, key=lambda s: places[s] or 0)
    assert sorted(p or 0 for p in places.values()) == list(range(1, len(places) + 1))


def test_many_workers_claim_each_submission_once(world: World) -> None:
    for name in ("ada", "bob"):
        for _ in range(20):
            world.send(name)
    barrier = threading.Barrier(8)

    def work(_: int) -> list[int]:
        barrier.wait()
        found = []
        while claim := world.claim():
            found.append(claim.id)
        return found

    with ThreadPoolExecutor(8) as pool:
        taken = Counter(i for found in pool.map(work, range(8)) for i in found)
    assert len(taken) == 40
    assert set(taken.values()) == {1}


def test_one_person_keeps_every_worker_busy(world: World) -> None:
    for _ in range(24):
        world.send("ada")
    barrier = threading.Barrier(6)

    def work(_: int) -> bool:
        barrier.wait()
        return all(world.claim() is not None for _ in range(4))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


def test_a_fenced_out_worker_writes_nothing(world: World) -> None:
    submission = world.send()
    old = world.take()
    assert lose(world, old, box_alive=False)
    new = world.take()
    assert (new.id, new.attempt) == (submission, 2)
    before = seqs(world, submission)

    with world.database.begin() as session:
        assert claims.add_events(session, old.id, old.attempt, [("log", {"text": "late"})]) is None
        assert not claims.renew(session, old.id, old.attempt, datetime.now(UTC) + timedelta(hours=1))
        assert not claims.standing(session, old.id, old.attempt).ours
        assert not claims.release(session, old.id, old.attempt, "")
    assert not world.finish(old, outcome=Outcome.WRONG_VALUES)
    assert not lose(world, old, box_alive=True)
    assert seqs(world, submission) == before

    assert world.finish(new)
    assert not world.finish(new, outcome=Outcome.WRONG_VALUES)
    assert world.view(submission).outcome is Outcome.ACCEPTED
    assert kinds(world, submission).count("verdict") == 1


@pytest.mark.parametrize(("box_alive", "losses", "outcome"), [(True, 2, Outcome.RUNTIME_ERROR), (False, 3, Outcome.JUDGE_ERROR)])
def test_a_run_that_keeps_breaking_gets_a_verdict(world: World, box_alive: bool, losses: int, outcome: Outcome) -> None:
    submission = world.send()
    for _ in range(losses):
        assert world.view(submission).outcome is None
        lose(world, world.take(), box_alive)
    view = world.view(submission)
    assert (view.outcome, view.attempt) == (outcome, losses)
    assert view.verdict is not None and "It broke." in (view.verdict.message or "")
    assert world.claim() is None


def test_a_run_whose_lease_ran_out_is_judged_again(world: World) -> None:
    submission = world.send()
    world.take(lease_s=0.0)
    with world.database.begin() as session:
        assert claims.expire(session, datetime.now(UTC)) == [(submission, 1)]
    with world.database.begin() as session:
        assert claims.expire(session, datetime.now(UTC)) == []
    assert world.take().attempt == 2


def test_a_renewed_lease_does_not_run_out(world: World) -> None:
    world.send()
    claim = world.take(lease_s=0.0)
    with world.database.begin() as session:
        assert claims.renew(session, claim.id, claim.attempt, datetime.now(UTC) + timedelta(seconds=20))
        assert claims.expire(session, datetime.now(UTC)) == []


def test_a_released_run_waits_again_and_nothing_counts_as_lost(world: World) -> None:
    world.send()
    for attempt in range(1, 6):
        claim = world.take()
        assert claim.attempt == attempt
        with world.database.begin() as session:
            assert claims.release(session, claim.id, claim.attempt, "The runner was told to stop.")


def test_stale_counts_in_turns_starve_nobody(world: World) -> None:
    waiting = world.send("ada")
    with world.database.begin() as session:
        turns.add_waiting(session, world.person("ghost").id, "cpu", 5)   # counted, but without a row
    world.take()
    assert world.view(waiting).state is State.BUILDING
    assert world.claim() is None
    later = world.send("ada")
    assert world.take().id == later
