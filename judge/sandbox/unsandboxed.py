"""No walls at all: a plain process with the user's own rights. For one's own file, with `derby judge --sandbox none`; never ranked."""

import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from kernelderby.core.devices import CPU
from kernelderby.judge.sandbox import harness
from kernelderby.judge.sandbox.base import Box, Capabilities
from kernelderby.judge.sandbox.cgroup import Hierarchy, find_hierarchy
from kernelderby.judge.sandbox.devices import one_gpu
from kernelderby.judge.sandbox.probe import probe
from kernelderby.judge.sandbox.process import Plan, ProcessBox, start_box


class Unsandboxed:
    """Starts the harness as it is. Where a control group can be made, a box is still limited and wholly ended."""

    name = "none"
    has_walls = False
    own_uid = False

    def __init__(self, find_groups: Callable[[], Hierarchy | None] = find_hierarchy, gpu: int = 0) -> None:
        self._find_groups = find_groups
        self._gpu = gpu

    def capabilities(self) -> Capabilities:
        return self._capabilities

    def start(self, device: str) -> Box:
        variables = harness.environment(device, home=self._home.name, python_path=[p for p in sys.path if p])
        return self.launch(harness.PROGRAM, variables if device == CPU.name else variables | one_gpu(self._gpu))

    def workshop(self, shown: Sequence[Path]) -> Box:
        variables = harness.environment(CPU.name, home=self._home.name, python_path=[p for p in sys.path if p])
        return self.launch(harness.WORKSHOP, variables)

    def launch(self, program: Sequence[str], variables: Mapping[str, str]) -> ProcessBox:
        """A box that runs any program; the descriptor of its wire is its last argument. Raises SandboxUnavailable."""
        return start_box(
            lambda wire: Plan(argv=[*program, str(wire)], env=variables, steps=[f"parent_death={int(signal.SIGKILL)}"]), self._groups
        )

    @cached_property
    def _capabilities(self) -> Capabilities:
        return probe(self)

    @cached_property
    def _groups(self) -> Hierarchy | None:
        return self._find_groups()

    @cached_property
    def _home(self) -> "tempfile.TemporaryDirectory[str]":
        return tempfile.TemporaryDirectory(prefix="derby-box-")
