"""Control groups of version 2: one tree for everything."""

from pathlib import Path
from typing import Any

from kernelderby.core.errors import SandboxUnavailable
from kernelderby.judge.sandbox.base import BoxLimits
from kernelderby.judge.sandbox.groups import count, empty, group_name, make, orphans


class HierarchyV2:
    """One parent that hands memory and pids on to its children."""

    kind = "cgroup_v2"
    controls = frozenset({"memory", "pids", "freezer"})

    def __init__(self, parent: Path, mount_point: Path) -> None:
        self.parent = parent
        self._mount_point = mount_point

    def new(self, box: int) -> "GroupV2":
        return GroupV2(make(self.parent / group_name(box)))

    def clear_orphans(self) -> None:
        for directory in orphans([self._mount_point]):
            GroupV2(directory).remove()


class GroupV2:
    """One directory for everything."""

    kind = "cgroup_v2"
    controls = HierarchyV2.controls

    def __init__(self, directory: Path) -> None:
        self._at = directory

    def join_files(self) -> list[Path]:
        return [self._at / "cgroup.procs"]

    def limit(self, limits: BoxLimits) -> None:
        words = {"memory.max": limits.memory_bytes, "memory.swap.max": 0, "memory.oom.group": 1, "pids.max": limits.processes}
        try:
            for name, value in words.items():
                if (self._at / name).exists():      # memory.swap.max is absent on kernels without swap
                    (self._at / name).write_text(str(value))
        except OSError as error:
            raise SandboxUnavailable(f"A box could not be limited to {limits.memory_bytes >> 20} MiB: {error.strerror}.") from None

    def freezer(self) -> dict[str, Any]:
        return {"kind": self.kind, "path": str(self._at)}

    def oom_killed(self) -> bool:
        return count(self._at / "memory.events", "oom_kill") > 0

    def remove(self) -> None:
        empty(self._at, thaw=("cgroup.freeze", "0"))
