"""Control groups: where they are made, what they limit, that none is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernelderby.core.errors import SandboxUnavailable
from kernelderby.judge.sandbox.base import BoxLimits
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.cgroup import find_hierarchy
from kernelderby.judge.sandbox.cgroup_v2 import GroupV2, HierarchyV2
from tests.judge.sandbox.boxes import LIMITS, MIB, launch, own_groups

LEAVES_A_BOX = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from tests.judge.sandbox.boxes import launch, own_groups
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.freezer import freezer_from
box = launch(Bubblewrap(), "time.sleep(600)")
freezer_from(box.freezer()).freeze()
print(*own_groups(), flush=True)
time.sleep(600)
"""

LIMIT_FILES = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max")


def test_a_box_is_limited_again_and_again(best: Bubblewrap) -> None:
    box = launch(best, "time.sleep(60)")
    try:
        for size in (256 * MIB, 64 * MIB, 512 * MIB):
            box.limit(BoxLimits(memory_bytes=size))
            files = [group / name for group in own_groups() for name in LIMIT_FILES if (group / name).exists()]
            assert {int(file.read_text()) for file in files} == {size}
    finally:
        box.end()


def test_groups_of_a_killed_maker_are_cleared_by_the_next(best: Bubblewrap) -> None:
    root = str(Path(__file__).parents[3])
    maker = subprocess.Popen([sys.executable, "-c", LEAVES_A_BOX, root], stdout=subprocess.PIPE, text=True)
    assert maker.stdout
    groups = list(map(Path, maker.stdout.readline().split()))
    members = {int(pid) for group in groups for pid in (group / "cgroup.procs").read_text().split()}
    maker.kill()
    maker.wait()
    maker.stdout.close()
    assert groups and all(group.exists() for group in groups)

    find_hierarchy()

    assert not any(group.exists() for group in groups)
    assert members and not any(_lives(pid) for pid in members)


def test_groups_of_a_living_maker_stay(best: Bubblewrap) -> None:
    box = launch(best, "time.sleep(60)")
    groups = list(own_groups())

    find_hierarchy()

    assert groups and list(own_groups()) == groups
    box.end()


@pytest.mark.parametrize(("mounts", "own", "expected"), [
    ("36 25 0:31 / {top} rw - cgroup2 cgroup2 rw\n", "0::/user/app.scope\n", "user"),                # a user's own, from systemd
    ("36 25 0:31 / {top} rw - cgroup2 cgroup2 rw\n", "0::/elsewhere\n", None),                         # nothing handed on
    ("36 25 0:31 /docker/1 {top}/docker rw - cgroup2 cgroup2 rw\n", "0::/docker/1/app\n", "docker"),   # seen through a container's mount
], ids=["systemd", "none", "container"])
def test_v2_groups_are_made_where_controllers_are_handed_on(tmp_path: Path, mounts: str, own: str, expected: str | None) -> None:
    for name, handed_on in (("", ""), ("user", "cpu memory pids"), ("user/app.scope", ""), ("elsewhere", "cpu"), ("docker", "memory pids")):
        (tmp_path / "tree" / name).mkdir(exist_ok=True, parents=True)
        (tmp_path / "tree" / name / "cgroup.subtree_control").write_text(handed_on)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/mountinfo").write_text(mounts.format(top=tmp_path / "tree"))
    (tmp_path / "proc/cgroup").write_text(own)

    hierarchy = find_hierarchy(tmp_path / "proc")

    assert hierarchy is None if expected is None else isinstance(hierarchy, HierarchyV2)
    if isinstance(hierarchy, HierarchyV2):
        assert hierarchy.parent == tmp_path / "tree" / expected


def test_v2_limits_are_written_where_the_kernel_reads_them(tmp_path: Path) -> None:
    for name in ("memory.max", "memory.oom.group", "pids.max"):      # no swap file: a kernel without swap
        (tmp_path / name).touch()
    (tmp_path / "memory.events").write_text("low 0\noom 1\noom_kill 1\noom_group_kill 0\n")
    group = GroupV2(tmp_path)

    group.limit(LIMITS)

    assert {file.name: file.read_text() for file in tmp_path.iterdir() if file.name != "memory.events"} == {
        "memory.max": str(LIMITS.memory_bytes), "memory.oom.group": "1", "pids.max": str(LIMITS.processes)}
    assert group.oom_killed()


def test_a_group_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="control group"):
        HierarchyV2(tmp_path / "nowhere", tmp_path).new(1)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIG_DFL)
    except ProcessLookupError:
        return False
    return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
