"""`derby contest`, as processes of their own against a real server."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kernelderby.cli import contest_rules
from kernelderby.core import receipt
from kernelderby.core.errors import RequestError
from kernelderby.core.settings import Settings
from kernelderby.judge import contest_seeds
from kernelderby.judge.receipts import load_key, sign
from kernelderby.storage import contests
from tests.cli.conftest import Shell
from tests.leaderboard_web.site import SOURCE, Site, full_verdict, running
from tests.small_world import small_problem

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[Site]:
    with running(folder) as found:
        yield found


@pytest.fixture
def boss(site: Site, tmp_path: Path) -> Shell:
    return Shell(tmp_path, {"DERBY_URL": site.url, "DERBY_TOKEN": site.token("boss", "organizer")})


@pytest.fixture
def ada(site: Site, tmp_path: Path) -> Shell:
    (tmp_path / "kernel.py").write_bytes(SOURCE)
    return Shell(tmp_path, {"DERBY_URL": site.url, "DERBY_TOKEN": site.token("ada")})


def said(shell: Shell, *arguments: str, status: int = 0) -> str:
    done = shell.derby(*arguments)
    assert done.returncode == status, done.stderr + done.stdout
    return done.stdout if status == 0 else done.stdout + done.stderr


def create(boss: Shell, name: str, start: str, *more: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(said(boss, "contest", "create", name, "--title", "A cup", "--start", start, "--end", "+2h",
                                           "--problem", "doubling@cpu", "--json", *more))
    return made


def test_a_contest_from_its_start_to_practice(site: Site, folder: Path, boss: Shell, ada: Shell) -> None:
    create(boss, "cup", "2026-01-01T00:00", "--quota", "ranked=5:600", "--cap", "9000", "--sources", "public")
    assert "cup: A cup" in said(ada, "contest", "show", "cup")
    assert "open" in said(ada, "contest", "list")
    said(ada, "contest", "register", "cup", "--real-name", "=1+1")
    assert "Be the first: derby submit FILE --problem doubling" in said(ada, "contest", "board", "cup")
    settings = Settings(data=folder / "data")
    number, key = entry(site, settings, ada), load_key(settings)

    assert "ada" in said(ada, "board", "doubling", "--contest", "cup")
    assert said(ada, "contest", "board", "cup", "--csv").splitlines()[1].startswith("1,1,ada,")
    assert "Question 1 is with" in said(ada, "contest", "ask", "cup", "May I use cuDNN?")
    assert "not public" in said(boss, "contest", "notices", "cup")
    assert "for everybody" in said(boss, "contest", "answer", "cup", "1", "Yes.", "--public")
    said(boss, "contest", "announce", "cup", "An hour is left.")
    notices = said(ada, "contest", "notices", "cup")
    assert "> Yes." in notices
    assert "An hour is left." in notices
    assert "Only an organizer" in said(ada, "contest", "announce", "cup", "Over!", status=2)
    assert "Only an organizer" in said(ada, "contest", "freeze", "cup", status=2)

    assert "frozen" in said(boss, "contest", "freeze", "cup")
    assert "as it was at" in said(ada, "contest", "board", "cup")
    assert "nothing to recompute" in said(ada, "contest", "seeds", "cup", "--verify", status=2)
    assert "ended" in said(boss, "contest", "end", "cup")
    assert "revealed" in said(boss, "contest", "reveal", "cup")
    assert f"submission {number}: its seed follows" in said(ada, "contest", "seeds", "cup", "--verify")
    assert "follows from the secret that its contest committed to" in said(ada, "receipt", "verify", str(number), "--key", key.public)
    assert "Open for practice: doubling" in said(boss, "contest", "practice", "cup")
    assert "'=1+1" in said(boss, "contest", "export", "cup")
    said(boss, "contest", "export", "cup", "--output", str(boss.folder / "rows.csv"))
    assert "ada" in (boss.folder / "rows.csv").read_text()
    assert "Only an organizer" in said(ada, "contest", "export", "cup", status=2)


def test_a_coming_contest_may_change(boss: Shell) -> None:
    made = create(boss, "later", "+1h", "--closed", "--freeze", "+90m")
    assert (made["stage"], made["by_invitation"]) == ("coming", True)
    changed = json.loads(said(boss, "contest", "change", "later", "--title", "Another", "--by-team", "--open", "--json"))
    assert (changed["title"], changed["by_team"], changed["by_invitation"]) == ("Another", True, False)
    assert changed["freezes_at"] == made["freezes_at"]
    again = ("--title", "T", "--start", "+1h", "--end", "+2h", "--problem", "doubling@cpu")
    assert "already" in said(boss, "contest", "create", "later", *again, status=2)


def test_a_problem_is_added_in_secret(site: Site, folder: Path, boss: Shell, ada: Shell) -> None:
    secret = small_problem(boss.folder / "secret", "tripling").folder
    here = Shell(boss.folder, {"DERBY_DATA": str(folder / "data")})
    said(here, "problem", "add", str(secret), "--closed")

    assert "tripling" not in said(ada, "problems")
    assert "tripling" in said(boss, "problems")
    create(boss, "surprise", "+1h", "--problem", "tripling@cpu")
    assert "tripling" not in said(ada, "contest", "show", "surprise")
    assert "There is no problem 'tripling'" in said(ada, "submit", "kernel.py", "--problem", "tripling", status=2)


@pytest.mark.parametrize(("text", "at"), [
    ("+2h", NOW + timedelta(hours=2)), ("+30m", NOW + timedelta(minutes=30)), ("+3d", NOW + timedelta(days=3)),
    ("2030-01-31T18:00", datetime(2030, 1, 31, 18, tzinfo=UTC)), ("2030-01-31T18:00+02:00", datetime(2030, 1, 31, 16, tzinfo=UTC)),
    ("2030-01-31", datetime(2030, 1, 31, tzinfo=UTC))])
def test_a_time_is_absolute_or_from_now(text: str, at: datetime) -> None:
    assert datetime.fromisoformat(contest_rules.moment(text, NOW)) == at


def test_boards_and_quotas_are_read_as_they_are_written() -> None:
    assert contest_rules.boards(["a@h200", "b", "c:9f2c@cpu"]) == [
        {"problem": "a", "device": "h200"}, {"problem": "b", "device": "cpu"}, {"problem": "c", "version": "9f2c", "device": "cpu"}]
    assert contest_rules.quotas(["ranked=50:600", "test=", "benchmark=:1.5"]) == {
        "ranked": {"runs": 50, "gpu_seconds": 600.0}, "test": {"runs": None, "gpu_seconds": None},
        "benchmark": {"runs": None, "gpu_seconds": 1.5}}


@pytest.mark.parametrize("read", [
    lambda: contest_rules.moment("soon", NOW), lambda: contest_rules.moment("+2y", NOW), lambda: contest_rules.boards(["@cpu"]),
    lambda: contest_rules.boards(["a@"]), lambda: contest_rules.quotas(["ranked"]), lambda: contest_rules.quotas(["dance=1"]),
    lambda: contest_rules.quotas(["ranked=many"])])
def test_what_cannot_be_read_is_told_with_an_example(read: Any) -> None:
    with pytest.raises(RequestError, match="Write"):
        read()


def entry(site: Site, settings: Settings, ada: Shell) -> int:
    """A judged entry with the receipt that a worker of this server signs."""
    ranked = ("--mode", "ranked", "--licence", "MIT", "--ai-use", "none", "--no-wait", "--json")
    number = int(json.loads(said(ada, "submit", "kernel.py", "--contest", "cup", *ranked))["submission"])
    with site.world.database.read() as session:
        contest = contests.get(session, "cup", datetime.now(UTC)).id
    seeds, revealed = contest_seeds.seeds_of(settings, contest), contest_seeds.reveal(settings, contest, number, 1)
    committed = receipt.commitment(bytes.fromhex(revealed["salt"]), bytes.fromhex(revealed["seed"]))
    inner = {**full_verdict()["receipt"], "seed_commitment": committed, "contest": contest, "contest_commitment": seeds.commitment}
    verdict = site.world.verdict(**full_verdict(receipt=inner, submission=number, attempt=1))
    site.judge(number, **full_verdict(receipt=receipt.sealed(verdict, sign(load_key(settings), receipt.payload_of(verdict))).receipt))
    return number
