"""Fixtures of the tests of problems."""

import pytest
import torch

from tests.problems.judges import judge

__all__ = ["judge"]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """As the referee has it: on inputs of this size a second thread costs more than it saves."""
    torch.set_num_threads(1)
