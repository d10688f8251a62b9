"""Duels as rows: one owner at a time, tried again when void, and crowns that move by them alone."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from kernelderby.core.duel import Duel, DuelCase, Fallen, with_result
from kernelderby.core.errors import NotFound
from kernelderby.core.verdict import CaseResult, Outcome, State
from kernelderby.storage import boards, claims, duels, submissions
from kernelderby.storage.database import Database
from kernelderby.storage.duels import DuelClaim, DuelView
from kernelderby.storage.models import Board, DuelRow
from tests.small_world import World

GPU = "h200"


@pytest.fixture
def world(database: Database, tmp_path: Path) -> World:
    return World.make(database, tmp_path, ("cpu", GPU))


def judged(world: World, name: str, score_us: float, source: bytes = b"", device: str = GPU, bound_share: float = 0.0) -> int:
    """A person's accepted entry, of a source of its own unless given."""
    number = world.send(name, device=device, source=source or f"# {name} {score_us}".encode())
    claim = world.take(device)
    assert claim.id == number
    case = CaseResult(name="tiny", outcome=Outcome.ACCEPTED, time_us=score_us)
    assert world.finish(claim, score_us=score_us, score_ci_us=(score_us, score_us), device=device, cases=[case],
                        environment={"bound_share": bound_share})
    return number


def leader(world: World, device: str = GPU) -> int | None:
    with world.database.read() as session:
        return session.scalar(select(Board.leader).where(Board.device == device))


def take(world: World, *, is_for_crown: bool = True, now: datetime | None = None) -> DuelClaim:
    with world.database.begin() as session:
        claim = duels.claim(session, GPU, 60, now or datetime.now(UTC), is_for_crown=is_for_crown)
    assert claim is not None
    return claim


def waits(world: World, *, is_for_crown: bool = True) -> bool:
    with world.database.begin() as session:
        claim = duels.claim(session, GPU, 60, datetime.now(UTC), is_for_crown=is_for_crown)
        session.rollback()
    return claim is not None


def result(a_us: float = 1.0, b_us: float = 1.0, **said: object) -> Duel:
    case = DuelCase(name="tiny", a_us=[[100 * a_us]] * 2, b_us=[[100 * b_us]] * 2)      # long enough to count
    duel = Duel(problem="doubling", version="v", device=GPU, cases=[case])
    return duel.model_copy(update=said) if said else with_result(duel)


FELL = {side: result(fallen=Fallen(entry=side, outcome=Outcome.WRONG_VALUES, message="No.")) for side in ("a", "b")}   # type: ignore[arg-type]


def end(world: World, claim: DuelClaim, duel: Duel) -> bool:
    """What a worker does with a result; whether the duel is over."""
    with world.database.begin() as session:
        board = duels.finish(session, claim.id, claim.attempt, duel)
        if board is not None:
            boards.settle(session, board)
    return view(world, claim.id).state is State.DONE


def view(world: World, duel: int) -> DuelView:
    with world.database.read() as session:
        return duels.view(session, duel)


def a_day_passes(world: World) -> None:
    """All duels become older than CROWN_WAIT."""
    with world.database.begin() as session:
        for row in session.scalars(select(DuelRow)):
            row.created_at -= duels.CROWN_WAIT
            row.finished_at = row.finished_at and row.finished_at - duels.CROWN_WAIT


def ask(world: World, a: int, b: int, name: str = "ada") -> int:
    person = world.person(name)
    with world.database.begin() as session:
        return duels.ask(session, a, b, person.id, datetime.now(UTC))


def test_a_faster_entry_leads_once_it_has_won_the_duel(world: World) -> None:
    first = judged(world, "ada", 20.0)
    assert leader(world) == first and not waits(world)

    faster = judged(world, "bob", 10.0)
    assert leader(world) == first, "the verdict is there, the crown waits"
    claim = take(world)
    assert (claim.a.submission, claim.b.submission, claim.a.solo_us) == (faster, first, {"tiny": 10.0})
    assert end(world, claim, result(10.0, 20.0))

    assert leader(world) == faster
    assert not waits(world)
    shown = view(world, claim.id)
    assert (shown.a, shown.b, shown.is_for_crown, shown.state) == (faster, first, True, State.DONE)
    assert shown.result and shown.result.faster == "a"


@pytest.mark.parametrize("duel", [result(1.0, 1.0), result(2.0, 1.0), *FELL.values()], ids=["tie", "slower", "a fell", "b fell"])
def test_the_old_leader_stays_unless_the_duel_says_faster(world: World, duel: Duel) -> None:
    first = judged(world, "ada", 20.0)
    judged(world, "bob", 10.0)

    assert end(world, take(world), duel)

    assert leader(world) == first
    assert not waits(world), "and the same two are not asked again"
    judged(world, "cyd", 30.0)
    assert leader(world) == first and not waits(world)


@pytest.mark.parametrize(("ratio", "bound", "moves"), [(0.996, 0.0, False), (0.994, 0.0, True), (0.98, 0.03, False), (0.96, 0.03, True)])
def test_a_crown_moves_by_more_than_the_least_effect_and_the_runners_bound(world: World, ratio: float, bound: float, moves: bool) -> None:
    first = judged(world, "ada", 20.0)
    faster = judged(world, "bob", 10.0, bound_share=bound)

    assert end(world, take(world), result(ratio, 1.0))

    assert leader(world) == (faster if moves else first)


def test_a_void_duel_is_played_again_and_then_the_old_leader_stays_for_a_day(world: World) -> None:
    first = judged(world, "ada", 20.0)
    faster = judged(world, "bob", 10.0)

    ended = [end(world, take(world), result(void="Disturbed.")) for _ in range(duels.MAX_LOSSES)]

    assert ended == [False, False, True]
    judged(world, "cyd", 30.0)
    assert leader(world) == first and not waits(world)
    a_day_passes(world)
    judged(world, "dan", 30.0)
    assert end(world, take(world), result(10.0, 20.0)) and leader(world) == faster


@pytest.mark.parametrize("is_over", [False, True], ids=["while the first waits", "after the first was lost"])
def test_a_person_meets_a_leader_for_its_crown_once_a_day_and_others_are_heard(world: World, is_over: bool) -> None:
    first = judged(world, "ada", 20.0)
    judged(world, "bob", 10.0)
    if is_over:
        assert end(world, take(world), result())
    variant = judged(world, "bob", 9.0)
    assert waits(world) is not is_over
    if not is_over:
        assert end(world, take(world), result()) and not waits(world)

    other = judged(world, "cyd", 15.0)
    claim = take(world)
    assert (claim.a.submission, claim.b.submission) == (other, first)
    assert end(world, claim, result())
    a_day_passes(world)
    judged(world, "dan", 30.0)
    assert take(world).a.submission == variant


def test_a_killed_worker_delays_a_crown_and_loses_nothing(world: World) -> None:
    first = judged(world, "ada", 20.0)
    faster = judged(world, "bob", 10.0)
    dead = take(world)
    assert not waits(world) and leader(world) == first

    later = datetime.now(UTC) + timedelta(minutes=10)
    again = take(world, now=later)
    assert (again.id, again.attempt, again.is_hopeless) == (dead.id, 2, False)
    end(world, dead, result(20.0, 10.0))
    assert view(world, again.id).state is State.RUNNING, "the dead one is fenced out"
    assert end(world, again, result(10.0, 20.0))
    assert leader(world) == faster


def test_a_duel_that_kills_its_workers_ends(world: World) -> None:
    judged(world, "ada", 20.0)
    judged(world, "bob", 10.0)
    claims = [take(world, now=datetime.now(UTC) + timedelta(minutes=10 * i)) for i in range(duels.MAX_LOSSES + 1)]

    assert [claim.is_hopeless for claim in claims] == [False, False, False, True]
    assert end(world, claims[-1], duels.void(claims[-1], GPU, "Gone."))


def test_of_two_challengers_the_faster_is_heard_first_and_then_meets_the_other(world: World) -> None:
    first = judged(world, "ada", 30.0)
    bob = judged(world, "bob", 20.0)
    cyd = judged(world, "cyd", 10.0)

    claim = take(world)                       # bob's, asked for before cyd came
    assert (claim.a.submission, claim.b.submission) == (bob, first)
    assert end(world, claim, result(20.0, 30.0))
    other = take(world)                       # cyd's against ada
    assert (other.a.submission, other.b.submission) == (cyd, first)
    assert end(world, other, result(10.0, 30.0))

    assert leader(world) == cyd
    assert not waits(world)


def test_where_the_leader_no_longer_competes_the_fastest_leads_at_once(world: World) -> None:
    second = judged(world, "ada", 20.0)
    first = judged(world, "bob", 10.0)
    assert end(world, take(world), result(10.0, 20.0)) and leader(world) == first

    with world.database.begin() as session:
        submissions.rejudge(session, first)

    assert leader(world) == second


@pytest.mark.parametrize("b_us", [1.0, 2.0, 4.0], ids=["lost", "tied", "won"])
def test_the_crown_comes_back_from_one_that_lost_the_duel_for_it(world: World, b_us: float) -> None:
    first = judged(world, "ada", 10.0)
    second = judged(world, "bob", 9.9)
    assert end(world, take(world), result(2.0, b_us))
    with world.database.begin() as session:
        submissions.rejudge(session, first)
    assert leader(world) == second, "the only one that is there"

    claim = world.take(GPU)
    assert world.finish(claim, score_us=10.0, score_ci_us=(10.0, 10.0), device=GPU)

    assert claim.id == first
    assert leader(world) == (first if b_us < 2.0 else second) and not waits(world)


def test_the_leaders_own_source_sent_again_needs_no_duel(world: World) -> None:
    first = judged(world, "ada", 20.0, source=b"# one")
    judged(world, "bob", 10.0, source=b"# one")

    assert leader(world) == first and not waits(world)


def test_a_source_that_lost_is_not_heard_again(world: World) -> None:
    first = judged(world, "ada", 20.0)
    judged(world, "bob", 10.0, source=b"# one")
    assert end(world, take(world), result())

    judged(world, "cyd", 9.0, source=b"# one")

    assert leader(world) == first and not waits(world)


def test_on_a_cpu_no_duel_is_asked_for(world: World) -> None:
    judged(world, "ada", 20.0, device="cpu")
    faster = judged(world, "bob", 10.0, device="cpu")

    assert leader(world, "cpu") == faster
    with world.database.read() as session:
        assert session.scalars(select(DuelRow)).all() == []


def test_what_a_person_asks_for_is_claimed_apart_and_moves_no_crown(world: World) -> None:
    first, second = judged(world, "ada", 20.0), judged(world, "bob", 30.0)
    asked = ask(world, second, first)
    assert not waits(world) and waits(world, is_for_crown=False)

    claim = take(world, is_for_crown=False)
    assert claim.id == asked and end(world, claim, result(1.0, 2.0))

    assert leader(world) == first
    with pytest.raises(NotFound):
        view(world, asked + 1)


def test_a_duel_given_back_waits_again_uncounted(world: World) -> None:
    judged(world, "ada", 20.0)
    judged(world, "bob", 10.0)
    claim = take(world)
    with world.database.begin() as session:
        assert duels.renew(session, claim.id, claim.attempt, datetime.now(UTC) + timedelta(minutes=1))
        assert duels.release(session, claim.id, claim.attempt)
        assert not duels.renew(session, claim.id, claim.attempt, datetime.now(UTC))

    assert not take(world).is_hopeless
    with world.database.read() as session:
        assert session.get_one(DuelRow, claim.id).losses == 0


@pytest.mark.parametrize(("a_us", "b_us", "ranks"), [(1.0, 1.0, [(1, 2), (1, 2)]), (1.0, 1.2, [(2, 2), (1, 1)])], ids=["tie", "other way"])
def test_a_duel_on_record_decides_the_ranks_of_its_pair(world: World, a_us: float, b_us: float, ranks: list[tuple[int, int]]) -> None:
    faster, slower = judged(world, "ada", 10.0), judged(world, "bob", 20.0)
    ask(world, slower, faster)
    assert end(world, take(world, is_for_crown=False), result(a_us, b_us))

    with world.database.read() as session:
        rows = boards.board(session, "doubling", GPU).rows

    assert [row.rank for row in rows] == ranks


def test_a_runners_bound_keeps_entries_together_and_its_factor_moves_its_times(world: World) -> None:
    for name, score, environment in (("ada", 100.0, {"bound_share": 0.01}), ("bob", 100.8, {}), ("cyd", 200.0, {"factor": 0.25})):
        world.send(name, device=GPU, source=name.encode())
        world.finish(world.take(GPU), score_us=score, score_ci_us=(score, score), device=GPU, environment=environment)

    with world.database.read() as session:
        rows = boards.board(session, "doubling", GPU).rows

    assert [(row.person, row.score_us, row.rank) for row in rows] == [("cyd", 50.0, (1, 1)), ("ada", 100.0, (2, 3)), ("bob", 100.8, (2, 3))]


def test_the_times_an_entry_is_held_to_are_by_its_runners_factor(world: World) -> None:
    first = world.send("ada", device=GPU, source=b"one")
    case = CaseResult(name="tiny", outcome=Outcome.ACCEPTED, time_us=20.0)
    world.finish(world.take(GPU), score_us=20.0, score_ci_us=(20.0, 20.0), device=GPU, environment={"factor": 0.5}, cases=[case])
    second = judged(world, "bob", 9.0)

    claim = take(world)

    assert (claim.a.submission, claim.a.solo_us) == (second, {"tiny": 9.0})
    assert (claim.b.submission, claim.b.solo_us) == (first, {"tiny": 10.0})


def test_runs_of_one_source_are_one_entry_with_the_score_of_all_their_blocks(world: World) -> None:
    for name, times in (("ada", [10.0, 10.0, 10.0]), ("bob", [8.0, 12.0, 14.0])):
        world.send(name, source=b"# the same")
        world.finish(world.take(), score_us=sorted(times)[1], score_ci_us=(8.0, 14.0), receipt={"blocks_us": {"tiny": [times]}})
    other = judged(world, "cyd", 9.0, device="cpu")

    with world.database.read() as session:
        rows = boards.board(session, "doubling", "cpu").rows

    assert [(row.person, round(row.score_us, 9)) for row in rows] == [("cyd", 9.0), ("ada", 10.0), ("bob", 10.0)]
    assert rows[0].submission == other
    assert rows[1].ci_us == rows[2].ci_us


def test_a_rejudged_run_is_not_pooled_with_what_it_was(world: World) -> None:
    number = world.send(source=b"# one")
    world.finish(world.take(), score_us=10.0, score_ci_us=(10.0, 10.0), receipt={"blocks_us": {"tiny": [[10.0]]}})
    with world.database.begin() as session:
        submissions.rejudge(session, number)
    claim = world.take()
    with world.database.begin() as session:
        claims.finish(session, claim.id, claim.attempt, world.verdict(score_us=30.0, score_ci_us=(30.0, 30.0),
                                                                      receipt={"blocks_us": {"tiny": [[30.0]]}}))

    with world.database.read() as session:
        assert [row.score_us for row in boards.board(session, "doubling", "cpu").rows] == [30.0]
