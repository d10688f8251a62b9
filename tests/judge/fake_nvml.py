"""A module that answers like pynvml, of one H200 that does what a test says."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    """As pynvml has it."""


@dataclass
class FakeNvml:
    """One GPU. What `broken` names raises, as on a machine that does not tell it."""

    name: str = "NVIDIA H200"
    minor: int = 0
    clock: int = 1980
    reasons: int = 0
    pids: list[int] = field(default_factory=list)
    held: int | None = 1 << 30      # bytes a process
    mps_pids: list[int] = field(default_factory=list)
    driver: str = "580.95.05"
    broken: frozenset[str] = frozenset()
    NVML_CLOCK_SM: int = 1
    NVML_TEMPERATURE_GPU: int = 0
    NVMLError: type[Exception] = NVMLError

    def __getattr__(self, question: str) -> Any:
        if question not in _ANSWERS:
            raise AttributeError(question)

        def ask(*arguments: Any) -> Any:
            if question in self.broken:
                raise NVMLError("Not Supported")
            return _ANSWERS[question](self)

        return ask


_ANSWERS: dict[str, Any] = {
    "nvmlInit": lambda fake: None,
    "nvmlDeviceGetCount": lambda fake: 1,
    "nvmlDeviceGetHandleByIndex": lambda fake: "handle",
    "nvmlDeviceGetMinorNumber": lambda fake: fake.minor,
    "nvmlDeviceGetUUID": lambda fake: "GPU-1",
    "nvmlDeviceGetName": lambda fake: fake.name,
    "nvmlSystemGetDriverVersion": lambda fake: fake.driver,
    "nvmlDeviceGetComputeRunningProcesses": lambda fake: [SimpleNamespace(pid=pid, usedGpuMemory=fake.held) for pid in fake.pids],
    "nvmlDeviceGetMPSComputeRunningProcesses": lambda fake: [SimpleNamespace(pid=pid) for pid in fake.mps_pids],
    "nvmlDeviceGetMemoryInfo": lambda fake: SimpleNamespace(free=5 << 30),
    "nvmlDeviceGetClockInfo": lambda fake: fake.clock,
    "nvmlDeviceGetTemperature": lambda fake: 41,
    "nvmlDeviceGetPowerUsage": lambda fake: 123_456,
    "nvmlDeviceGetCurrentClocksEventReasons": lambda fake: fake.reasons,
}
