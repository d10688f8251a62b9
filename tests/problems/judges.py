"""One judge for a module's tests: the real one, with its sandbox."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelderby.core.settings import Settings
from kernelderby.judge.judging import Judge, open_judge


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """A judge that keeps two boxes warm."""
    data: Path = tmp_path_factory.mktemp("judge")
    with open_judge(Settings(data=data), "bubblewrap") as opened:
        yield opened
