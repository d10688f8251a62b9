"""One harness a module: it may be loaded again, so that most cases cost no start of a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.judge.box.driver import Driver


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The module's harness."""
    with Driver(tmp_path_factory.mktemp("box")) as driver:
        yield driver


@pytest.fixture
def fresh_box(tmp_path: Path) -> Iterator[Driver]:
    """A harness of one's own, for a test that ends it."""
    with Driver(tmp_path) as driver:
        yield driver
