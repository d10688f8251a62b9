"""One site for the tests of a module; each test brings its own people."""

from collections.abc import Iterator

import pytest

from tests.leaderboard_web.site import Site, running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running server with one problem, `doubling`."""
    with running(tmp_path_factory.mktemp("site")) as found:
        yield found
