"""What `pip install .` installs: every part with its data, and nothing at the top level but the one namespace."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("core", "storage", "judge", "leaderboard_web", "cli")
BUILT_FROM = (*PARTS, "pyproject.toml", "README.md", "LICENSE")
LEFT_OUT = ("__pycache__", ".pyc")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain install of a copy, without dependencies."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("target")
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, source / name)
    pip = next((ROOT / "vendor").glob("pip-*.whl")) / "pip"
    install = [sys.executable, str(pip), "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", str(target), str(source)], check=True, capture_output=True)
    return target


def test_one_namespace_and_the_command_are_installed(installed: Path) -> None:
    assert {p.name for p in installed.iterdir() if not p.name.endswith(".dist-info")} == {"bin", "kernelderby"}
    assert (installed / "bin" / "derby").is_file()


@pytest.mark.parametrize("part", PARTS)
def test_every_file_of_a_part_is_installed(installed: Path, part: str) -> None:
    files = {p.relative_to(ROOT) for p in (ROOT / part).rglob("*") if p.is_file() and not str(p).endswith(LEFT_OUT)}

    missing = {f for f in files if not (installed / "kernelderby" / f).is_file()}

    assert not missing
