"""`derby up`: one platform a data folder, nothing left behind, data kept."""

import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import cast

import psutil
import pytest
from filelock import FileLock

from kernelderby.cli import data_folder, services
from kernelderby.cli.examples import examples, gpu_examples
from kernelderby.cli.supervisor import Supervisor
from kernelderby.core.devices import CPU, DEVICES
from kernelderby.core.errors import SetupError
from kernelderby.core.settings import Settings
from kernelderby.storage import problems
from kernelderby.storage.database import Database
from tests.cli.conftest import Shell
from tests.small_world import small_problem


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


@pytest.mark.parametrize(("name", "value"), [("DERBY_WARM_BOXES", "many"), ("DERBY_WARM_BOXES", "-1"), ("DERBY_GPU", "-1"),
                                             ("DERBY_GPU", ""), ("DERBY_GPU", "1_0"), ("DERBY_GPU", "9" * 5000)])
def test_a_setting_that_cannot_be_read_is_a_sentence(shell: Shell, name: str, value: str) -> None:
    done = shell.derby("up", **{name: value})

    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert name in done.stderr and "0 or more" in done.stderr


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


def test_gpu_boards_open_where_there_are_cases_and_stay_open_without_the_gpu(sqlite_database: Database, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, problems=tmp_path / "problems")
    small_problem(tmp_path, "only_cpu")
    both = small_problem(tmp_path, "both").folder / "problem.yml"
    both.write_text(both.read_text().replace("cases: {cpu:", "cases: {gpu: [{name: one, axes: {n: 8}}], cpu:"))
    seen = []
    for classes in ([CPU], [CPU, DEVICES["h200"]], [CPU]):
        data_folder.add_problems(settings, sqlite_database, classes)
        with sqlite_database.read() as session:
            seen.append({p.name: p.devices for p in problems.listing(session)})

    assert seen[0] == {"both": ("cpu",), "only_cpu": ("cpu",)}
    assert seen[1] == seen[2] == {"both": ("cpu", "h200"), "only_cpu": ("cpu",)}


def test_each_gpu_gets_a_worker_of_its_own(tmp_path: Path) -> None:
    started: list[tuple[str, tuple[str, ...]]] = []

    class Recording:
        def start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
            started.append((name, tuple(command[command.index("worker"):])))

    for device, gpu in (("cpu", None), ("h200", 0), ("h200", 1)):
        services.start_worker(cast(Supervisor, Recording()), Settings(data=tmp_path), device, gpu)

    assert started == [("worker-cpu", ("worker", "--device", "cpu")),
                       ("worker-h200-0", ("worker", "--device", "h200", "--gpu", "0")),
                       ("worker-h200-1", ("worker", "--device", "h200", "--gpu", "1"))]


def test_the_examples_hold_a_starter_for_each_class_of_gpu() -> None:
    found = list(gpu_examples(Settings().problems, [CPU, DEVICES["h200"]]))

    assert [(problem, file.name, device) for problem, file, device in found] == [("vector_add", "starter.py", "h200")]
    assert list(gpu_examples(Settings().problems, [CPU])) == []
    assert {device for _, _, device in examples(Settings().problems)} == {"cpu"}


def test_what_a_killed_up_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    left, held, young, other = (tmp_path / name for name in ("derby-broker-1", "derby-broker-2", "derby-broker-3", "derby-x"))
    for folder in (left, held, young, other):
        folder.mkdir()
        (folder / "valkey.sock").touch()
        if folder != young:
            os.utime(folder, (0, 0))
    (tmp_path / "derby-broker-4").symlink_to(other)

    with FileLock(held / "lock"):
        os.utime(held, (0, 0))
        services.sweep(tmp_path)

    assert not left.exists()
    assert all((folder / "valkey.sock").exists() for folder in (held, young, other))


def _valkeys(pid: int) -> set[int]:
    return {c.pid for c in psutil.Process(pid).children() if "valkey" in c.name() and c.status() != psutil.STATUS_ZOMBIE}
