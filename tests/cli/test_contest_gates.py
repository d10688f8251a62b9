"""`derby contest gate`, `final`, `appeal` … and `derby rejudge`, as processes of their own against a real server."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from kernelderby.storage import contests, registrations
from kernelderby.storage.contest_models import Contest
from tests.cli.conftest import Shell
from tests.contest_world import CAUGHT, scored
from tests.leaderboard_web.site import Site, running
from tests.small_world import small_problem


class Held:
    """A contest with one entry of ada's at a site, and shells of ada and of an organizer."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site, self.folder, now = site, folder, datetime.now(UTC)
        world = site.world
        contest = world.contest(starts_at=now - timedelta(hours=1), ends_at=now + timedelta(hours=1), final_runs=1)
        ada = site.person("ada")
        with world.database.begin() as session:
            early = now - timedelta(hours=2)
            registrations.register(session, contests.by_id(session, contest.id, early), ada, None, None, None, early)
        self.entry = world.send("ada", contest=contest.id)
        world.finish(world.take(), **scored(10.0))
        self.boss, self.ada = self.shell("boss", "organizer"), self.shell("ada", "contestant")

    def shell(self, name: str, role: str) -> Shell:
        return Shell(self.folder, {"DERBY_URL": self.site.url, "DERBY_TOKEN": self.site.token(name, role)})

    def judge_all(self, **said: Any) -> None:
        while (claim := self.site.world.claim()) is not None:
            self.site.world.finish(claim, **said)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    with running(tmp_path / "site") as site:
        yield Held(site, tmp_path)


def said(shell: Shell, *arguments: str, status: int = 0) -> str:
    done = shell.derby(*arguments)
    assert done.returncode == status, done.stderr + done.stdout
    return done.stdout if status == 0 else done.stderr


def test_a_hot_gate_and_an_appeal_by_command(held: Held) -> None:
    folder = small_problem(held.folder / "new", budget=1e-6).folder
    made = said(held.boss, "contest", "gate", "preview", "spring", str(folder), "--reason", "It cached.", "--top", "3", "--json")
    change = str(json.loads(made)["id"])
    assert "0 of 1 entries" in said(held.boss, "contest", "gate", "apply", change, status=2)
    held.judge_all(**CAUGHT)
    shown = said(held.boss, "contest", "gate", "show", change)
    for part in ("ready: It cached.", "wrong_values at any_input, drops", "1 of 1 drop.", f"gate apply {change}"):
        assert part in shown
    assert "Only an organizer" in said(held.ada, "contest", "gate", "show", change, status=2)

    assert "is applied" in said(held.boss, "contest", "gate", "apply", change)
    held.judge_all(**CAUGHT)
    assert "It cached" in said(held.ada, "contest", "notices", "spring")
    assert "Appeal 1" in said(held.ada, "contest", "appeal", str(held.entry), "My rows are padded.")
    assert "waits" in said(held.boss, "contest", "appeals", "spring")
    assert "is judged again" in said(held.boss, "contest", "grant", "1", "Mended.")
    assert "> Mended." in said(held.ada, "contest", "appeals", "spring")
    assert "applied" in said(held.boss, "contest", "gate", "list", "spring")


def test_a_final_heat_and_a_rejudge_by_command(held: Held) -> None:
    again = json.loads(said(held.boss, "rejudge", str(held.entry), "--reason", "Too warm.", "--json"))
    assert again == {"submissions": [{"submission": held.entry, "state": "queued"}]}
    held.judge_all(**scored(12.0))
    assert "between its end and the reveal" in said(held.boss, "contest", "final", "start", "spring", status=2)
    with held.site.world.database.begin() as session:
        session.scalars(select(Contest)).one().ends_at = datetime.now(UTC)
    assert "doubling on cpu: 1 finalists, 1 runs each." in said(held.boss, "contest", "final", "start", "spring")
    held.judge_all(**scored(11.0))
    shown = said(held.boss, "contest", "final", "show", "spring")
    assert "on runner: final" in shown and "11.0" in shown and "1 of 1" in shown
    assert "once the contest is revealed" in said(held.ada, "contest", "final", "show", "spring", status=2)
