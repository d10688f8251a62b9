"""`derby up`: one platform a data folder, nothing left behind, data kept."""

import json
import os
import signal
import socket
import time
from pathlib import Path

import psutil
import pytest

from kernelderby.cli import data_folder
from kernelderby.core.errors import SetupError
from kernelderby.core.settings import Settings
from tests.cli.conftest import Shell


def test_a_second_up_points_at_the_first(platform: Shell) -> None:
    done = platform.derby("up", "--json")

    assert done.returncode == 0
    assert json.loads(done.stdout)["url"] == (platform.folder / ".derby" / "url").read_text().strip()


def test_secrets_are_for_their_owner_alone(platform: Shell) -> None:
    data = platform.folder / ".derby"

    assert data.stat().st_mode & 0o077 == 0
    assert (data / "token").stat().st_mode & 0o177 == 0
    assert (data / "secret").stat().st_mode & 0o177 == 0


def test_a_port_that_is_taken_is_named_with_its_holder(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = shell.derby("up", "--port", str(port))

    assert done.returncode == 3
    assert f"Port {port}" in done.stderr
    assert f"process {os.getpid()}" in done.stderr
    assert "--port" in done.stderr


def test_network_file_systems_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_folder, "NETWORK_FILESYSTEMS", (data_folder.filesystem(tmp_path),))

    with pytest.raises(SetupError, match="DERBY_DATA"), data_folder.owned(tmp_path / "data"):
        pass


def test_a_data_folder_that_cannot_be_made_is_a_sentence(shell: Shell) -> None:
    (shell.folder / "file").write_text("")

    done = shell.derby("up", DERBY_DATA=str(shell.folder / "file" / "data"))

    assert done.returncode == 3
    assert "DERBY_DATA" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_setting_that_cannot_be_read_is_a_sentence(shell: Shell) -> None:
    done = shell.derby("up", DERBY_WARM_BOXES="many")

    assert done.returncode == 3
    assert "DERBY_WARM_BOXES" in done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
def test_however_it_ends_nothing_is_left_and_data_stay(shell: Shell, how: signal.Signals) -> None:
    shell.variables = {}
    process = shell.up()
    family = psutil.Process(process.pid).children(recursive=True)
    token = (shell.folder / ".derby" / "token").read_text()

    process.send_signal(how)
    process.communicate(timeout=60)

    assert len(family) >= 3
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive
    assert how is signal.SIGKILL or process.returncode == 0
    again = shell.up()
    again.terminate()
    again.communicate(timeout=60)
    assert (shell.folder / ".derby" / "token").read_text() == token


def test_a_program_that_dies_is_started_again(shell: Shell) -> None:
    shell.variables = {}
    process = shell.up()
    broker = next(c for c in psutil.Process(process.pid).children() if "valkey" in c.name())

    broker.kill()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not _valkeys(process.pid) - {broker.pid}:
        time.sleep(0.1)

    assert _valkeys(process.pid) - {broker.pid}
    assert shell.derby("problems", "--json").returncode == 0
    process.terminate()
    process.communicate(timeout=60)


def test_children_get_the_settings_they_shall_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DERBY_BROKER_URL_FILE", "/nonexistent")

    environment = Settings(data=tmp_path, broker_url="redis+socket:///x").child_environment()

    assert Settings.from_env(environment) == Settings(data=tmp_path, broker_url="redis+socket:///x")


def _valkeys(pid: int) -> set[int]:
    return {c.pid for c in psutil.Process(pid).children() if "valkey" in c.name() and c.status() != psutil.STATUS_ZOMBIE}
