"""Fresh databases for tests, on both engines."""

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from kernelderby.storage.base import Base
from kernelderby.storage.database import Database, connect, migrate
from tests.postgres import address, cluster, new_database

ENGINES = ("sqlite", "postgresql")
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The folder of a PostgreSQL server's socket; it holds a migrated database named `derby`."""
    with cluster() as folder:
        database = connect(new_database(folder, "derby"))
        migrate(database)
        database.close()
        yield folder


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite file, to be copied."""
    path = tmp_path_factory.mktemp("template") / "derby.sqlite"
    database = connect(f"sqlite:///{path}")
    migrate(database)
    database.close()   # the last connection moves the write-ahead log into the file
    return path


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The address of a migrated PostgreSQL database, emptied after the test."""
    url = address(postgres_server, "derby")
    yield url
    database = connect(url)
    with database.begin() as session:
        session.execute(text(f"TRUNCATE {', '.join(Base.metadata.tables)} RESTART IDENTITY"))
    database.close()


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a migrated, empty database, once for each engine."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres_url")
        return url
    template: Path = request.getfixturevalue("sqlite_template")
    return f"sqlite:///{shutil.copy(template, tmp_path)}"


@pytest.fixture(params=ENGINES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without any table, once for each engine."""
    if request.param == "postgresql":
        return new_database(request.getfixturevalue("postgres_server"), f"test{next(_numbers)}")
    return f"sqlite:///{tmp_path / 'derby.sqlite'}"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated, empty database, once for each engine."""
    found = connect(database_url)
    yield found
    found.close()


@pytest.fixture
def sqlite_database(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    """A migrated, empty database where the engine does not matter."""
    found = connect(f"sqlite:///{shutil.copy(sqlite_template, tmp_path)}")
    yield found
    found.close()
