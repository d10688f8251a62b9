"""What a judging is asked to do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.problem_folder import Problem
from kernelderby.core.verdict import Mode

Report = Callable[[str, dict[str, Any]], None]      # told of each step, as kind and data


@dataclass(frozen=True, kw_only=True)
class Job:
    """All that one judging needs."""

    submission: int | None      # None: judged here, without a server
    attempt: int
    problem: Problem
    device: DeviceClass
    mode: Mode
    file_name: str
    source: bytes
    seed: bytes                 # 32 bytes that nobody can guess
    artifacts: Mapping[str, bytes] = field(default_factory=dict)      # the libraries of its build, by key; the judge adds them
