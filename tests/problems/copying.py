"""A problem's folder copied elsewhere, to change one thing in it."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from kernelderby.core.settings import ROOT
from tests.problems.loading import problem


def copied(name: str, root: Path) -> Path:
    """The folder of a copy under the empty folder `root`, its family's oracle and its baseline beside it."""
    original = problem(name)
    folder = root / original.folder.relative_to(ROOT)
    shutil.copytree(original.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    baseline = root / original.spec.baseline
    baseline.parent.mkdir(parents=True)
    shutil.copy(original.baseline, baseline)
    if (oracle := original.folder.parent / "oracle.py").is_file():
        shutil.copy(oracle, folder.parent / "oracle.py")
    return folder


def edit_yml(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what problem.yml says."""
    path = folder / "problem.yml"
    data = yaml.safe_load(path.read_text())
    change(data)
    path.write_text(yaml.safe_dump(data, sort_keys=False))


def edit_file(path: Path, old: str, new: str) -> None:
    """Replace what must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
