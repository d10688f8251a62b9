"""The ledger and budgets: what an attempt costs, once, and what is our own failure costs nothing."""

from sqlalchemy import select

from kernelderby.core.verdict import Mode, Outcome
from kernelderby.storage import claims, ledger, people, submissions
from kernelderby.storage.models import LedgerRow
from kernelderby.storage.people import NewToken
from tests.small_world import World

STAGES = {"queue": 9.0, "build": 5.0, "box": 0.5, "load": 0.25, "check": 1.0, "time": 2.0, "total": 8.75}
SECONDS = 3.75      # without the queue and the build


def agent(world: World, **budget: float) -> int:
    """The token of ada's agent."""
    ada = world.person("ada")
    with world.database.begin() as session:
        people.add_token(session, ada.id, NewToken(name="robot", agent=True, **budget))   # type: ignore[arg-type]
        return people.tokens_of(session, ada.id)[0].id


def rows(world: World) -> list[tuple[int, int, float]]:
    with world.database.read() as session:
        return [(r.submission, r.attempt, r.seconds) for r in session.scalars(select(LedgerRow).order_by(LedgerRow.submission,
                                                                                                        LedgerRow.attempt))]


def test_an_attempt_costs_the_seconds_of_its_device(world: World) -> None:
    token = agent(world)
    number = world.send("ada", token=token)
    world.finish(world.take(), stages_s=STAGES)

    assert rows(world) == [(number, 1, SECONDS)]
    with world.database.read() as session:
        found = session.scalars(select(LedgerRow)).one()
        assert (found.person, found.token, found.device, found.mode) == (world.person("ada").id, token, "cpu", Mode.RANKED)


def test_what_the_platform_failed_at_costs_nothing(world: World) -> None:
    token = agent(world)
    number = world.send("ada", token=token)
    lost = world.take()
    with world.database.begin() as session:
        claims.lose(session, lost.id, lost.attempt, False, "The runner went away.")
    world.finish(world.take(), outcome=Outcome.JUDGE_ERROR, stages_s=STAGES)

    assert rows(world) == [(number, 1, 0.0), (number, 2, 0.0)]
    with world.database.read() as session:
        assert ledger.budget(session, token).runs_spent == 0


def test_a_verdict_that_comes_too_late_costs_nothing(world: World) -> None:
    world.send("ada")
    late = world.take()
    with world.database.begin() as session:
        claims.lose(session, late.id, late.attempt, False, "The runner went away.")
    world.take()

    assert not world.finish(late, stages_s=STAGES)
    assert [seconds for *_, seconds in rows(world)] == [0.0]


def test_being_judged_again_is_not_paid_again(world: World) -> None:
    number = world.send("ada")
    world.finish(world.take(), stages_s=STAGES)
    with world.database.begin() as session:
        submissions.rejudge(session, number)
    world.finish(world.take(), stages_s=STAGES)

    assert rows(world) == [(number, 1, SECONDS), (number, 2, 0.0)]


def test_a_budget_counts_every_mode_and_what_waits_and_what_was_cancelled(world: World) -> None:
    token = agent(world, runs=9, gpu_seconds=60.0)
    for mode in Mode:
        world.send("ada", mode=mode, token=token)
    world.send("ada")                                  # by ada herself
    world.finish(world.take(), stages_s=STAGES)
    waiting = world.send("ada", token=token)
    with world.database.begin() as session:
        submissions.cancel(session, waiting)

    with world.database.read() as session:
        found = ledger.budget(session, token)
    assert (found.runs, found.runs_spent, found.gpu_seconds, found.seconds_spent) == (9, len(Mode) + 1, 60.0, SECONDS)
