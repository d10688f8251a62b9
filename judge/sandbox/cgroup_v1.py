"""Control groups of version 1: a tree for each controller."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kernelderby.core.errors import SandboxUnavailable
from kernelderby.judge.sandbox.base import BoxLimits
from kernelderby.judge.sandbox.groups import count, empty, group_name, make, orphans

CONTROLS = ("freezer", "memory", "pids")      # in the order of removal: what is frozen dies only once it is thawed
_THAW = ("freezer.state", "THAWED")


class HierarchyV1:
    """One parent for each controller."""

    kind = "cgroup_v1"

    def __init__(self, parents: Mapping[str, Path], mount_points: Iterable[Path]) -> None:
        self._parents = dict(parents)
        self._mount_points = list(mount_points)
        self.controls = frozenset(parents)

    def new(self, box: int) -> "GroupV1":
        return GroupV1({name: make(parent / group_name(box)) for name, parent in self._parents.items()})

    def clear_orphans(self) -> None:
        for directory in orphans(self._mount_points):
            empty(directory, thaw=_THAW)


class GroupV1:
    """The same name in each controller's tree."""

    kind = "cgroup_v1"

    def __init__(self, directories: Mapping[str, Path]) -> None:
        self._at = dict(directories)
        self.controls = frozenset(directories)

    def join_files(self) -> list[Path]:
        return [directory / "cgroup.procs" for directory in self._at.values()]

    def limit(self, limits: BoxLimits) -> None:
        size = str(limits.memory_bytes)
        with_swap = self._at["memory"] / "memory.memsw.limit_in_bytes"      # absent where swap is not counted
        try:
            if with_swap.exists():
                with_swap.write_text("-1")        # it must never be the lower of the two, so it goes up first and down last
            (self._at["memory"] / "memory.limit_in_bytes").write_text(size)
            if with_swap.exists():
                with_swap.write_text(size)
            if "pids" in self._at:
                (self._at["pids"] / "pids.max").write_text(str(limits.processes))
        except OSError as error:
            raise SandboxUnavailable(f"A box could not be limited to {limits.memory_bytes >> 20} MiB: {error.strerror}.") from None

    def freezer(self) -> dict[str, Any]:
        return {"kind": self.kind, "path": str(self._at["freezer"])}

    def oom_killed(self) -> bool:
        return count(self._at["memory"] / "memory.oom_control", "oom_kill") > 0

    def remove(self) -> None:
        for name in CONTROLS:
            if name in self._at:
                empty(self._at[name], thaw=_THAW)
