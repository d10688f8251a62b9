"""What NVIDIA's management library tells of one GPU. Imports no torch, opens no context: any process may ask."""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from kernelderby.core.errors import DerbyError
from kernelderby.judge.referee.steadiness import Reading

T = TypeVar("T")

REASONS = {      # bits of NVML's clocks event reasons
    0x001: "idle", 0x002: "application_clocks", 0x004: "sw_power_cap", 0x008: "hw_slowdown", 0x010: "sync_boost",
    0x020: "sw_thermal_slowdown", 0x040: "hw_thermal_slowdown", 0x080: "hw_power_brake_slowdown", 0x100: "display_clocks",
}


class NvmlUnavailable(DerbyError):
    """NVML cannot be asked about this GPU. Install the package nvidia-ml-py and the NVIDIA driver's libnvidia-ml."""


class Gpu:
    """One GPU, by the number of its node: 0 is /dev/nvidia0. Every question may raise NvmlUnavailable."""

    def __init__(self, minor: int = 0, library: ModuleType | Any = None) -> None:
        """`library` is pynvml, or what answers like it."""
        self.minor = minor
        self._library = library or _library()
        self._ask(self._library.nvmlInit)
        self._handle = self._of_minor(minor)

    def uuid(self) -> str:
        """As `nvidia-smi -L` shows it: GPU-…"""
        return _text(self._ask(self._library.nvmlDeviceGetUUID, self._handle))

    def name(self) -> str:
        """Such as NVIDIA H200."""
        return _text(self._ask(self._library.nvmlDeviceGetName, self._handle))

    def driver_version(self) -> str:
        """Such as 580.95.05."""
        return _text(self._ask(self._library.nvmlSystemGetDriverVersion))

    def processes(self) -> list[int]:
        """Process ids that hold a context, as NVML's own namespace numbers them; under MPS those of its clients too."""
        found = [*self._ask(self._library.nvmlDeviceGetComputeRunningProcesses, self._handle), *self.mps_clients()]
        return sorted({int(process.pid) for process in found})

    def held_bytes(self) -> int | None:
        """Device memory that those processes hold together; None where the driver does not tell it of each."""
        found = [process.usedGpuMemory for process in self._ask(self._library.nvmlDeviceGetComputeRunningProcesses, self._handle)]
        return None if None in found else sum(map(int, found))

    def mps_clients(self) -> list[Any]:
        """Processes that share one context through MPS; none where the library does not know."""
        ask = getattr(self._library, "nvmlDeviceGetMPSComputeRunningProcesses", None)
        return list(_or_none(lambda: self._ask(ask, self._handle)) or ()) if ask else []

    def free_bytes(self) -> int:
        """Device memory that nobody holds."""
        return int(self._ask(self._library.nvmlDeviceGetMemoryInfo, self._handle).free)

    def sm_clock_mhz(self) -> int:
        """The multiprocessors' clock at this moment."""
        return int(self._ask(self._library.nvmlDeviceGetClockInfo, self._handle, self._library.NVML_CLOCK_SM))

    def throttle_reasons(self) -> tuple[str, ...]:
        """Why the clock is not higher at this moment, in names."""
        newer = getattr(self._library, "nvmlDeviceGetCurrentClocksEventReasons", None)
        bits = int(self._ask(newer or self._library.nvmlDeviceGetCurrentClocksThrottleReasons, self._handle))
        return tuple(name for bit, name in REASONS.items() if bits & bit)

    def temperature_c(self) -> int:
        """Of the chip."""
        return int(self._ask(self._library.nvmlDeviceGetTemperature, self._handle, self._library.NVML_TEMPERATURE_GPU))

    def power_w(self) -> float:
        """What the board draws, as the driver averages it."""
        return int(self._ask(self._library.nvmlDeviceGetPowerUsage, self._handle)) / 1000

    def read(self) -> Reading:
        """All of it that can be had; raises nothing."""
        return Reading(sm_clock_mhz=_or_none(self.sm_clock_mhz), temperature_c=_or_none(self.temperature_c),
                       power_w=_or_none(self.power_w), reasons=_or_none(self.throttle_reasons))

    def _of_minor(self, minor: int) -> Any:
        """NVML numbers by PCI address; a node's number may differ from that."""
        handles = [self._ask(self._library.nvmlDeviceGetHandleByIndex, i) for i in range(self._ask(self._library.nvmlDeviceGetCount))]
        minors = {_or_none(partial(self._ask, self._library.nvmlDeviceGetMinorNumber, handle)): handle for handle in handles}
        if minor not in minors and None not in minors:
            raise NvmlUnavailable(f"NVML knows no GPU number {minor} here: look at `nvidia-smi -L`.")
        return minors.get(minor, minors.get(None))      # some virtual machines do not tell the number

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except self._library.NVMLError as error:
            raise NvmlUnavailable(f"NVML did not answer ({error}). Does `nvidia-smi` work here?") from None


def _library() -> ModuleType:
    try:
        import pynvml
    except ImportError:
        raise NvmlUnavailable from None
    return pynvml      # type: ignore[no-any-return]


def _or_none(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except NvmlUnavailable:
        return None


def _text(answer: str | bytes) -> str:
    return answer.decode() if isinstance(answer, bytes) else answer
