"""Contests: their rules, their life by the clock, and what is hidden when."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from kernelderby.core.contest import ContestRules, ModeQuota, Stage
from kernelderby.core.errors import NotFound, RequestError
from kernelderby.core.verdict import Mode
from kernelderby.storage import boards, contests, people, problems, submissions, teams, visibility
from kernelderby.storage.contest_models import Member
from kernelderby.storage.contests import ContestInfo
from kernelderby.storage.models import Submission
from kernelderby.storage.people import NewToken, PersonInfo
from kernelderby.storage.submissions import NewSubmission
from tests.small_world import NOON, SOURCE, World, add_problem, small_problem

HOUR = timedelta(hours=1)
FREEZE = NOON + 3 * HOUR
END = NOON + 4 * HOUR


@pytest.mark.parametrize(("at", "stage"), [
    (NOON - timedelta(seconds=1), Stage.COMING), (NOON, Stage.OPEN), (FREEZE - timedelta(seconds=1), Stage.OPEN), (FREEZE, Stage.FROZEN),
    (END - timedelta(seconds=1), Stage.FROZEN), (END, Stage.ENDED)])
def test_its_stage_follows_from_the_clock(world: World, at: datetime, stage: Stage) -> None:
    made = world.contest(freezes_at=FREEZE)

    assert at_time(world, made, at).stage is stage


def test_it_is_kept_as_it_was_made(world: World) -> None:
    quotas = {Mode.RANKED: ModeQuota(runs=5, gpu_seconds=60.0), Mode.TEST: ModeQuota()}
    rules = ContestRules(title="Autumn", starts_at=NOON, ends_at=END, freezes_at=FREEZE, by_team=True, by_invitation=True, sources="public",
                         quotas=quotas, gpu_seconds=1000.0, finalists=3, final_runs=7)
    boss = world.person("boss", "organizer")
    with world.database.begin() as session:
        contests.create(session, "autumn", rules, boss.id, NOON - HOUR)

    with world.database.read() as session:
        found = contests.get(session, "autumn", NOON - HOUR)
    assert found.rules == rules
    assert found.made_by == boss.id


@pytest.mark.parametrize("rules", [
    {"ends_at": NOON}, {"freezes_at": END + HOUR}, {"freezes_at": NOON - HOUR}, {"title": " "}, {"sources": "press"}, {"finalists": 1},
    {"final_runs": 0}, {"starts_at": NOON - 9 * HOUR, "ends_at": NOON - timedelta(days=2)}], ids=str)
def test_rules_that_contradict_each_other_are_told(world: World, rules: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match=r"\.$"):
        world.contest(**rules)


@pytest.mark.parametrize("name", ["Spring", "s", "with space", "a/b", "ä1", "x" * 65])
def test_a_name_is_one_that_fits_into_an_address(world: World, name: str) -> None:
    with pytest.raises(RequestError, match="lower-case"):
        world.contest(name)


def test_a_name_is_taken_once(world: World) -> None:
    world.contest()
    with pytest.raises(RequestError, match="already"):
        world.contest()


def test_one_that_is_not_there_is_not_found(world: World) -> None:
    with world.database.read() as session:
        for look in (lambda: contests.get(session, "winter", NOON), lambda: contests.by_id(session, 99, NOON)):
            with pytest.raises(NotFound):
                look()


def test_before_the_start_everything_may_change(world: World) -> None:
    made = world.contest()
    other = ContestRules(title="Other", starts_at=NOON + HOUR, ends_at=NOON + 2 * HOUR, by_team=True)

    assert change(world, made, other, NOON - HOUR).rules == other


@pytest.mark.parametrize(("said", "at", "is_taken"), [
    ({"ends_at": END + HOUR}, NOON + HOUR, True), ({"ends_at": END - HOUR}, NOON + HOUR, False), ({"ends_at": END + HOUR}, END, False),
    ({"freezes_at": FREEZE + timedelta(minutes=5)}, NOON + HOUR, True), ({"freezes_at": FREEZE - HOUR}, NOON + HOUR, False),
    ({"freezes_at": FREEZE + timedelta(minutes=5)}, FREEZE, False), ({"freezes_at": None}, NOON + HOUR, False),
    ({"title": "Another"}, NOON, False), ({"starts_at": NOON + HOUR}, NOON, False), ({"sources": "public"}, END, False),
    ({"by_team": True}, NOON, False), ({"freezes_at": NOON + HOUR}, NOON + HOUR, True)], ids=str)
def test_after_the_start_only_freeze_and_end_move_and_only_later(world: World, said: dict[str, Any], at: datetime, is_taken: bool) -> None:
    made = world.contest(freezes_at=FREEZE)
    rules = ContestRules(**{**vars(made.rules), **said})
    if is_taken:
        assert change(world, made, rules, at).rules == rules
        return
    with pytest.raises(RequestError):
        change(world, made, rules, at)
    assert at_time(world, made, at).rules == made.rules


def test_it_freezes_and_ends_when_an_organizer_says_so(world: World) -> None:
    made = world.contest()
    with world.database.begin() as session:
        frozen = contests.freeze(session, made.id, NOON + HOUR)
    assert (frozen.stage, frozen.rules.freezes_at, frozen.shown_until) == (Stage.FROZEN, NOON + HOUR, NOON + HOUR)
    with world.database.begin() as session:
        ended = contests.end(session, made.id, NOON + 2 * HOUR)
    assert (ended.stage, ended.rules.ends_at, ended.shown_until) == (Stage.ENDED, NOON + 2 * HOUR, NOON + HOUR)


def test_one_that_ends_before_its_freeze_hides_nothing(world: World) -> None:
    made = world.contest(freezes_at=FREEZE)
    with world.database.begin() as session:
        ended = contests.end(session, made.id, NOON + HOUR)
    assert (ended.stage, ended.shown_until) == (Stage.ENDED, None)


def test_each_step_has_its_time(world: World) -> None:
    made = world.contest()
    for step, at in ((contests.freeze, NOON - HOUR), (contests.freeze, END), (contests.end, NOON - HOUR), (contests.end, END),
                     (contests.reveal, NOON), (contests.open_practice, NOON)):
        with pytest.raises(RequestError), world.database.begin() as session:
            step(session, made.id, at)


def test_it_is_revealed_once_and_when_all_is_judged(world: World) -> None:
    made = world.contest()
    number = send(world, "ada", NOON, made)
    with pytest.raises(RequestError, match="1 of its runs"), world.database.begin() as session:
        contests.reveal(session, made.id, END)
    world.finish(world.take())
    with world.database.begin() as session:
        assert contests.reveal(session, made.id, END).stage is Stage.REVEALED
    with pytest.raises(RequestError, match="once"), world.database.begin() as session:
        contests.reveal(session, made.id, END + HOUR)
    assert world.view(number).contest == "spring"


def test_its_boards_stay_at_the_version_they_were_made_for(world: World, tmp_path: Any) -> None:
    made, old = world.contest(), world.problem
    judged(world, "ada", 10.0, NOON, made)
    new = add_problem(world.database, world.artifacts, small_problem(tmp_path, n=16))

    with world.database.read() as session:
        board = boards.board(session, "doubling", "cpu", made.id)
        assert [p.version for p in contests.problems_of(session, made.id)] == [old.version]
        assert contests.version_of(session, "doubling", old.version) == old.version_id
    assert new.version != old.version == board.version
    assert [row.person for row in board.rows] == ["ada"]


def test_a_board_is_of_a_problem_that_can_be_played_there_and_once(world: World) -> None:
    made = world.contest()
    for places in ([(world.problem.version_id, "h200")], [(world.problem.version_id, "cpu")] * 2, [(99, "cpu")]):
        with pytest.raises(RequestError), world.database.begin() as session:
            contests.set_problems(session, made.id, places)


def test_practice_and_contest_are_boards_of_their_own(world: World) -> None:
    made = world.contest()
    world.judged("practising", 5.0)
    judged(world, "ada", 10.0, NOON, made)

    assert [row.person for row in rows(world, made)] == ["ada"]
    with world.database.begin() as session:
        assert [row.person for row in boards.board(session, "doubling", "cpu").rows] == ["practising"]
        with pytest.raises(NotFound):
            boards.board(session, "doubling", "h200", made.id)


def test_after_the_freeze_the_board_stands_still_for_contestants(world: World) -> None:
    made = world.contest(freezes_at=FREEZE)
    first = judged(world, "ada", 10.0, FREEZE - HOUR, made)
    late = judged(world, "bob", 5.0, FREEZE, made)
    better = judged(world, "ada", 1.0, FREEZE + timedelta(minutes=1), made)

    with world.database.read() as session:
        shown = boards.board(session, "doubling", "cpu", made.id, FREEZE)
        whole = boards.board(session, "doubling", "cpu", made.id)
    assert [(row.submission, row.rank) for row in shown.rows] == [(first, (1, 1))]
    assert (shown.people, shown.submissions, shown.leader) == (1, 1, first)
    assert [row.submission for row in whole.rows] == [better, late]
    assert whole.leader == better


def test_a_verdict_tells_its_owner_no_rank_after_the_freeze(world: World) -> None:
    made = world.contest(freezes_at=FREEZE)
    early, late = judged(world, "ada", 10.0, NOON, made), judged(world, "bob", 5.0, FREEZE, made)

    for number, rank in ((early, (1, 1)), (late, None)):
        verdict = world.view(number).verdict
        assert verdict is not None
        assert verdict.accepted
        assert verdict.rank == rank


def test_a_team_stands_on_the_board_once_and_an_agent_by_itself(world: World) -> None:
    made = world.contest(by_team=True)
    ada, bob = world.person("ada"), world.person("bob")
    with world.database.begin() as session:
        team = teams.create(session, "Rockets", ada, NOON).id
        robot = people.add_token(session, bob.id, NewToken(name="robot", agent=True)) and people.tokens_of(session, bob.id)[0].id
    judged(world, "ada", 10.0, NOON, made, team=team)
    judged(world, "bob", 8.0, NOON, made, team=team)
    judged(world, "bob", 9.0, NOON, made, team=team, token=robot)
    judged(world, "eve", 12.0, NOON, made)

    assert [(row.who, row.score_us) for row in rows(world, made)] == [("Rockets", 8.0), ("agent robot of bob", 9.0), ("eve", 12.0)]


def test_an_organizers_run_of_an_entry_stands_on_no_board(world: World) -> None:
    made = world.contest()
    entry = judged(world, "ada", 10.0, NOON, made)
    judged(world, "boss", 1.0, NOON, made, replays=entry)

    assert [row.submission for row in rows(world, made)] == [entry]
    with world.database.read() as session:
        board = boards.board(session, "doubling", "cpu", made.id)
    assert (board.people, board.submissions, board.leader) == (1, 1, entry)


def test_a_problem_is_hidden_until_the_start_of_its_contest(world: World) -> None:
    made = world.contest()
    reader, boss = world.person("ada"), world.person("boss", "organizer")
    assert names(world, reader, NOON - HOUR) == ["doubling"]          # its practice board is open
    with world.database.begin() as session:
        problems.set_open(session, "doubling", False)

    assert names(world, None, NOON - HOUR) == names(world, reader, NOON - HOUR) == []
    assert names(world, boss, NOON - HOUR) == names(world, reader, NOON) == names(world, None, END) == ["doubling"]
    with world.database.read() as session:
        with pytest.raises(NotFound) as hidden:
            visibility.problem(session, "doubling", reader, NOON - HOUR)
        with pytest.raises(NotFound) as absent:
            visibility.problem(session, "nothing", reader, NOON - HOUR)
        assert contests.visible_problems(session, made.id, reader, NOON - HOUR) == []
        assert len(contests.visible_problems(session, made.id, boss, NOON - HOUR)) == 1
        assert visibility.problem(session, "doubling", reader, NOON).name == "doubling"
    assert str(hidden.value) == str(absent.value).replace("nothing", "doubling")


def test_a_problem_that_was_never_open_is_a_secret_until_it_is(world: World) -> None:
    with world.database.begin() as session:
        problems.keep_secret(session, "doubling")
    assert names(world, world.person("ada"), NOON) == []
    assert names(world, world.person("boss", "organizer"), NOON) == ["doubling"]
    with world.database.begin() as session:
        problems.set_open(session, "doubling", True)
        problems.set_open(session, "doubling", False)
    assert names(world, world.person("ada"), NOON) == ["doubling"]


def test_a_closed_problem_of_no_coming_contest_stays_known(world: World) -> None:
    with world.database.begin() as session:
        problems.set_open(session, "doubling", False)
    assert names(world, None, NOON) == ["doubling"]
    world.contest()
    world.contest("winter", starts_at=NOON + 9 * HOUR, ends_at=NOON + 10 * HOUR)
    assert names(world, None, NOON + HOUR) == ["doubling"]             # the earlier contest told it


def test_trial_entries_to_a_hidden_problem_are_hidden_with_it(world: World) -> None:
    number = world.send("tester")
    world.contest()
    with world.database.begin() as session:
        problems.set_open(session, "doubling", False)

    assert seen(world, number, world.person("ada"), NOON - HOUR) == (False, False)
    assert seen(world, number, world.person("tester"), NOON - HOUR) == (True, True)
    assert seen(world, number, None, NOON) == (True, True)


@pytest.mark.parametrize(("reader", "at", "is_seen"), [
    (None, FREEZE, False), ("rival", FREEZE, False), ("rival", END, False), ("owner", FREEZE, True), ("mate", FREEZE, True),
    ("boss", FREEZE, True)])
def test_what_was_sent_after_the_freeze_is_its_owners_and_the_organizers(
        world: World, reader: str | None, at: datetime, is_seen: bool) -> None:
    made = world.contest(freezes_at=FREEZE)
    owner, mate, boss = world.person("owner"), world.person("mate"), world.person("boss", "organizer")
    with world.database.begin() as session:
        team = teams.create(session, "Rockets", owner, NOON).id
        session.add(Member(team=team, person=mate.id, joined_at=NOON))
    early, late = send(world, "owner", FREEZE - HOUR, made), send(world, "owner", FREEZE, made, team=team)
    who = {"rival": world.person("rival"), "owner": owner, "mate": mate, "boss": boss}.get(reader or "")

    assert seen(world, late, who, at) == (is_seen, is_seen)
    assert seen(world, early, who, at) == (True, True)


def test_what_was_hidden_is_shown_by_the_reveal(world: World) -> None:
    made = world.contest(freezes_at=FREEZE, sources="public")
    late = judged(world, "ada", 5.0, FREEZE, made)
    assert not world.view(late).open_source
    with world.database.begin() as session:
        info = contests.reveal(session, made.id, END)

    assert info.shown_until is None
    assert seen(world, late, None, END) == (True, True)
    assert world.view(late).open_source


def test_an_organizers_run_is_shown_to_organizers_alone(world: World) -> None:
    made = world.contest()
    entry = send(world, "ada", NOON, made)
    replay = send(world, "ada", NOON, made, replays=entry)

    for reader, is_seen in ((None, False), (world.person("ada"), False), (world.person("boss", "organizer"), True)):
        assert seen(world, replay, reader, NOON) == (is_seen, False)       # and in no listing


def test_practice_opens_after_the_end_and_leaves_the_contests_boards_as_they_are(world: World) -> None:
    made = world.contest()
    with world.database.begin() as session:
        problems.set_open(session, "doubling", False)
    entry = judged(world, "ada", 10.0, NOON, made)
    before = rows(world, made)
    with world.database.begin() as session:
        assert contests.open_practice(session, made.id, END) == ["doubling"]
    world.judged("bob", 1.0)

    assert rows(world, made) == before
    assert [row.submission for row in before] == [entry]
    with world.database.read() as session:
        practice = boards.board(session, "doubling", "cpu")
    assert practice.open
    assert [row.person for row in practice.rows] == ["bob"]


def at_time(world: World, contest: ContestInfo, at: datetime) -> ContestInfo:
    with world.database.read() as session:
        return contests.by_id(session, contest.id, at)


def change(world: World, contest: ContestInfo, rules: ContestRules, at: datetime) -> ContestInfo:
    with world.database.begin() as session:
        return contests.change(session, contest.id, rules, at)


def rows(world: World, contest: ContestInfo) -> list[boards.BoardRow]:
    with world.database.read() as session:
        return boards.board(session, "doubling", "cpu", contest.id).rows


def names(world: World, reader: PersonInfo | None, at: datetime) -> list[str]:
    with world.database.read() as session:
        return [info.name for info in visibility.problem_listing(session, reader, at)]


def seen(world: World, number: int, reader: PersonInfo | None, at: datetime) -> tuple[bool, bool]:
    """Whether a reader gets that submission by its number, and in the list."""
    with world.database.read() as session:
        listed = number in [view.id for view in visibility.recent(session, reader, at)]
        try:
            return visibility.submission(session, number, reader, at).id == number, listed
        except NotFound:
            return False, listed


def send(world: World, name: str, at: datetime, contest: ContestInfo, source: bytes = SOURCE, **more: Any) -> int:
    """A queued ranked entry of that time."""
    new = NewSubmission(person=world.person(name).id, version=world.problem.version_id, device="cpu", mode=Mode.RANKED,
                        file_name="kernel.py", source_sha=world.artifacts.put(source), language="torch", licence="MIT", ai_use="none",
                        door="api", contest=contest.id, token=more.pop("token", None))
    with world.database.begin() as session:
        number = submissions.insert(session, new, at)
        row = session.get_one(Submission, number)
        for column, value in more.items():
            setattr(row, column, value)
    return number


def judged(world: World, name: str, score_us: float, at: datetime, contest: ContestInfo, **more: Any) -> int:
    """An accepted entry of that time."""
    source = SOURCE + f"# {name} {score_us}\n".encode()
    number = send(world, name, at, contest, source=source, **more)
    while (claim := world.take()).id != number:
        world.finish(claim)
    world.finish(claim, score_us=score_us, score_ci_us=(score_us, score_us))
    return number
