"""A platform that runs for all of these tests, and ways to call the command line as a person does."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DERBY = [sys.executable, "-P", "-m", "kernelderby.cli.main"]


@dataclass
class Shell:
    """Calls `derby` as a process of its own, with the settings of one data folder."""

    folder: Path                                         # where it is called, and whose .derby it uses
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        outer = {k: v for k, v in os.environ.items() if not k.startswith("DERBY_")}
        own = {"DERBY_DATA": str(self.folder / ".derby"), "XDG_CONFIG_HOME": str(self.folder / "config")}
        return {**outer, **own, **self.variables, **(more or {})}

    def derby(self, *arguments: str, stdin: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*DERBY, *arguments], cwd=self.folder, env=self.environment(variables), input=stdin, capture_output=True,
                              text=True, timeout=100, stdin=subprocess.DEVNULL if stdin is None else None)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen([*DERBY, *arguments], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def up(self) -> "subprocess.Popen[str]":
        """`derby up` on a free port, once it is ready."""
        process = self.start("up", "--port", str(free_port()), "--json")
        assert process.stdout and process.stderr
        assert process.stdout.readline(), process.stderr.read()
        return process


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell in an empty folder, with no server anywhere."""
    return Shell(tmp_path, {"DERBY_URL": "http://127.0.0.1:9"})


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """`derby up` on a free port; a shell in the folder it was started from."""
    shell = Shell(tmp_path_factory.mktemp("platform"))
    process = shell.up()
    yield shell
    process.terminate()
    process.communicate(timeout=60)


def free_port() -> int:
    """A port nobody listens on."""
    from kernelderby.cli.services import choose_port

    return choose_port(0)
