"""Teams: a code lets one person in, an owner's place passes on, and two teams become one before a freeze and not after."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from kernelderby.core.errors import NotAllowed, NotFound, RequestError
from kernelderby.storage import contests, registrations, teams
from kernelderby.storage.models import Submission
from kernelderby.storage.teams import TeamInfo
from tests.small_world import NOON, World

DURING = NOON + timedelta(hours=1)
FREEZE = NOON + timedelta(hours=2)
AFTER = NOON + timedelta(hours=5)


def make(world: World, name: str, owner: str, *others: str) -> TeamInfo:
    """A team of the owner and others."""
    person = world.person(owner)
    with world.database.begin() as session:
        team = teams.create(session, name, person, NOON)
    for other in others:
        join(world, code_of(world, team.id, owner), other)
    return get(world, team.id)


def get(world: World, team: int) -> TeamInfo:
    with world.database.read() as session:
        return teams.get(session, team)


def code_of(world: World, team: int, owner: str, now: datetime = NOON) -> str:
    person = world.person(owner)
    with world.database.begin() as session:
        return teams.invite(session, team, person, now).text


def join(world: World, code: str, name: str, now: datetime = NOON) -> TeamInfo:
    person = world.person(name)
    with world.database.begin() as session:
        return teams.join(session, code, person, now)


def leave(world: World, team: int, name: str, now: datetime = NOON) -> TeamInfo:
    person = world.person(name)
    with world.database.begin() as session:
        return teams.leave(session, team, person, now)


def merge(world: World, mine: int, owner: str, into: int, other: str, now: datetime = DURING) -> TeamInfo:
    """`mine` becomes a part of `into`."""
    maker, redeemer = world.person(other), world.person(owner)
    with world.database.begin() as session:
        code = teams.merge_code(session, into, maker, now).text
    with world.database.begin() as session:
        return teams.merge(session, mine, code, redeemer, now)


def names(team: TeamInfo) -> list[str]:
    return [name for _, name in team.members]


def enter(world: World, contest: str, name: str, team: int | None, now: datetime = NOON) -> None:
    person = world.person(name)
    with world.database.begin() as session:
        registrations.register(session, contests.get(session, contest, now), person, team, None, None, now)


def place(world: World, contest: str, name: str) -> Any:
    with world.database.read() as session:
        return registrations.registration(session, contests.get(session, contest, NOON).id, world.person(name).id)


def test_whoever_makes_a_team_owns_it(world: World) -> None:
    team = make(world, " Warp \n Speed ", "ada")
    assert (team.name, team.owner, names(team)) == ("Warp Speed", "ada", ["ada"])


@pytest.mark.parametrize("name", ["", "   ", "12", "\u202e", "warp speed", "Warp Speed"])
def test_a_name_that_is_none_or_taken_is_refused(world: World, name: str) -> None:
    make(world, "Warp Speed", "ada")
    with pytest.raises(RequestError):
        make(world, name, "bob")


def test_a_code_lets_one_person_in_for_seven_days(world: World) -> None:
    team = make(world, "Warps", "ada")
    code, late = code_of(world, team.id, "ada"), code_of(world, team.id, "ada")
    assert names(join(world, code, "bob")) == ["ada", "bob"]
    with pytest.raises(RequestError, match="was used already"):
        join(world, code, "cyd")
    with pytest.raises(RequestError, match="older than 7 days"):
        join(world, late, "cyd", NOON + timedelta(days=7))


def test_one_code_and_many_at_once_let_one_in(world: World) -> None:
    team = make(world, "Warps", "ada")
    code, people = code_of(world, team.id, "ada"), [world.person(f"racer {i}").name for i in range(6)]
    barrier = threading.Barrier(6)

    def race(name: str) -> bool:
        barrier.wait()
        try:
            join(world, code, name)
        except RequestError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(race, people)) == 1
    assert len(get(world, team.id).members) == 2


def test_one_name_and_many_at_once_make_one_team(world: World) -> None:
    people = [world.person(f"namer {i}").name for i in range(6)]
    barrier = threading.Barrier(6)

    def race(name: str) -> bool:
        barrier.wait()
        try:
            make(world, "Warps", name)
        except RequestError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(race, people)) == 1


def test_who_is_in_already_leaves_the_code_unused(world: World) -> None:
    team = make(world, "Warps", "ada", "bob")
    code = code_of(world, team.id, "ada")
    with pytest.raises(RequestError, match="already"):
        join(world, code, "bob")
    assert names(join(world, code, "cyd")) == ["ada", "bob", "cyd"]


def test_only_the_owner_invites_and_merges(world: World) -> None:
    team = make(world, "Warps", "ada", "bob")
    for name in ("bob", "eve"):
        with pytest.raises(NotAllowed), world.database.begin() as session:
            teams.invite(session, team.id, world.person(name), NOON)
        with pytest.raises(NotAllowed), world.database.begin() as session:
            teams.merge_code(session, team.id, world.person(name), NOON)


def test_the_owners_place_goes_to_who_is_in_it_longest(world: World) -> None:
    team = make(world, "Warps", "ada", "bob", "cyd")
    old = code_of(world, team.id, "ada")
    assert leave(world, team.id, "ada").owner == "bob"
    with pytest.raises(RequestError, match="Ask its owner"):
        join(world, old, "dan")
    assert leave(world, team.id, "bob").owner == "cyd"
    left = leave(world, team.id, "cyd")
    assert (left.owner, left.members) == (None, ())
    with pytest.raises(NotFound):
        leave(world, team.id, "cyd")
    with pytest.raises(NotAllowed):
        code_of(world, team.id, "cyd")


def test_who_left_may_come_back(world: World) -> None:
    team = make(world, "Warps", "ada", "bob")
    leave(world, team.id, "bob")
    assert names(join(world, code_of(world, team.id, "ada"), "bob")) == ["ada", "bob"]


def test_an_agents_token_is_in_no_team(world: World) -> None:
    robot = replace(world.person("ada"), agent="robot")
    with pytest.raises(NotAllowed, match="agent"), world.database.begin() as session:
        teams.create(session, "Robots", robot, NOON)


def test_leaving_ends_the_places_taken_for_the_team(world: World) -> None:
    team = make(world, "Warps", "ada", "bob")
    world.contest("by_team", by_team=True)
    world.contest("by_person")
    for contest in ("by_team", "by_person"):
        enter(world, contest, "bob", team.id)
    leave(world, team.id, "bob", DURING)

    assert place(world, "by_team", "bob") is None
    assert place(world, "by_person", "bob").team is None


def test_merged_teams_are_one_with_their_places_and_entries(world: World) -> None:
    first, second = make(world, "Firsts", "ada", "bob"), make(world, "Seconds", "cyd", "dan", "bob")
    contest = world.contest(by_team=True, freezes_at=FREEZE)
    for name, team in (("ada", first), ("cyd", second)):
        enter(world, "spring", name, team.id)
    sent = world.send("cyd", contest=contest.id, team=second.id)
    practice = world.send("cyd")

    merged = merge(world, second.id, "cyd", first.id, "ada")

    assert (names(merged), merged.owner) == (["ada", "bob", "cyd", "dan"], "ada")
    assert (get(world, second.id).members, get(world, second.id).merged_into) == ((), first.id)
    assert place(world, "spring", "cyd").team == first.id
    with world.database.read() as session:
        assert {r.id: r.team for r in session.scalars(select(Submission))} == {sent: first.id, practice: None}


@pytest.mark.parametrize("registered", ["mine", "into"])
def test_no_team_merges_between_freeze_and_reveal_of_a_contest_of_either(world: World, registered: str) -> None:
    mine, into = make(world, "Firsts", "ada"), make(world, "Seconds", "cyd")
    contest = world.contest(by_team=True, freezes_at=FREEZE)
    enter(world, "spring", *(("ada", mine.id) if registered == "mine" else ("cyd", into.id)))
    sent = world.send("ada", contest=contest.id, team=mine.id)
    world.finish(world.take())
    for now in (FREEZE, AFTER):
        with pytest.raises(RequestError, match="spring"):
            merge(world, mine.id, "ada", into.id, "cyd", now)
    with world.database.begin() as session:
        contests.reveal(session, contest.id, AFTER)

    assert names(merge(world, mine.id, "ada", into.id, "cyd", AFTER)) == ["cyd", "ada"]
    with world.database.read() as session:
        assert session.get_one(Submission, sent).team == mine.id, "what is revealed stays as it was"


def test_a_code_made_before_the_freeze_merges_nothing_after_it(world: World) -> None:
    mine, into = make(world, "Firsts", "ada"), make(world, "Seconds", "cyd")
    world.contest(by_team=True, freezes_at=FREEZE)
    enter(world, "spring", "ada", mine.id)
    with world.database.begin() as session:
        code = teams.merge_code(session, into.id, world.person("cyd"), DURING).text
    with pytest.raises(RequestError, match="frozen"), world.database.begin() as session:
        teams.merge(session, mine.id, code, world.person("ada"), FREEZE)


def test_a_code_opens_what_it_is_for_and_nothing_else(world: World) -> None:
    mine, into = make(world, "Firsts", "ada"), make(world, "Seconds", "cyd")
    for_one = code_of(world, into.id, "cyd")
    with world.database.begin() as session:
        for_all = teams.merge_code(session, into.id, world.person("cyd"), NOON).text
    with pytest.raises(RequestError, match="derby team join"), world.database.begin() as session:
        teams.merge(session, mine.id, for_one, world.person("ada"), NOON)
    with pytest.raises(RequestError, match="derby team merge"):
        join(world, for_all, "eve")
    for forged in (for_all.replace("merge_", "team_"), "team_", "nonsense", "\ud800"):
        with pytest.raises(RequestError):
            join(world, forged, "eve")
    with pytest.raises(RequestError, match="same team"), world.database.begin() as session:
        teams.merge(session, into.id, for_all, world.person("cyd"), NOON)


def test_two_merges_at_once_end_as_one_team(world: World) -> None:
    first, second = make(world, "Firsts", "ada"), make(world, "Seconds", "cyd")
    ada, cyd = world.person("ada"), world.person("cyd")
    with world.database.begin() as session:
        to_first, to_second = (teams.merge_code(session, t.id, p, NOON).text for t, p in ((first, ada), (second, cyd)))
    barrier = threading.Barrier(2)

    def race(person: Any, mine: int, code: str) -> bool:
        barrier.wait()
        try:
            with world.database.begin() as session:
                teams.merge(session, mine, code, person, NOON)
        except RequestError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(race, ada, first.id, to_second), pool.submit(race, cyd, second.id, to_first)]
        assert sorted(d.result() for d in done) == [False, True]


def test_a_full_team_takes_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teams, "MOST_MEMBERS", 2)
    team = make(world, "Warps", "ada")
    first, second = code_of(world, team.id, "ada"), code_of(world, team.id, "ada")
    join(world, first, "bob")
    with pytest.raises(RequestError, match="at most 2"):
        join(world, second, "cyd")
    with pytest.raises(RequestError, match="at most 2"):
        merge(world, make(world, "Others", "eve").id, "eve", team.id, "ada")
