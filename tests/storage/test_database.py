"""The database: migrations both ways, several starting at once, transactions that wait instead of failing."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from kernelderby.core.errors import SetupError
from kernelderby.storage import people
from kernelderby.storage.base import Base
from kernelderby.storage.database import Database, connect, migrate

pytestmark = pytest.mark.filterwarnings("ignore:.*expression-based index")


def test_migrations_lead_to_the_tables_of_the_models_and_back(empty_url: str) -> None:
    database = connect(empty_url)
    migrate(database)
    with database.engine.begin() as connection:
        differences = compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), Base.metadata)
    assert differences == []

    migrate(database, "base")
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}

    migrate(database)
    assert set(Base.metadata.tables) <= set(inspect(database.engine).get_table_names())
    database.close()


def test_constraints_have_the_names_of_the_models(empty_url: str) -> None:
    database = connect(empty_url)
    migrate(database)
    inspector = inspect(database.engine)
    assert {u["name"] for u in inspector.get_unique_constraints("submissions")} == {"uq_submissions_person_idempotency_key"}
    assert inspector.get_pk_constraint("events")["name"] == "pk_events"
    database.close()


def test_several_processes_may_migrate_at_once(empty_url: str) -> None:
    databases = [connect(empty_url) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate, databases))
    with databases[0].read() as session:
        assert not people.listing(session)
    for database in databases:
        database.close()


def test_an_exception_rolls_everything_back(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.begin() as session:
        people.create(session, "ada")
        _ = 1 // 0
    with database.read() as session:
        assert not people.listing(session)


def test_writers_do_not_fail_each_other_and_readers_see_only_what_is_committed(database: Database) -> None:
    started = threading.Event()

    def write_second() -> None:
        started.set()
        with database.begin() as session:
            people.create(session, "second")

    with database.begin() as session:
        people.create(session, "first")
        thread = threading.Thread(target=write_second)
        thread.start()
        started.wait()
        with database.read() as reader:
            assert people.by_name(reader, "first") is None
    thread.join()
    with database.read() as session:
        assert [p.name for p in people.listing(session)] == ["first", "second"]


def test_sqlite_keeps_what_it_acknowledged(sqlite_database: Database) -> None:
    with sqlite_database.read() as session:
        assert session.scalar(text("PRAGMA journal_mode")) == "wal"
        assert session.scalar(text("PRAGMA synchronous")) == 2   # FULL


def test_an_address_that_is_none_is_said_so() -> None:
    with pytest.raises(SetupError, match="DERBY_DATABASE_URL"):
        connect("nonsense")


@pytest.mark.parametrize(("place", "says"), [("nowhere/derby.sqlite", "There is no folder"), (".", "cannot be used: unable to open")])
def test_a_database_that_cannot_be_there_is_one_sentence(place: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=says):
        migrate(connect(f"sqlite:///{tmp_path / place}"))


def test_a_database_in_memory_works(tmp_path: Path) -> None:
    database = connect("sqlite://")
    migrate(database)
    with database.begin() as session:
        assert people.local_organizer(session).is_organizer
    database.close()
