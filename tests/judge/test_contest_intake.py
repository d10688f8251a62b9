"""The one door, into a contest: its times, its problems, its versions, its quotas, also for requests at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.contest import ModeQuota
from kernelderby.core.errors import BoardClosed, DeadlinePassed, DuplicateKey, NotAllowed, NotFound, QuotaSpent, RequestError
from kernelderby.core.rules import Quota
from kernelderby.core.settings import Settings
from kernelderby.core.submission import SubmitRequest
from kernelderby.core.verdict import Mode
from kernelderby.judge import intake
from kernelderby.judge.intake import Ticket
from kernelderby.storage import contests, problems, registrations, submissions, teams
from kernelderby.storage.contests import ContestInfo
from kernelderby.storage.database import Database
from kernelderby.storage.models import Submission
from kernelderby.storage.quotas import Left
from tests.small_world import NOON, SOURCE, World, add_problem, small_problem

HOUR = timedelta(hours=1)


class Door:
    """A door, contests that go on now, and people in them."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.folder = folder
        self.world = World.make(database, folder)
        self.settings = Settings(data=folder)

    def hold(self, *names: str, name: str = "spring", starts: timedelta = -HOUR, ends: timedelta = HOUR, **rules: Any) -> ContestInfo:
        """A contest with those people in it; where teams compete, all in one."""
        now = datetime.now(UTC)
        contest = self.world.contest(name, starts_at=now + starts, ends_at=now + ends, **rules)
        people = [self.world.person(n) for n in names]
        with self.world.database.begin() as session:
            early = contests.by_id(session, contest.id, NOON)
            team = teams.create(session, "Warps", people[0], NOON).id if contest.rules.by_team else None
            for person in people[1:] if team else []:
                teams.join(session, teams.invite(session, int(team or 0), people[0], NOON).text, person, NOON)
            for person in people:
                registrations.register(session, early, person, team, None, None, NOON)
        return contest

    def submit(self, name: str = "ada", **changes: Any) -> Ticket:
        request = SubmitRequest(person_id=self.world.person(name).id, file_name="kernel.py", source=SOURCE, contest="spring")
        return intake.submit(self.world.database, self.world.artifacts, self.settings, replace(request, **changes), lambda _: None)


@pytest.fixture
def door(database: Database, tmp_path: Path) -> Door:
    return Door(database, tmp_path)


def at_once(count: int, send: Callable[[int], object]) -> int:
    """How many of so many requests at one moment are taken."""
    barrier = threading.Barrier(count)

    def race(number: int) -> bool:
        barrier.wait()
        try:
            send(number)
        except QuotaSpent:
            return False
        return True

    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(race, range(count)))


def test_an_entry_is_its_contests_and_its_teams(door: Door) -> None:
    contest = door.hold("ada", by_team=True, quotas={Mode.TEST: ModeQuota(runs=5, gpu_seconds=100.0)})
    ticket = door.submit()
    assert (ticket.problem, ticket.device, ticket.inferred) == ("doubling", "cpu", ["problem", "device"])
    assert ticket.left == Left(runs=4, gpu_seconds=40.0)           # 60 s are kept for it
    with door.world.database.read() as session:
        row = session.get_one(Submission, ticket.submission)
        team, = teams.of_person(session, door.world.person("ada").id)
    assert (row.contest, row.team) == (contest.id, team.id)


@pytest.mark.parametrize(("starts", "ends", "error", "says"), [
    (HOUR, 2 * HOUR, BoardClosed, "has not begun. It opens at"), (-2 * HOUR, -HOUR, DeadlinePassed, "takes nothing more. Practice"),
])
def test_a_contest_takes_entries_from_its_start_to_its_end(
    door: Door, starts: timedelta, ends: timedelta, error: type[RequestError], says: str
) -> None:
    door.hold("ada", starts=starts, ends=ends)
    with pytest.raises(error, match=says) as caught:
        door.submit(problem="nothing")
    assert "doubling" not in str(caught.value)


def test_what_the_contest_does_not_have_is_refused(door: Door) -> None:
    door.hold("ada")
    add_problem(door.world.database, door.world.artifacts, small_problem(door.folder, "tripling"))
    for wrong, error in (({"problem": "tripling"}, NotFound), ({"problem": "nothing\0"}, NotFound), ({"device": "h100"}, NotFound),
                         ({"contest": "autumn"}, NotFound), ({"contest": "\ud800\0"}, NotFound),
                         ({"source": b"#!POPCORN leaderboard tripling\n" + SOURCE}, NotFound)):
        with pytest.raises(error):
            door.submit(**wrong)
    with pytest.raises(NotAllowed, match="not registered"):
        door.submit("bob")
    door.world.person("olga", "organizer")
    with pytest.raises(NotAllowed, match="not registered"):
        door.submit("olga")


def test_a_contest_stays_with_its_version_and_needs_no_practice_board(door: Door) -> None:
    door.hold("ada")
    newer = add_problem(door.world.database, door.world.artifacts, small_problem(door.folder, n=16))
    with door.world.database.begin() as session:
        problems.set_open(session, "doubling", False)
    contested = door.submit(problem="doubling")
    with pytest.raises(BoardClosed):
        door.submit(contest=None, problem="doubling")
    with door.world.database.read() as session:
        assert submissions.view(session, contested.submission).version == door.world.problem.version != newer.version


def test_one_last_run_and_many_requests_of_a_team_at_once_take_one(door: Door) -> None:
    door.hold("ada", "bob", by_team=True, quotas={Mode.TEST: ModeQuota(runs=3)})
    door.submit("ada")
    door.submit("bob")
    assert at_once(6, lambda i: door.submit(("ada", "bob")[i % 2])) == 1


def test_one_last_run_and_many_requests_of_a_person_at_once_take_one(door: Door) -> None:
    door.hold("ada", quotas={Mode.TEST: ModeQuota(runs=1)})
    assert at_once(6, lambda i: door.submit(source=SOURCE + b"#" * i)) == 1


def test_a_cap_is_not_passed_by_many_people_at_once(door: Door) -> None:
    names = [f"racer {i}" for i in range(6)]
    door.hold(*names, gpu_seconds=100.0)
    assert at_once(6, lambda i: door.submit(names[i])) == 2          # 60 s are kept for each


def test_an_organizer_in_a_contest_has_its_quota_too(door: Door) -> None:
    door.world.person("olga", "organizer")
    door.hold("olga", quotas={Mode.TEST: ModeQuota(runs=1)})
    door.submit("olga")
    with pytest.raises(QuotaSpent):
        door.submit("olga")


def test_practice_takes_nothing_of_a_contest_nor_the_other_way_round(door: Door) -> None:
    door.hold("ada", quotas={Mode.TEST: ModeQuota(runs=2)})
    practice = door.submit(contest=None, problem="doubling")
    assert practice.left == Left(runs=Quota().an_hour[Mode.TEST] - 1, gpu_seconds=None)
    assert door.submit().left == Left(runs=1, gpu_seconds=None)
    again = door.submit(contest=None, problem="doubling")
    assert again.left == Left(runs=Quota().an_hour[Mode.TEST] - 2, gpu_seconds=None)


def test_a_key_is_for_one_contest(door: Door) -> None:
    door.hold("ada", quotas={Mode.TEST: ModeQuota(runs=1)})
    first = door.submit(idempotency_key="k1")
    assert door.submit(idempotency_key="k1").submission == first.submission      # though the quota is spent
    with pytest.raises(DuplicateKey):
        door.submit(idempotency_key="k1", contest=None, problem="doubling")


def test_a_merge_while_members_send_loses_no_entry(door: Door) -> None:
    contest = door.hold("ada", by_team=True)
    bob, ada, now = door.world.person("bob"), door.world.person("ada"), datetime.now(UTC)
    with door.world.database.begin() as session:
        other = teams.create(session, "Others", bob, now).id
        registrations.register(session, contests.get(session, "spring", now), bob, other, None, None, now)
        team = teams.of_person(session, ada.id)[0].id
        code = teams.merge_code(session, team, ada, now).text

    def act(number: int) -> object:
        if number:
            return door.submit("bob")
        with door.world.database.begin() as session:
            return teams.merge(session, other, code, bob, now)

    assert at_once(6, act) == 6
    with door.world.database.read() as session:
        assert {row.team for row in session.query(Submission).filter_by(contest=contest.id)} == {team}
