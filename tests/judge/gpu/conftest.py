"""A judge on this machine's GPU. Without one these tests are skipped, and say so: they never count as passed."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelderby.core.settings import Settings
from kernelderby.judge.judging import Judge, open_judge


def gpu_class() -> str | None:
    """The device class of this machine's GPU, by its name."""
    if not Path("/dev/nvidia0").exists():
        return None
    said = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False).stdout
    return next((name for name in ("h100", "h200", "b200") if name in said.lower()), None)


@pytest.fixture(scope="session")
def gpu() -> str:
    name = gpu_class()
    if name is None:
        pytest.skip("there is no H100, H200 or B200 on this machine")
    return name


@pytest.fixture(scope="session")
def judge(gpu: str) -> Iterator[Judge]:
    with open_judge(Settings.from_env(), "bubblewrap") as judge:
        yield judge
