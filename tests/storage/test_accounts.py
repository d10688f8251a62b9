"""Roles, bans, logins and leaving, on both engines."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kernelderby.core.errors import Banned, NotAllowed, NotFound, RequestError
from kernelderby.core.verdict import Flag, State
from kernelderby.storage import accounts, boards, exports, identities, people, teams
from kernelderby.storage.identities import Account
from tests.small_world import SOURCE, World

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def leaders(world: World) -> list[str]:
    with world.database.read() as session:
        return [row.person for row in boards.board(session, "doubling", "cpu").rows]


def leader(world: World) -> int | None:
    with world.database.read() as session:
        return boards.board(session, "doubling", "cpu").leader


def ban(world: World, name: str, reason: str = "Forged a clock.") -> None:
    with world.database.begin() as session:
        accounts.ban(session, world.person("boss", "organizer"), name, reason, NOW)


def unban(world: World, name: str) -> None:
    with world.database.begin() as session:
        accounts.unban(session, world.person("boss", "organizer"), name)


def test_a_ban_takes_entries_off_the_board_and_its_end_brings_them_back(world: World) -> None:
    best, second = world.judged("ada", 10.0), world.judged("grace", 20.0)
    world.person("boss", "organizer")
    ban(world, "ada")
    assert (leaders(world), leader(world)) == (["grace"], second)
    unban(world, "ada")
    assert (leaders(world), leader(world)) == (["ada", "grace"], best)


def test_what_never_ranks_does_not_rank_after_a_ban_either(world: World) -> None:
    world.judged("ada", 10.0, flags=[Flag.LIBRARY])
    world.person("boss", "organizer")
    ban(world, "ada")
    unban(world, "ada")
    assert leaders(world) == []


def test_a_ban_cancels_what_waits_and_what_runs_does_not_rank(world: World) -> None:
    running = world.send("ada")
    claim = world.take()
    waiting = world.send("ada")
    world.person("boss", "organizer")
    ban(world, "ada")
    assert (world.view(waiting).state, world.view(running).cancel_requested) == (State.DONE, True)
    assert world.finish(claim, score_us=5.0, score_ci_us=(5.0, 5.0))
    assert leaders(world) == []
    assert world.claim() is None


def test_a_ban_shuts_every_door_until_it_is_lifted(world: World) -> None:
    ada = world.person("ada")
    with world.database.begin() as session:
        token, cookie, code = (people.new_token(session, ada.id, "laptop"), people.open_login(session, ada.id),
                               people.new_login_code(session, ada.id))
        link = identities.new_link_code(session, ada.id, NOW).code
    world.person("boss", "organizer")
    ban(world, "ada")
    for door in (lambda s: people.by_token(s, token), lambda s: people.by_cookie(s, cookie), lambda s: people.redeem_code(s, code),
                 lambda s: identities.redeem_link(s, link, "discord", "7", "ada", NOW)):
        with pytest.raises(Banned, match="Forged a clock"), world.database.begin() as session:
            door(session)
    unban(world, "ada")
    with world.database.read() as session:
        assert people.by_token(session, token) is not None
        assert people.by_cookie(session, cookie) is not None


@pytest.mark.parametrize(("by", "whom", "reason", "error"), [
    ("contestant", "ada", "x", NotAllowed), ("organizer", "judge", "x", NotAllowed), ("organizer", "boss", "x", NotAllowed),
    ("organizer", "nobody-such", "x", NotFound), ("organizer", "9" * 30, "x", NotFound), ("organizer", "9" * 18, "x", NotFound),
    ("organizer", "ada", " \n", RequestError)])
def test_who_may_ban_whom(world: World, by: str, whom: str, reason: str, error: type[Exception]) -> None:
    world.person("ada")
    world.person("judge", "organizer")
    boss = world.person("boss", by)
    with pytest.raises(error), world.database.begin() as session:
        accounts.ban(session, boss, whom, reason, NOW)


def test_an_admin_bans_organizers_and_gives_roles_but_not_to_themself(world: World) -> None:
    root, judge = world.person("root", "admin"), world.person("judge", "organizer")
    with world.database.begin() as session:
        assert accounts.ban(session, root, str(judge.id), "x", NOW).banned_at == NOW
        assert accounts.set_role(session, root, "judge", "contestant").role == "contestant"
    for by, whom in ((root, "root"), (replace(judge, role="organizer"), "root"), (replace(root, scopes=("read",)), "judge")):
        with pytest.raises(NotAllowed), world.database.begin() as session:
            accounts.set_role(session, by, whom, "organizer")


def test_who_leaves_is_forgotten_and_their_entries_stay_without_a_name(world: World) -> None:
    entry, ada = world.judged("ada", 10.0), world.person("ada")
    waiting = world.send("ada")
    with world.database.begin() as session:
        token = people.new_token(session, ada.id, "laptop")
        cookie = people.open_login(session, ada.id)
        identities.link(session, ada.id, Account(provider="github", subject="7", name="ada"), NOW)
        teams.create(session, "the adas", ada, NOW)
        with pytest.raises(RequestError, match="confirmation"):
            accounts.leave(session, ada, "grace", NOW)
        assert accounts.leave(session, ada, "ada", NOW) == [world.view(entry).source_sha]
    assert leaders(world) == [f"deleted-{ada.id}"]
    assert world.view(waiting).state == State.DONE
    with world.database.read() as session:
        assert people.by_token(session, token) is None
        assert people.by_cookie(session, cookie) is None
        assert people.by_name(session, "ada") is None
        assert identities.of_person(session, ada.id) == []
        assert teams.of_person(session, ada.id) == []
    with world.database.begin() as session:      # the account elsewhere is someone new now
        again = identities.log_in(session, Account(provider="github", subject="7", name="ada"), NOW)
    assert again.id != ada.id


def test_a_source_is_dropped_only_where_nobody_else_sent_it(world: World) -> None:
    own, shared = b"# mine alone\n" + SOURCE, SOURCE
    for name, source in (("ada", own), ("ada", shared), ("grace", shared)):
        world.send(name, source=source)
    with world.database.begin() as session:
        sent = accounts.leave(session, world.person("ada"), "ada", NOW)
        assert accounts.orphans(session, sent) == [world.artifacts.put(own)]
    world.artifacts.drop(world.artifacts.put(own))
    with pytest.raises(NotFound):
        world.artifacts.get(world.artifacts.put(shared)[:-1] + "0")


def test_who_organizes_gives_the_role_back_before_they_leave(world: World) -> None:
    boss = world.person("boss", "organizer")
    with pytest.raises(NotAllowed, match="take that role back"), world.database.begin() as session:
        accounts.leave(session, boss, "boss", NOW)


def test_logins_are_listed_and_ended_by_their_owner_alone(world: World) -> None:
    ada, grace = world.person("ada"), world.person("grace")
    with world.database.begin() as session:
        cookies = [people.open_login(session, ada.id) for _ in range(3)]
        here = people.by_cookie(session, cookies[0])
        assert here is not None
        now = datetime.now(UTC)
        listed = accounts.logins_of(session, here, now)
        assert [login.is_this for login in listed] == [False, False, True]
        with pytest.raises(NotFound):
            accounts.end_login(session, grace, listed[0].id, now)
        accounts.end_login(session, here, listed[0].id, now)
        assert people.by_cookie(session, cookies[2]) is None
        assert accounts.end_other_logins(session, here, now) == 1
        assert [people.by_cookie(session, c) is not None for c in cookies] == [True, False, False]
        assert accounts.logins_of(session, here, now + timedelta(days=31)) == []


def test_a_link_code_links_once_within_fifteen_minutes_and_the_newest_counts(world: World) -> None:
    ada = world.person("ada")
    with world.database.begin() as session:
        old = identities.new_link_code(session, ada.id, NOW).code
        code = identities.new_link_code(session, ada.id, NOW).code
    for bad, at in ((old, NOW), ("nonsense", NOW), (code, NOW + timedelta(minutes=16))):
        with pytest.raises(RequestError, match="not known, was used already, or is older"), world.database.begin() as session:
            identities.redeem_link(session, bad, "discord", "7", "ada#1", at)
    with world.database.begin() as session:
        assert identities.redeem_link(session, f" {code}\n", "discord", "7", "ada#1", NOW + timedelta(minutes=5)).id == ada.id
    with pytest.raises(RequestError, match="used already"), world.database.begin() as session:
        identities.redeem_link(session, code, "discord", "8", "other", NOW)
    with world.database.begin() as session:
        assert identities.log_in(session, Account(provider="discord", subject="7", name="ada#1"), NOW).id == ada.id


def test_a_code_given_with_someone_elses_account_is_not_spent(world: World) -> None:
    ada, grace = world.person("ada"), world.person("grace")
    with world.database.begin() as session:
        identities.link(session, grace.id, Account(provider="discord", subject="7", name="grace"), NOW)
        code = identities.new_link_code(session, ada.id, NOW).code
    with pytest.raises(RequestError, match="another person"), world.database.begin() as session:
        identities.redeem_link(session, code, "discord", "7", "grace", NOW)
    with world.database.begin() as session:
        assert identities.redeem_link(session, code, "discord", "8", "ada", NOW).id == ada.id


def test_the_last_way_in_stays(world: World) -> None:
    ada = world.person("ada")
    with world.database.begin() as session:
        only = identities.link(session, ada.id, Account(provider="github", subject="7", name="ada"), NOW)
        with pytest.raises(RequestError, match="Nothing else would let you in"):
            identities.unlink(session, ada.id, only.id)
        people.new_token(session, ada.id, "laptop")
        assert identities.unlink(session, ada.id, only.id).name == "ada"
        with pytest.raises(NotFound):
            identities.unlink(session, ada.id, only.id)


def test_an_export_holds_everything_of_one_person_and_no_secret(world: World) -> None:
    entry, ada = world.judged("ada", 10.0), world.person("ada")
    with world.database.begin() as session:
        token, cookie = people.new_token(session, ada.id, "laptop"), people.open_login(session, ada.id)
        identities.link(session, ada.id, Account(provider="github", subject="7", name="ada"), NOW)
        teams.create(session, "the adas", ada, NOW)
    with world.database.read() as session:
        told = exports.account(session, ada.id)
        views = exports.submission_pages(session, ada.id, None)
    assert set(told) == {"person", "identities", "tokens", "sessions", "teams", "registrations", "notices", "appeals", "actions"}
    assert [told[part][0][key] for part, key in (("identities", "name"), ("tokens", "name"), ("teams", "team"))] == [
        "ada", "laptop", "the adas"]
    assert [view.id for view in views] == [entry]
    assert exports.submission(views[0], "text")["source"] == "text"
    for secret in (token, cookie, people.hashed(token), people.hashed(cookie)):
        assert secret not in str(told)


@pytest.mark.parametrize("name", ["12", "me", "deleted-7"])
def test_nobody_is_made_under_a_name_that_means_something_else(world: World, name: str) -> None:
    with pytest.raises(RequestError, match="could be taken for"), world.database.begin() as session:
        people.create(session, name)
