"""Runners: who is at work, until they are gone or silent."""

from datetime import timedelta

from kernelderby.storage import runners
from kernelderby.storage.database import Database
from tests.small_world import NOON


def test_a_runner_is_alive_until_it_goes_or_falls_silent(database: Database) -> None:
    with database.begin() as session:
        runners.seen(session, "host/cpu/1", "cpu", {"pid": 1}, NOON - timedelta(minutes=5))
        runners.seen(session, "host/cpu/2", "cpu", {"pid": 2}, NOON)
        runners.seen(session, "host/cpu/2", "cpu", {"pid": 2}, NOON)
        assert [r.name for r in runners.alive(session, NOON)] == ["host/cpu/2"]
        runners.gone(session, "host/cpu/2")
        assert runners.alive(session, NOON) == []
