"""Bubblewrap at each height of its walls: all of these run here for real."""

from collections.abc import Callable

import pytest

from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from tests.needs import needs


def _without_own_uid(sandbox: Bubblewrap) -> Bubblewrap:
    sandbox.own_uid = False      # as for a caller that is not root
    return sandbox


TIERS: dict[str, Callable[[], Bubblewrap]] = {
    "all": Bubblewrap,
    "without_groups": lambda: Bubblewrap(lambda: None),
    "without_own_uid": lambda: _without_own_uid(Bubblewrap()),
    "without_either": lambda: _without_own_uid(Bubblewrap(lambda: None)),
}


@pytest.fixture(scope="session")
def best() -> Bubblewrap:
    """With control groups and a uid of its own, which root alone can give."""
    needs("root")
    return Bubblewrap()


@pytest.fixture(scope="session", params=TIERS)
def sandbox(request: pytest.FixtureRequest) -> Bubblewrap:
    """Each tier in turn."""
    return TIERS[request.param]()
