"""The script `derby`: what it says where it cannot set up. tests/bare shows that it can."""

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT

PARTS = ("derby", "requirements.lock", "requirements-torch.txt", "requirements-cuda.txt", "pyproject.toml", "README.md", "vendor")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what set-up needs, in a folder with a blank and a quote in its name."""
    folder = tmp_path / "it's a clone"
    folder.mkdir()
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / name)
    return folder


def derby(checkout: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("DERBY_", "PIP_"))}
    return subprocess.run([checkout / "derby", *arguments], cwd="/", env={**environment, **variables}, capture_output=True, text=True,
                          timeout=100)


def stub(folder: Path, name: str, script: str) -> str:
    """A PATH on which `name` is a small script."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_another_system_is_told_what_works_there(checkout: Path, tmp_path: Path) -> None:
    done = derby(checkout, "up", PATH=stub(tmp_path / "bin", "uname", "echo Darwin"))

    assert done.returncode == 3
    assert "Linux" in done.stderr
    assert "derby submit" in done.stderr


def test_an_old_python_is_named(checkout: Path, tmp_path: Path) -> None:
    for name in ("python3", "python3.13", "python3.12", "python3.11"):
        path = stub(tmp_path / "bin", name, '[ "$1" = --version ] && echo Python 3.9.2; exit 1')

    done = derby(checkout, "up", PATH=path)

    assert done.returncode == 3
    assert "Python 3.9.2" in done.stderr
    assert "DERBY_PYTHON" in done.stderr


def test_a_derby_python_that_is_none_is_named(checkout: Path) -> None:
    done = derby(checkout, "up", DERBY_PYTHON="/nonexistent/python")

    assert done.returncode == 3
    assert "/nonexistent/python" in done.stderr


def test_a_folder_that_cannot_be_written_is_a_sentence(checkout: Path) -> None:
    (checkout / ".venv").write_text("")   # as good as read-only, also for root

    done = derby(checkout, "up")

    assert done.returncode == 3
    assert "cannot be written" in done.stderr


def test_without_a_network_it_says_so_and_can_go_on_later(checkout: Path) -> None:
    unreachable = {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0"}

    for _ in range(2):
        done = derby(checkout, "up", **unreachable)

        assert done.returncode == 3
        assert done.stdout == ""
        assert "cannot be reached" in done.stderr
        assert "goes on where it stopped" in done.stderr


def test_interrupted_it_says_that_it_can_go_on(checkout: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as never_answers:
        index = f"http://127.0.0.1:{never_answers.getsockname()[1]}/simple"
        process = subprocess.Popen([checkout / "derby", "up"], start_new_session=True, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": index})
        never_answers.settimeout(60)
        never_answers.accept()
        os.killpg(process.pid, signal.SIGINT)   # as a terminal does
        _, said = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "goes on where it stopped" in said.splitlines()[-1]


def test_a_full_disk_is_found_before_the_download(checkout: Path, tmp_path: Path) -> None:
    path = stub(tmp_path / "bin", "df", "echo head; echo '/dev/x 9 9 1000 9% /'")

    done = derby(checkout, "up", PATH=path, **{k: v for k, v in os.environ.items() if k.startswith("PIP_")})

    assert done.returncode == 3
    assert "too full" in done.stderr
    assert "[2/4]" not in done.stderr


def test_the_lock_names_versions_hashes_and_no_host() -> None:
    lock = (ROOT / "requirements.lock").read_text()

    assert "://" not in lock
    assert lock.count("==") <= lock.count("--hash=sha256:")
    assert not {"torch", "triton"} & {line.partition("==")[0] for line in lock.splitlines()}
