"""What a test needs from the system beyond Python packages: missing, it skips here and fails in CI."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelderby.judge.build.toolkit import find_toolkit


def needs(part: str) -> None:
    """Skip the test that calls this where `part` is missing, saying so; fail it when CI=true, where everything must be there."""
    is_there = PARTS.get(part, lambda: shutil.which(part) is not None)
    if is_there():
        return
    reason = f"{part} is not on this machine (apt-get install {PACKAGES.get(part, part)})"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)


def postgresql_bin() -> Path | None:
    """The folder of the newest PostgreSQL server's programs, which Debian keeps out of PATH."""
    return max((p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/initdb")), default=None)


def _is_new_enough(python: str) -> bool:
    return Path(python).exists() and subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).returncode == 0


PARTS: dict[str, Callable[[], bool]] = {
    "postgresql": lambda: postgresql_bin() is not None,
    "root": lambda: os.geteuid() == 0,
    "debootstrap": lambda: os.geteuid() == 0 and shutil.which("debootstrap", path="/usr/sbin:/sbin:/usr/bin") is not None,
    "system python": lambda: _is_new_enough("/usr/bin/python3"),
    "nvcc": lambda: find_toolkit().cuda is not None,
    "compiler": lambda: shutil.which("cc") is not None,
}
PACKAGES = {"nvcc": "…: NVIDIA's CUDA toolkit, in /usr/local/cuda",
            "system python": "python3, 3.11 or newer", "compiler": "gcc libc6-dev", "root": "…, or run as root"}
