"""The worker: finds work with and without a bell, ends runs in every way, never twice."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from kernelderby.core.devices import CPU
from kernelderby.core.receipt import opens, receipt_of
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Outcome, State
from kernelderby.judge import runs as runs_module
from kernelderby.judge.contest_seeds import reveal, seeds_of
from kernelderby.judge.judging import Judge
from kernelderby.judge.queue import ring
from kernelderby.judge.receipts import load_key, verify
from kernelderby.judge.runs import Runs
from kernelderby.judge.seeds import run_seed, secret_of
from kernelderby.storage import claims, events, runners, signing_keys, submissions
from kernelderby.storage.database import Database, connect
from kernelderby.storage.models import Submission
from tests.judge.fake_judge import FakeJudge
from tests.judge.processes import Worker, broker, wait_for, worker
from tests.small_world import World


def is_done(world: World, submission: int) -> bool:
    return world.view(submission).state is State.DONE


def steps(world: World, submission: int) -> list[str]:
    with world.database.read() as session:
        found = events.after(session, submission, 0)
    assert [e.seq for e in found] == list(range(1, len(found) + 1))
    return [str(e.data["state"]) if e.kind == "state" else e.kind for e in found]


@contextmanager
def working(world: World, folder: Path, judge: FakeJudge | None = None) -> Iterator[Runs]:
    """A worker's judge thread in this process."""
    runs = Runs(Settings(data=folder), world.database, CPU)
    thread = threading.Thread(target=runs.work, args=[cast(Judge, judge or FakeJudge())], daemon=True)
    thread.start()
    try:
        yield runs
    finally:
        runs.stop()
        runs.interrupt()
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def world(database: Database, tmp_path: Path) -> World:
    return World.make(database, tmp_path)


@pytest.fixture
def small(sqlite_database: Database, tmp_path: Path) -> World:
    """For what has nothing to do with the engine."""
    return World.make(sqlite_database, tmp_path)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "PAUSE_S", 0.01)


def test_a_run_is_judged_from_claim_to_verdict(world: World, tmp_path: Path) -> None:
    submission, judge = world.send(source=b"accept"), FakeJudge()
    with working(world, tmp_path, judge):
        wait_for(lambda: is_done(world, submission))
    job = judge.jobs[0]
    assert (job.submission, job.attempt, job.source, job.problem.version) == (submission, 1, b"accept", world.problem.version)
    assert job.problem.folder.is_relative_to(tmp_path / "versions")
    assert job.seed == run_seed(secret_of(Settings(data=tmp_path)), submission, 1)
    assert steps(world, submission) == ["queued", "building", "running", "check", "done", "verdict"]
    verdict = world.view(submission).verdict
    assert verdict is not None and verdict.rank == (1, 1)
    assert verdict.stages_s["queue"] > 0 and verdict.stages_s["total"] > 0 and verdict.stages_s["box"] == 0.01
    assert judge.prepared == ["doubling"]


def test_a_verdict_is_signed_over_a_seed_that_was_committed_to_before(small: World, tmp_path: Path) -> None:
    submission, settings = small.send(source=b"accept"), Settings(data=tmp_path)
    with working(small, tmp_path):
        wait_for(lambda: is_done(small, submission))
    with small.database.read() as session:
        signed = receipt_of(submissions.verdict_json(session, submission) or {})
        running = next(e for e in events.after(session, submission, 0) if e.data.get("state") == State.RUNNING)
        known = signing_keys.listing(session)
    assert [key.public for key in known] == [load_key(settings).public]
    assert verify(known[0].public, signed)
    assert (signed["submission"], signed["attempt"], signed["score_us"]) == (submission, 1, 10.0)
    assert running.data["seed_commitment"] == signed["receipt"]["seed_commitment"]
    assert opens(running.data["seed_commitment"], load_key(settings).salt(submission, 1), run_seed(secret_of(settings), submission, 1))


def test_a_contests_run_draws_from_the_secret_that_the_contest_committed_to(small: World, tmp_path: Path) -> None:
    contest, settings, judge = small.contest().id, Settings(data=tmp_path), FakeJudge()
    submission = small.send(source=b"accept", contest=contest)
    with working(small, tmp_path, judge):
        wait_for(lambda: is_done(small, submission))
    with small.database.read() as session:
        signed = receipt_of(submissions.verdict_json(session, submission) or {})
    seeds = seeds_of(settings, contest)

    assert judge.jobs[0].seed == run_seed(seeds.secret, submission, 1) != run_seed(secret_of(settings), submission, 1)
    assert (signed["receipt"]["contest"], signed["receipt"]["contest_commitment"]) == (contest, seeds.commitment)
    assert seeds_of(settings, contest + 1).secret != seeds.secret
    told = reveal(settings, contest, submission, 1)
    assert bytes.fromhex(told["seed"]) == judge.jobs[0].seed
    assert opens(signed["receipt"]["seed_commitment"], bytes.fromhex(told["salt"]), bytes.fromhex(told["seed"]))
    assert opens(seeds.commitment, bytes.fromhex(told["contest_salt"]), bytes.fromhex(told["contest_secret"]))
    assert seeds.secret.hex() not in repr(seeds)


@pytest.mark.parametrize(("word", "outcome", "attempts"), [
    ("broken", Outcome.JUDGE_ERROR, 3), ("lost", Outcome.JUDGE_ERROR, 3), ("bug", Outcome.JUDGE_ERROR, 3),
    ("unable", Outcome.JUDGE_ERROR, 3), ("lost_box", Outcome.RUNTIME_ERROR, 2),
])
def test_a_run_that_fails_on_our_side_is_tried_again_then_ended(
    small: World, tmp_path: Path, word: str, outcome: Outcome, attempts: int
) -> None:
    broken, after = small.send(source=word.encode()), small.send("bob", source=b"accept")
    with working(small, tmp_path) as runs:
        wait_for(lambda: is_done(small, broken) and is_done(small, after))
        runs.wake()
    view = small.view(broken)
    assert (view.outcome, view.attempt) == (outcome, attempts)
    assert steps(small, broken).count("verdict") == 1
    assert small.view(after).outcome is Outcome.ACCEPTED


def test_a_running_submission_ends_when_it_is_cancelled(small: World, tmp_path: Path) -> None:
    submission = small.send(source=b"wait")
    with working(small, tmp_path):
        wait_for(lambda: small.view(submission).state is State.RUNNING)
        with small.database.begin() as session:
            submissions.cancel(session, submission)
        wait_for(lambda: is_done(small, submission), 5)
    assert small.view(submission).outcome is Outcome.CANCELLED


def test_a_fenced_out_worker_stops_and_its_verdict_counts_for_nothing(small: World, tmp_path: Path) -> None:
    submission = small.send(source=b"wait")
    with working(small, tmp_path):
        wait_for(lambda: small.view(submission).state is State.RUNNING)
        with small.database.begin() as session:   # as if its lease had run out and another had claimed the run
            claims.lose(session, submission, 1, False, "The runner was not heard from any more.")
            claim = claims.claim(session, "cpu", "another", 20, datetime.now(UTC))
        assert claim is not None and claim.attempt == 2
        time.sleep(1.5)
        assert small.finish(claim)
    assert steps(small, submission).count("verdict") == 1
    assert small.view(submission).outcome is Outcome.ACCEPTED


def test_a_long_run_keeps_its_lease(small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "LEASE_S", 0.5)
    monkeypatch.setattr("kernelderby.judge.lease.LEASE_S", 0.5)
    monkeypatch.setattr("kernelderby.judge.lease.RENEW_S", 0.1)
    monkeypatch.setattr("kernelderby.judge.lease.LOOK_S", 0.05)
    submission = small.send(source=b"wait")
    with working(small, tmp_path):
        wait_for(lambda: small.view(submission).state is State.RUNNING)
        for _ in range(30):
            time.sleep(0.05)
            with small.database.begin() as session:
                assert claims.expire(session, datetime.now(UTC)) == []


def test_a_bell_is_heard_at_once_and_without_a_broker_work_is_found_anyway(small: World, tmp_path: Path) -> None:
    with broker(tmp_path) as valkey, worker(tmp_path, "fake", broker_url=valkey.url) as process:
        bell = ring(Settings(broker_url=valkey.url))
        wait_for(lambda: _is_seen(small))
        time.sleep(0.5)   # it has looked once by itself
        started = time.monotonic()
        first = small.send(source=b"accept")
        bell("cpu")
        wait_for(lambda: is_done(small, first), 4.0, "a verdict after the bell")
        assert time.monotonic() - started < 4.0   # sooner than it would have looked

        valkey.kill()
        started = time.monotonic()
        bell("cpu")
        assert time.monotonic() - started < 3.0   # a door does not wait for a broker that is away
        second = small.send(source=b"accept")
        wait_for(lambda: is_done(small, second), 8.0, "a verdict without a broker")

        valkey.restart()
        assert process.terminate() == 0
    with small.database.read() as session:
        assert runners.alive(session, datetime.now(UTC)) == []


def test_a_runner_whose_device_is_not_as_it_was_keeps_its_verdict_claims_nothing_more_and_says_why(small: World, tmp_path: Path) -> None:
    with worker(tmp_path, "fake", "hasty") as process:
        sick = small.send(source=b"sick")
        wait_for(lambda: is_done(small, sick))
        after = small.send(source=b"accept")
        time.sleep(2.5)      # it would look every second
        assert process.process.poll() is None
        assert process.terminate() == 0
    assert small.view(sick).outcome is Outcome.ACCEPTED
    assert small.view(after).state is State.QUEUED


@pytest.mark.parametrize(("word", "outcome"), [("quick", Outcome.ACCEPTED), ("wait", None)])
def test_a_worker_told_to_stop_finishes_or_gives_back(small: World, tmp_path: Path, word: str, outcome: Outcome | None) -> None:
    with worker(tmp_path, "fake", "hasty") as process:
        submission = small.send(source=word.encode())
        wait_for(lambda: small.view(submission).state is State.RUNNING)
        assert process.terminate() == 0
    view = small.view(submission)
    assert view.outcome == outcome
    if outcome is None:
        assert (view.state, view.attempt) == (State.QUEUED, 1)
        with small.database.read() as session:
            assert session.get_one(Submission, submission).losses == 0


def test_a_worker_whose_judge_hangs_gives_its_run_back_and_ends(small: World, tmp_path: Path) -> None:
    with worker(tmp_path, "fake", "hasty") as process:
        submission = small.send(source=b"hang")
        wait_for(lambda: small.view(submission).state is State.RUNNING)
        assert process.terminate(30) == 0
    assert small.view(submission).state is State.QUEUED


def test_a_worker_starts_on_an_empty_folder_and_imports_no_torch(tmp_path: Path) -> None:
    with worker(tmp_path, "fake") as process:
        maps = Path(f"/proc/{process.process.pid}/maps").read_text()
        assert "libtorch" not in maps
        assert process.process.poll() is None
        database = connect(Settings(data=tmp_path).database)
        wait_for(lambda: _is_seen(World(database=database, artifacts=None, problem=None)))   # type: ignore[arg-type]
        database.close()
        assert process.terminate() == 0
    assert oct((tmp_path / "secret").stat().st_mode & 0o777) == oct(0o600)


def test_a_worker_without_a_sandbox_ends_and_says_so(small: World, tmp_path: Path) -> None:
    process = Worker(tmp_path, "fake", "unable")
    assert process.process.wait(60) != 0
    assert "No sandbox works on this machine" in process.log.read_text()


def test_the_secret_is_made_once_even_by_many(tmp_path: Path) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(secret_of(Settings(data=tmp_path / "new")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1
    assert len(found[0]) >= 32
    assert os.listdir(tmp_path / "new") == ["secret"]
    assert secret_of(Settings(data=tmp_path, secret="given")) == b"given"


def _is_seen(world: World) -> bool:
    with world.database.read() as session:
        return bool(runners.alive(session, datetime.now(UTC)))
