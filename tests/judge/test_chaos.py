"""kill -9 in the middle of runs, with real processes: one verdict for each acknowledged submission, no orphan, no lost row."""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from sqlalchemy import func, select

from kernelderby.core.settings import Settings
from kernelderby.core.submission import SubmitRequest
from kernelderby.core.verdict import Mode, Outcome, State
from kernelderby.judge import intake
from kernelderby.judge.queue import ring
from kernelderby.storage import events
from kernelderby.storage.database import Database, connect
from kernelderby.storage.models import Submission, Turn
from kernelderby.storage.submissions import SubmissionView
from tests.judge.processes import Worker, broker, command_line, gone, name_of, wait_for, worker
from tests.small_world import World

SLOW = b"""
import ctypes, time

def custom_kernel(data):
    ctypes.CDLL(None).prctl(15, b"slow-kernel")   # PR_SET_NAME: so that the test sees where it is
    time.sleep(3)
    data.y.copy_(data.x * 2)
"""
QUICK = b"def custom_kernel(data):\n    data.y.copy_(data.x * 2)\n"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def world(sqlite_database: Database, tmp_path: Path) -> World:
    return World.make(sqlite_database, tmp_path)


def wait_for_verdict(world: World, submission: int, timeout_s: float = 90) -> SubmissionView:
    wait_for(lambda: world.view(submission).state is State.DONE, timeout_s, f"the verdict of {submission}")
    return world.view(submission)


def assert_one_verdict_each(world: World, sent: list[int]) -> None:
    with world.database.read() as session:
        for submission in sent:
            found = events.after(session, submission, 0, limit=10_000)
            assert [e.seq for e in found] == list(range(1, len(found) + 1))
            assert [e.kind for e in found].count("verdict") == 1
        assert session.scalar(select(func.count()).select_from(Submission)) == len(sent)
        assert session.scalar(select(func.sum(Turn.queued))) == 0


def asleep_in_kernel(process: Worker) -> list[psutil.Process]:
    """The harness that is inside the slow kernel now."""
    return [p for p in process.family() if name_of(p) == "slow-kernel"]


def referees(process: Worker) -> list[psutil.Process]:
    return process.children("kernelderby.judge.referee")


def start_slow_run(world: World, process: Worker) -> int:
    """A submission that is asleep in its box."""
    submission = world.send(source=SLOW, mode=Mode.TEST)
    wait_for(lambda: bool(asleep_in_kernel(process)) and world.view(submission).state is State.RUNNING, 90, "the run")
    return submission


def freeze(box: psutil.Process) -> None:
    """As the referee does between calls, by whatever this machine has."""
    for line in Path(f"/proc/{box.pid}/cgroup").read_text().splitlines():
        _, controllers, group = line.split(":", 2)
        for control, word in ((f"freezer{group}/freezer.state", "FROZEN"), (f"{group.lstrip('/')}/cgroup.freeze", "1")):
            file = Path("/sys/fs/cgroup", control)
            if "derby-" in group and controllers in ("freezer", "") and file.exists():
                file.write_text(word)
                return
    box.suspend()


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        process.kill()


def test_a_killed_worker_leaves_nothing_behind_and_its_run_is_judged_again(world: World, tmp_path: Path) -> None:
    with worker(tmp_path, "hasty") as first:
        submission = start_slow_run(world, first)
        family = first.family()
        assert referees(first)
        first.kill()
        assert gone(family), [command_line(p) for p in family]
    with worker(tmp_path, "hasty") as second:
        view = wait_for_verdict(world, submission)
        assert (view.outcome, view.attempt) == (Outcome.ACCEPTED, 2)
        family = second.family()
        assert second.terminate() == 0
        assert gone(family), [command_line(p) for p in family]
    assert_one_verdict_each(world, [submission])


def test_a_worker_killed_while_its_boxes_are_frozen_is_cleared_away_by_the_next(world: World, tmp_path: Path) -> None:
    with worker(tmp_path, "hasty") as first:
        submission = start_slow_run(world, first)
        family = first.family()
        for box in asleep_in_kernel(first):
            freeze(box)
        first.kill()
    with worker(tmp_path, "hasty"):
        assert gone(family), [command_line(p) for p in family]
        assert wait_for_verdict(world, submission).outcome is Outcome.ACCEPTED
    assert_one_verdict_each(world, [submission])


def test_a_killed_referee_costs_an_attempt_and_twice_is_the_entrys_own(world: World, tmp_path: Path) -> None:
    with worker(tmp_path, "hasty") as process:
        once = start_slow_run(world, process)
        kill(referees(process))
        view = wait_for_verdict(world, once)
        assert (view.outcome, view.attempt) == (Outcome.ACCEPTED, 2)

        twice = start_slow_run(world, process)
        kill(referees(process))
        wait_for(lambda: world.view(twice).attempt == 2 and bool(asleep_in_kernel(process)), 90, "the second attempt")
        kill(referees(process))
        view = wait_for_verdict(world, twice)
        assert (view.outcome, view.attempt) == (Outcome.RUNTIME_ERROR, 2)
        family = process.family()
        process.terminate()
        assert gone(family), [command_line(p) for p in family]
    assert_one_verdict_each(world, [once, twice])


def test_a_killed_box_is_a_verdict_on_its_entry_and_the_next_run_has_another(world: World, tmp_path: Path) -> None:
    with worker(tmp_path, "hasty") as process:
        submission = start_slow_run(world, process)
        kill(asleep_in_kernel(process))
        view = wait_for_verdict(world, submission)
        assert view.outcome in (Outcome.RUNTIME_ERROR, Outcome.OUT_OF_MEMORY)
        after = world.send(source=QUICK, mode=Mode.TEST)
        assert wait_for_verdict(world, after).outcome is Outcome.ACCEPTED
    assert_one_verdict_each(world, [submission, after])


def test_a_killed_broker_is_not_noticed_by_anybody(world: World, tmp_path: Path) -> None:
    with broker(tmp_path) as valkey, worker(tmp_path, "hasty", broker_url=valkey.url):
        settings = Settings(data=tmp_path, broker_url=valkey.url)
        bell, person = ring(settings), world.person()
        send = _sender(world, settings, bell, person.id)
        running = send(SLOW)
        wait_for(lambda: world.view(running).state is State.RUNNING, 60)
        valkey.kill()
        during = send(QUICK)
        assert wait_for_verdict(world, running).outcome is Outcome.ACCEPTED
        assert wait_for_verdict(world, during).outcome is Outcome.ACCEPTED
        valkey.restart()
        after = send(QUICK)
        assert wait_for_verdict(world, after).outcome is Outcome.ACCEPTED
        assert {world.view(s).attempt for s in (running, during, after)} == {1}
    assert_one_verdict_each(world, [running, during, after])


def test_a_storm_of_kills_loses_nothing_and_judges_nothing_twice(database_url: str, tmp_path: Path) -> None:
    database = connect(database_url)
    world, chance, sent = World.make(database, tmp_path), random.Random(7), list[int]()
    people = [world.person(name).id for name in ("ada", "bob", "cyd")]
    with ExitStack() as stack:
        valkey = stack.enter_context(broker(tmp_path))
        settings = Settings(data=tmp_path, broker_url=valkey.url)
        bell = ring(settings)

        def start() -> Worker:
            return stack.enter_context(worker(tmp_path, "fake", "hasty", broker_url=valkey.url, database_url=database_url))

        workers = [start(), start()]
        for round_ in range(3):
            sent += [_sender(world, settings, bell, p)(b"quick %d" % chance.randrange(10**6)) for p in people for _ in range(2)]
            time.sleep(chance.uniform(0.2, 0.8))
            victim = workers.pop(chance.randrange(2))
            victim.kill()
            if round_ % 2:
                valkey.kill()
                valkey.restart()
            workers.append(start())
        for submission in sent:
            assert wait_for_verdict(world, submission, 60).outcome in (Outcome.ACCEPTED, Outcome.RUNTIME_ERROR)
    assert_one_verdict_each(world, sent)
    database.close()


def _sender(world: World, settings: Settings, bell: Callable[[str], None], person: int) -> Callable[[bytes], int]:
    """Sends through the one door, as a web process does."""
    def send(source: bytes) -> int:
        request = SubmitRequest(person_id=person, file_name="kernel.py", source=source, problem="doubling", mode=Mode.TEST)
        return intake.submit(world.database, world.artifacts, settings, request, bell).submission
    return send
