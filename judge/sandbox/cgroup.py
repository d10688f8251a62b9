"""A control group for each box, where one can be made: memory, processes, freezing."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kernelderby.judge.sandbox.base import BoxLimits
from kernelderby.judge.sandbox.cgroup_v1 import CONTROLS, HierarchyV1
from kernelderby.judge.sandbox.cgroup_v2 import HierarchyV2
from kernelderby.judge.sandbox.groups import group_name


class Group(Protocol):
    """The control group of one box."""

    kind: str                    # cgroup_v1, cgroup_v2
    controls: frozenset[str]     # which of memory, pids, freezer it has

    def join_files(self) -> list[Path]:
        """Files into which a process writes 0 to join."""

    def limit(self, limits: BoxLimits) -> None:
        """Set memory and processes. Raises SandboxUnavailable."""

    def freezer(self) -> dict[str, Any]:
        """For `freezer_from`."""

    def oom_killed(self) -> bool:
        """Whether the kernel killed a process of it for want of memory."""

    def remove(self) -> None:
        """Kill what is left in it and take it away."""


class Hierarchy(Protocol):
    """Where groups can be made."""

    kind: str
    controls: frozenset[str]

    def new(self, box: int) -> Group:
        """An empty group. Raises SandboxUnavailable."""

    def clear_orphans(self) -> None:
        """Take away the groups whose makers are gone."""


def find_hierarchy(proc: Path = Path("/proc/self")) -> Hierarchy | None:
    """Where this process may make groups, v1 first where memory is counted there; None where nowhere. Clears orphans away."""
    hierarchy = _find(proc)
    if hierarchy:
        hierarchy.clear_orphans()
    return hierarchy


def _find(proc: Path) -> Hierarchy | None:
    own = _own_groups((proc / "cgroup").read_text())
    mounts = list(_mounts((proc / "mountinfo").read_text()))
    v1 = {name: parent for name in CONTROLS if (parent := _v1_parent(name, own, mounts))}
    if "memory" in v1:
        return HierarchyV1(v1, [m.point for name in CONTROLS for m in mounts if name in m.controllers])
    for mount in mounts:
        if mount.kind == "cgroup2" and (parent := _v2_parent(mount.path_of(own.get("", "/")), mount.point)):
            return HierarchyV2(parent, mount.point)
    return None


@dataclass(frozen=True, kw_only=True)
class _Mount:
    point: Path
    root: str                     # which part of the hierarchy lies at `point`
    kind: str                     # cgroup, cgroup2
    controllers: frozenset[str]

    def path_of(self, group: str) -> Path:
        """Where a group of /proc/self/cgroup lies under this mount; its top when it lies outside."""
        inside = group.removeprefix(self.root if self.root != "/" else "").lstrip("/")
        path = self.point / inside
        return path if path.is_dir() else self.point


def _own_groups(text: str) -> dict[str, str]:
    """Controller → the group we are in; the v2 hierarchy under the empty name."""
    own: dict[str, str] = {}
    for line in text.splitlines():
        _, names, path = line.split(":", 2)
        own |= dict.fromkeys(names.split(","), path)
    return own


def _mounts(text: str) -> Iterator[_Mount]:
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            _, _, _, root, point, *_ = left.split(" ")
            yield _Mount(point=Path(point), root=root, kind=kind, controllers=frozenset(options.split(",")))


def _v1_parent(controller: str, own: Mapping[str, str], mounts: Iterable[_Mount]) -> Path | None:
    for mount in mounts:
        if mount.kind == "cgroup" and controller in mount.controllers:
            return next(filter(_can_make, [mount.path_of(own.get(controller, "/")), mount.point]), None)
    return None


def _v2_parent(own: Path, top: Path) -> Path | None:
    """The nearest group from our own upwards that may hold children with memory and pids."""
    for group in (own, *own.parents):
        with suppress(OSError):
            handed_on = (group / "cgroup.subtree_control").read_text().split()
            if {"memory", "pids"} <= set(handed_on) and _can_make(group):
                return group
        if group == top:
            break
    return None


def _can_make(parent: Path) -> bool:
    """By trying: access rights alone say nothing about read-only mounts and delegation."""
    trial = parent / group_name(0)
    try:
        trial.mkdir()
        with open(trial / "cgroup.procs", "w"):
            pass
    except OSError:
        return False
    finally:
        with suppress(OSError):
            trial.rmdir()
    return True
