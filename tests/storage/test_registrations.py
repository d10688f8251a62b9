"""Places in contests: until the end, by invitation where it is closed, for one team, and with what a prize needs."""

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from kernelderby.core.errors import DeadlinePassed, NotAllowed, NotFound, RequestError
from kernelderby.storage import contests, registrations, teams
from kernelderby.storage.registrations import RegistrationInfo
from tests.small_world import NOON, World

BEFORE = NOON - timedelta(hours=1)
DURING = NOON + timedelta(hours=1)
AFTER = NOON + timedelta(hours=5)
CONTACT = {"name": "Ada L.", "email": "ada@example.org", "country": "UK"}


def register(
    world: World, name: str, contest: str = "spring", now: datetime = DURING, team: int | None = None,
    contact: Mapping[str, str] | None = None, code: str | None = None,
) -> RegistrationInfo:
    person = world.person(name)
    with world.database.begin() as session:
        return registrations.register(session, contests.get(session, contest, now), person, team, contact, code, now)


def withdraw(world: World, name: str, now: datetime = DURING) -> RegistrationInfo:
    person = world.person(name)
    with world.database.begin() as session:
        return registrations.withdraw(session, contests.get(session, "spring", now), person, now)


def place(world: World, name: str) -> RegistrationInfo | None:
    person = world.person(name)
    with world.database.read() as session:
        return registrations.registration(session, contests.get(session, "spring", NOON).id, person.id)


def codes(world: World, contest: str, count: int = 1) -> list[str]:
    boss = world.person("boss", "organizer")
    with world.database.begin() as session:
        return [c.text for c in registrations.invite(session, contests.get(session, contest, NOON), boss, count, NOON)]


def team(world: World, name: str, owner: str) -> int:
    person = world.person(owner)
    with world.database.begin() as session:
        return teams.create(session, name, person, NOON).id


def test_a_place_is_taken_before_and_during_a_contest_and_not_after(world: World) -> None:
    world.contest()
    for name, now in (("ada", BEFORE), ("bob", DURING)):
        register(world, name, now=now)
        assert place(world, name) is not None
    with pytest.raises(DeadlinePassed, match="2026-06-01 16:00"):
        register(world, "cyd", now=AFTER)
    with pytest.raises(DeadlinePassed):
        withdraw(world, "ada", AFTER)


def test_a_contact_is_kept_until_it_is_changed(world: World) -> None:
    world.contest()
    assert register(world, "ada", contact=CONTACT).contact == CONTACT
    assert register(world, "ada").contact == CONTACT
    assert register(world, "ada", contact={"name": "A\0\u202eda", "email": "", "more": "x"}).contact == {
        "name": "A\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}da"}


@pytest.mark.parametrize("email", ["ada", "@", "ada@", "@example.org", "a@b@c", "a b@c"])
def test_what_is_no_address_is_refused(world: World, email: str) -> None:
    world.contest()
    with pytest.raises(RequestError, match="no e-mail"):
        register(world, "ada", contact={"email": email})


def test_a_withdrawn_place_is_listed_and_can_be_taken_again(world: World) -> None:
    contest = world.contest()
    register(world, "ada", contact=CONTACT)
    withdraw(world, "ada")
    assert place(world, "ada") is None
    with pytest.raises(NotFound):
        withdraw(world, "ada")
    with world.database.read() as session:
        listed = registrations.listing(session, contest.id)
    assert [(r.person, r.contact, r.withdrawn_at) for r in listed] == [("ada", CONTACT, DURING)]
    assert register(world, "ada").withdrawn_at is None


def test_a_closed_contest_takes_a_code_of_its_own_once(world: World) -> None:
    world.contest(by_invitation=True)
    world.contest("other", by_invitation=True)
    with pytest.raises(NotAllowed, match="by invitation"):
        register(world, "ada")
    code, = codes(world, "other")
    with pytest.raises(RequestError, match="another contest"):
        register(world, "ada", code=code)
    register(world, "ada", "other", code=code)
    mine, = codes(world, "spring")
    register(world, "ada", code=mine)
    with pytest.raises(RequestError, match="was used already"):
        register(world, "bob", code=mine)
    withdraw(world, "ada")
    register(world, "ada")        # who was invited may come back


def test_one_code_and_many_at_once_let_one_in(world: World) -> None:
    contest = world.contest(by_invitation=True)
    (code,), people = codes(world, "spring"), [world.person(f"racer {i}").name for i in range(6)]
    barrier = threading.Barrier(6)

    def race(name: str) -> bool:
        barrier.wait()
        try:
            register(world, name, code=code)
        except RequestError:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(race, people)) == 1
    with world.database.read() as session:
        assert len(registrations.listing(session, contest.id)) == 1


def test_only_an_organizer_invites_and_only_where_it_is_needed(world: World) -> None:
    open_one, closed = world.contest(), world.contest("closed", by_invitation=True)
    boss = world.person("boss", "organizer")
    assert len(set(codes(world, "closed", 30))) == 30
    for person, contest, error in ((world.person("ada"), closed, NotAllowed), (replace(boss, scopes=("submit",)), closed, NotAllowed),
                                   (boss, open_one, RequestError)):
        with pytest.raises(error), world.database.begin() as session:
            registrations.invite(session, contest, person, 1, NOON)


def test_where_teams_compete_one_enters_for_a_team_one_is_in(world: World) -> None:
    world.contest(by_team=True)
    warps, others = team(world, "Warps", "ada"), team(world, "Others", "bob")
    with pytest.raises(RequestError, match="teams compete"):
        register(world, "ada")
    for wrong in (others, 999):
        with pytest.raises(NotFound):
            register(world, "ada", team=wrong)
    assert register(world, "ada", team=warps).team_name == "Warps"


def test_nobody_enters_for_a_second_team_once_they_sent_something(world: World) -> None:
    contest = world.contest(by_team=True)
    warps, second = team(world, "Warps", "ada"), team(world, "Second", "ada")
    register(world, "ada", team=warps)
    register(world, "ada", team=second)          # nothing was sent yet
    world.send("ada", contest=contest.id, team=second)
    with pytest.raises(RequestError, match="'Second'"):
        register(world, "ada", team=warps)
    withdraw(world, "ada")
    with pytest.raises(RequestError, match="'Second'"):
        register(world, "ada", team=warps)
    assert register(world, "ada", team=second).team == second


def test_an_agents_token_takes_no_place(world: World) -> None:
    contest, robot = world.contest(), replace(world.person("ada"), agent="robot")
    with pytest.raises(NotAllowed, match="agent"), world.database.begin() as session:
        registrations.register(session, contest, robot, None, None, None, NOON)
