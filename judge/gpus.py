"""The GPUs of this machine: by their nodes, named by the driver. Imports no torch and opens no context."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kernelderby.core.devices import DeviceClass, class_of_gpu
from kernelderby.core.errors import DerbyError
from kernelderby.core.text import one_line
from kernelderby.judge.referee.cuda.nvml import Gpu
from kernelderby.judge.sandbox.devices import gpu_numbers


@dataclass(frozen=True, kw_only=True)
class Found:
    """A GPU that is here."""

    number: int                      # of its node: 0 is /dev/nvidia0
    name: str | None                 # as the driver says it; None: the driver did not answer
    device: DeviceClass | None       # the class that it judges for
    message: str | None = None       # why it judges for none


def gpus(nodes: Path = Path("/dev"), name_of: Callable[[int], str] | None = None) -> list[Found]:
    """Every GPU with a node here, in order. A driver that is missing or broken is told in `message`, never raised."""
    return [_found(number, name_of or _name) for number in gpu_numbers(nodes)]


def _found(number: int, name_of: Callable[[int], str]) -> Found:
    try:
        name = one_line(name_of(number), 80)
    except DerbyError as error:
        return Found(number=number, name=None, device=None, message=f"GPU {number} (/dev/nvidia{number}) is not used: {error.message}")
    device = class_of_gpu(name)
    message = None if device else f"GPU {number} ({name}) is not used: no device class fits it."
    return Found(number=number, name=name, device=device, message=message)


def _name(number: int) -> str:
    return Gpu(number).name()
