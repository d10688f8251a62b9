"""A world to store things in."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.database import Database, connect
from tests.databases import ENGINES
from tests.postgres import new_database
from tests.small_world import World

_numbers = itertools.count(1)


@pytest.fixture
def world(database: Database, tmp_path: Path) -> World:
    """One problem on offer, on both engines."""
    return World.make(database, tmp_path)


@pytest.fixture(params=ENGINES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database without any table, once for each engine."""
    (tmp_path / "target").mkdir()
    url = f"sqlite:///{tmp_path / 'target' / 'derby.sqlite'}"
    if request.param == "postgresql":
        url = new_database(request.getfixturevalue("postgres_server"), f"restored{next(_numbers)}")
    database = connect(url)
    yield database
    database.close()


@pytest.fixture
def new_store(tmp_path: Path) -> ArtifactStore:
    """Where the artifacts of `target` go."""
    return ArtifactStore(tmp_path / "target" / "artifacts")
