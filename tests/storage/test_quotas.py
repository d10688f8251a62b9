"""A contest's quotas: what counts, for whom, and how much is kept for runs that wait."""

from datetime import timedelta
from typing import Any

import pytest

from kernelderby.core.contest import ModeQuota
from kernelderby.core.errors import NotAllowed, QuotaSpent
from kernelderby.core.verdict import Mode, Outcome
from kernelderby.storage import claims, quotas, registrations, submissions, teams
from kernelderby.storage.contests import ContestInfo
from kernelderby.storage.models import Submission
from kernelderby.storage.quotas import Left, Use
from tests.small_world import NOON, World

RANKED = {Mode.RANKED: ModeQuota(runs=3, gpu_seconds=100.0)}


def held(world: World, *names: str, **rules: Any) -> ContestInfo:
    """A contest with these people in it; where teams compete, all in one."""
    contest = world.contest(**{"quotas": RANKED, **rules})
    people = [world.person(name) for name in names]
    with world.database.begin() as session:
        team = teams.create(session, "Warps", people[0], NOON).id if contest.rules.by_team else None
        for person in people[1:] if team else []:
            teams.join(session, teams.invite(session, int(team or 0), people[0], NOON).text, person, NOON)
        for person in people:
            registrations.register(session, contest, person, team, None, None, NOON)
    return contest


def send(world: World, contest: ContestInfo, name: str = "ada", mode: Mode = Mode.RANKED, team: int | None = None, **more: Any) -> int:
    return world.send(name, mode, contest=contest.id, team=team, **more)


def run(world: World, seconds: float, outcome: Outcome = Outcome.ACCEPTED) -> None:
    """Judge the next one."""
    assert world.finish(world.take(), outcome=outcome, stages_s={"time": seconds, "build": 50.0, "queue": 7.0, "total": seconds})


def used(world: World, contest: ContestInfo, name: str = "ada", team: int | None = None, mode: Mode = Mode.RANKED) -> Use:
    with world.database.read() as session:
        return quotas.use(session, contest, world.person(name).id, team, mode)


def admit(world: World, contest: ContestInfo, name: str = "ada", mode: Mode = Mode.RANKED) -> int | None:
    person = world.person(name)
    with world.database.begin() as session:
        quotas.lock(session, contest.name, person.id)
        return quotas.admit(session, contest, person.id, mode)


def test_what_is_left_is_told_before_anything_is_sent(world: World) -> None:
    contest = held(world, "ada")
    with world.database.read() as session:
        assert quotas.left(session, contest, world.person("ada").id, None, Mode.RANKED) == Left(runs=3, gpu_seconds=100.0)
        assert quotas.left(session, contest, world.person("ada").id, None, Mode.TEST) == Left(runs=None, gpu_seconds=None)


def test_who_has_no_place_sends_nothing(world: World) -> None:
    contest = held(world, "ada")
    with pytest.raises(NotAllowed, match="derby contest register spring"):
        admit(world, contest, "bob")
    with world.database.begin() as session:
        registrations.withdraw(session, contest, world.person("ada"), NOON)
    with pytest.raises(NotAllowed):
        admit(world, contest)


def test_runs_that_wait_count_and_so_do_cancelled_ones(world: World) -> None:
    contest = held(world, "ada", quotas={Mode.RANKED: ModeQuota(runs=3)})
    send(world, contest)
    run(world, 1.0, Outcome.WRONG_VALUES)
    cancelled = send(world, contest)
    with world.database.begin() as session:
        submissions.cancel(session, cancelled)
    assert admit(world, contest) is None
    send(world, contest)
    with pytest.raises(QuotaSpent, match=r"All 3 ranked runs of yours .* 1 of them not judged yet.* does not come back") as caught:
        admit(world, contest)
    assert caught.value.retry_after_s is None


def test_what_is_not_a_contestants_own_costs_nothing(world: World) -> None:
    contest = held(world, "ada")
    send(world, contest)
    run(world, 30.0, Outcome.JUDGE_ERROR)                                 # our failure
    send(world, contest, mode=Mode.TEST)
    run(world, 30.0)                                                      # another mode
    world.send("ada")
    run(world, 30.0)                                                      # practice
    number = send(world, contest)
    lost = world.take()
    with world.database.begin() as session:
        claims.lose(session, lost.id, lost.attempt, False, "The runner went away.")
    run(world, 20.0)                                                      # once, though it took two attempts
    replay = send(world, contest)
    with world.database.begin() as session:
        session.get_one(Submission, replay).replays = number
    run(world, 30.0)                                                      # an organizers' run

    spent = used(world, contest)
    assert (spent.runs, spent.seconds, spent.waiting, spent.reserved) == (1, 20.0, 0, 0.0)


def test_being_judged_again_costs_nothing_more(world: World) -> None:
    contest = held(world, "ada")
    number = send(world, contest)
    run(world, 20.0)
    with world.database.begin() as session:
        submissions.rejudge(session, number)
    assert (used(world, contest).runs, used(world, contest).reserved) == (1, 0.0)
    run(world, 20.0)
    assert (used(world, contest).runs, used(world, contest).seconds) == (1, 20.0)


def test_a_teams_members_share_one_quota(world: World) -> None:
    contest = held(world, "ada", "bob", by_team=True)
    team = admit(world, contest)
    for name in ("ada", "bob", "ada"):
        send(world, contest, name, team=team)
    assert used(world, contest, "bob", team).runs == 3
    with pytest.raises(QuotaSpent, match="of the team 'Warps'"):
        admit(world, contest, "bob")


def test_persons_have_quotas_of_their_own(world: World) -> None:
    contest = held(world, "ada", "bob")
    for _ in range(3):
        send(world, contest)
        run(world, 1.0)
    with pytest.raises(QuotaSpent):
        admit(world, contest)
    assert admit(world, contest, "bob") is None


def test_seconds_are_kept_for_what_waits(world: World) -> None:
    contest = held(world, "ada", quotas={Mode.RANKED: ModeQuota(gpu_seconds=100.0)})
    send(world, contest)
    assert used(world, contest).reserved == quotas.UNKNOWN_S
    admit(world, contest)                                # one more may run over, but no third
    send(world, contest)
    with pytest.raises(QuotaSpent, match="2 runs that wait may need the rest") as caught:
        admit(world, contest)
    assert caught.value.retry_after_s == quotas.LATER_S
    run(world, 10.0)
    assert used(world, contest).reserved == 10.0         # as long as the longest so far
    assert used(world, contest).seconds_left == 80.0
    admit(world, contest)
    run(world, 95.0)
    with pytest.raises(QuotaSpent, match=r"spent: 105.0 of 100.0.*does not come back"):
        admit(world, contest)


@pytest.mark.parametrize(("longest", "kept"), [(0.01, quotas.LEAST_S), (40.0, 40.0), (3000.0, quotas.MOST_S)])
def test_what_is_kept_for_a_run_is_bounded(world: World, longest: float, kept: float) -> None:
    contest = held(world, "ada")
    send(world, contest)
    run(world, longest)
    send(world, contest)
    assert used(world, contest).reserved == kept


def test_the_contests_cap_is_everyones(world: World) -> None:
    contest = held(world, "ada", "bob", gpu_seconds=100.0, quotas={})
    send(world, contest, "ada", Mode.TEST)
    run(world, 50.0)
    send(world, contest, "bob")
    with pytest.raises(QuotaSpent, match="for everyone 50.0 are spent"):     # a ranked run may take 60 s: none has ended yet
        admit(world, contest, "ada")
    run(world, 30.0)
    with world.database.read() as session:
        assert quotas.left(session, contest, world.person("ada").id, None, Mode.RANKED) == Left(runs=None, gpu_seconds=20.0)
    admit(world, contest, "ada")
    send(world, contest, "ada")
    run(world, 30.0)
    with pytest.raises(QuotaSpent, match="has spent the 100.0 GPU-seconds it has for everyone"):
        admit(world, contest, "bob", Mode.TEST)


def test_a_merge_brings_both_teams_use_together(world: World) -> None:
    contest = held(world, "ada", by_team=True)
    ada, bob = world.person("ada"), world.person("bob")
    with world.database.begin() as session:
        other = teams.create(session, "Others", bob, NOON).id
        registrations.register(session, contest, bob, other, None, None, NOON)
    team = admit(world, contest)
    for name, whose in (("ada", team), ("bob", other), ("bob", other)):
        send(world, contest, name, team=whose)
    now = NOON + timedelta(hours=1)
    with world.database.begin() as session:
        code = teams.merge_code(session, int(team or 0), ada, now).text
        teams.merge(session, other, code, bob, now)
    with pytest.raises(QuotaSpent, match="All 3"):
        admit(world, contest, "bob")
