"""Real compilers in the real sandbox; results are kept for one test session."""

from collections.abc import Iterator

import pytest

from kernelderby.judge.build.builder import Builder
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from tests.needs import needs


@pytest.fixture(scope="session")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """A builder with a folder of its own."""
    needs("nvcc")
    made = Builder(Bubblewrap(), tmp_path_factory.mktemp("builds"))
    yield made
    made.close()
