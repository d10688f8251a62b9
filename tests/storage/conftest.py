"""A world to store things in."""

from pathlib import Path

import pytest

from kernelderby.storage.database import Database
from tests.small_world import World


@pytest.fixture
def world(database: Database, tmp_path: Path) -> World:
    """One problem on offer, on both engines."""
    return World.make(database, tmp_path)
