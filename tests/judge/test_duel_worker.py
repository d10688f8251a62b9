"""The worker and duels: crowns follow their verdicts, what people ask for waits, and nothing is lost on the way."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import select

from kernelderby.core.devices import device
from kernelderby.core.duel import Duel
from kernelderby.core.receipt import receipt_of
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import CaseResult, Outcome, State, Verdict
from kernelderby.judge import duels as duels_module
from kernelderby.judge import intake
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge
from kernelderby.judge.receipts import load_key, verify
from kernelderby.judge.runs import Runs
from kernelderby.storage import boards, duels, factors, submissions
from kernelderby.storage.database import Database
from kernelderby.storage.models import Board, DuelRow
from tests.judge.fake_judge import FakeJudge, Report
from tests.judge.processes import wait_for
from tests.small_world import World

GPU = "h200"


@pytest.fixture
def world(sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(duels_module, "PAUSE_S", 0.01)
    return World.make(sqlite_database, tmp_path, ("cpu", GPU))


@contextmanager
def working(world: World, folder: Path, judge: FakeJudge) -> Iterator[None]:
    runs = Runs(Settings(data=folder), world.database, device(GPU))
    thread = threading.Thread(target=runs.work, args=[cast(Judge, judge)], daemon=True)
    thread.start()
    try:
        yield
    finally:
        runs.stop()
        thread.join(10)
        assert not thread.is_alive()


def leads(world: World, submission: int) -> bool:
    with world.database.read() as session:
        return session.scalar(select(Board.leader).where(Board.device == GPU)) == submission


def states(world: World) -> list[str]:
    with world.database.read() as session:
        return list(session.scalars(select(DuelRow.state).order_by(DuelRow.id)))


def led(world: World, word: str, solo_us: float = 200.0) -> int:
    """The first leader: its scores are worse than what the fake judge gives. `solo_us`: what its case took alone."""
    number = world.send("ada", device=GPU, source=f"accept {word}".encode())
    case = CaseResult(name="tiny", outcome=Outcome.ACCEPTED, time_us=solo_us)
    assert world.finish(world.take(GPU), score_us=200.0, score_ci_us=(200.0, 200.0), device=GPU, cases=[case])
    return number


def test_the_crown_moves_in_the_same_sitting_when_the_duel_is_won(world: World, tmp_path: Path) -> None:
    first, judge = led(world, "200"), FakeJudge()
    faster = world.send("bob", device=GPU, source=b"accept 100")
    waiting = world.send("cyd", device=GPU, source=b"accept 990")

    with working(world, tmp_path, judge):
        wait_for(lambda: leads(world, faster) and world.view(waiting).state is State.DONE)

    a, b = judge.duels[0]
    assert (a.submission, b.submission, a.source, b.source) == (faster, first, b"accept 100", b"accept 200")
    assert judge.jobs[0].submission == faster and len(a.seed) == 32 and a.seed != judge.jobs[0].seed


@pytest.mark.parametrize(("old", "new", "plays"), [("20", "020", 1), ("20", "30", 1), ("20", "void", 3), ("lost", "10", 3)])
def test_without_a_win_the_old_leader_stays(world: World, tmp_path: Path, old: str, new: str, plays: int) -> None:
    first, judge = led(world, old), FakeJudge()
    world.send("bob", device=GPU, source=f"accept {new}".encode())

    with working(world, tmp_path, judge):
        wait_for(lambda: states(world) == [State.DONE])

    assert leads(world, first)
    assert len(judge.duels) == plays


def test_a_leader_that_its_rival_slowed_keeps_the_crown(world: World, tmp_path: Path) -> None:
    first, judge = led(world, "200", solo_us=190.0), FakeJudge()
    world.send("bob", device=GPU, source=b"accept 100")

    with working(world, tmp_path, judge):
        wait_for(lambda: states(world) == [State.DONE])

    assert leads(world, first) and len(judge.duels) == 3
    with world.database.read() as session:
        found = duels.view(session, 1).result
    assert found and found.void and "Entry b was 5.3% slower" in found.void


class SlowGpu(FakeJudge):
    """A runner that takes a tenth longer than the reference for everything; what its calls take by the source is its own µs."""

    gpu_uuid = "GPU-slow"

    def judge(self, job: Job, report: Report, cancelled: Callable[[], bool]) -> Verdict:
        return super().judge(job, report, cancelled).model_copy(update={"environment": {"gpu_uuid": self.gpu_uuid}})

    def duel(self, first: Job, second: Job, report: Report, cancelled: Callable[[], bool]) -> Duel:
        return super().duel(first, second, report, cancelled).model_copy(update={"environment": {"gpu_uuid": self.gpu_uuid}})


def compared(world: World) -> None:
    """The reference and the slow runner have judged on the board so often that they can be compared."""
    for gpu_uuid, baseline_us in (("GPU-1", 100.0), (SlowGpu.gpu_uuid, 110.0)):
        case = CaseResult(name="tiny", outcome=Outcome.ACCEPTED, time_us=900.0, baseline_us=baseline_us)
        for _ in range(factors.FEW):
            world.send("house", device=GPU, source=b"accept house")
            world.finish(world.take(GPU), score_us=900.0, score_ci_us=(900.0, 900.0), device=GPU, cases=[case],
                         environment={"gpu_uuid": gpu_uuid})


def test_a_verdict_is_signed_with_its_runners_factor_and_raw_times(world: World, tmp_path: Path) -> None:
    compared(world)
    number = world.send("bob", device=GPU, source=b"accept 100")

    with working(world, tmp_path, SlowGpu()):
        wait_for(lambda: world.view(number).state is State.DONE)

    with world.database.read() as session:
        signed = receipt_of(submissions.verdict_json(session, number) or {})
        rows = boards.board(session, world.problem.name, GPU).rows
    assert verify(load_key(Settings(data=tmp_path)).public, signed)
    assert (signed["environment"]["factor"], signed["score_us"]) == (pytest.approx(1 / 1.1, abs=1e-6), 10.0)
    assert rows[0].score_us == pytest.approx(10 / 1.1, rel=1e-6)


@pytest.mark.parametrize(("is_compared", "is_void"), [(True, False), (False, True)])
def test_a_slower_runner_is_not_taken_for_a_rival_that_meddles(world: World, tmp_path: Path, is_compared: bool, is_void: bool) -> None:
    first = led(world, "220", solo_us=200.0)
    if is_compared:
        compared(world)
    case = CaseResult(name="tiny", outcome=Outcome.ACCEPTED, time_us=102.0)
    faster = world.send("bob", device=GPU, source=b"accept 110")
    world.finish(world.take(GPU), score_us=102.0, score_ci_us=(102.0, 102.0), device=GPU, cases=[case])

    with working(world, tmp_path, SlowGpu()):
        wait_for(lambda: states(world)[-1] == State.DONE)

    assert leads(world, first if is_void else faster)


def test_a_worker_that_stops_gives_its_duel_back_and_the_next_one_plays_it(world: World, tmp_path: Path) -> None:
    first, judge = led(world, "200"), FakeJudge()
    world.send("bob", device=GPU, source=b"accept wait")
    with working(world, tmp_path, judge):
        wait_for(lambda: bool(judge.duels))
    assert states(world) == [State.QUEUED] and leads(world, first)

    again = FakeJudge()
    with working(world, tmp_path, again):
        wait_for(lambda: bool(again.duels))


def test_what_a_person_asks_for_is_played_when_nothing_else_waits(world: World, tmp_path: Path) -> None:
    first = led(world, "200")
    second = world.send("bob", device=GPU, source=b"accept 300")
    assert world.finish(world.take(GPU), score_us=300.0, score_ci_us=(300.0, 300.0), device=GPU)
    rung: list[str] = []
    ticket = intake.duel(world.database, Settings(data=tmp_path), world.person("bob"), second, first, rung.append)
    last = world.send("cyd", device=GPU, source=b"accept 400", mode=world.view(first).mode)

    judge = FakeJudge()
    with working(world, tmp_path, judge):
        wait_for(lambda: states(world)[0] == State.DONE)

    with world.database.read() as session:
        found = duels.view(session, ticket.duel).result
    assert found and (found.faster, found.ratio) == ("b", pytest.approx(1.5))
    assert rung == [GPU]
    assert judge.jobs[0].submission == last
