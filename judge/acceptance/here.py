"""The runner that this machine is."""

from kernelderby.core.devices import DEVICES, DeviceClass, class_of_gpu
from kernelderby.core.errors import RequestError
from kernelderby.core.runner import RunnerFacts
from kernelderby.core.settings import Settings
from kernelderby.judge.acceptance.certificate import facts_of, machine_of
from kernelderby.judge.build.toolkit import Toolkit, find_toolkit
from kernelderby.judge.referee.cuda.nvml import Gpu, NvmlUnavailable
from kernelderby.judge.sandbox.devices import gpu_node


def this_gpu(settings: Settings) -> Gpu:
    """The GPU that judging uses. Raises NvmlUnavailable."""
    try:
        return Gpu(settings.gpu)
    except NvmlUnavailable as error:
        if gpu_node(settings.gpu).exists():
            raise
        missing = f"There is no NVIDIA GPU here to use ({gpu_node(settings.gpu)} is missing), and this needs one."
        raise NvmlUnavailable(f"{missing} {error.message}") from None


def need_gpu(settings: Settings, device: DeviceClass) -> None:
    """Raises NvmlUnavailable for a GPU class where there is no GPU."""
    if device.arch is not None and not gpu_node(settings.gpu).exists():
        this_gpu(settings)


def toolkit() -> Toolkit:
    """The compilers that are installed here."""
    return find_toolkit()


def class_of(gpu: Gpu, said: str | None) -> DeviceClass:
    """The device class of a GPU. Raises RequestError when it is none, or another than was said."""
    name = gpu.name()
    found = class_of_gpu(name)
    if found is None:
        known = ", ".join(device.title for device in DEVICES.values() if device.arch)
        raise RequestError(f"This GPU is a {name}, which is no device class. Known: {known}.")
    if said not in (None, found.name):
        raise RequestError(f"This GPU is a {name}: say --device {found.name}.")
    return found


def this_runner(settings: Settings) -> RunnerFacts | None:
    """What the data folder knows of this machine's GPU; None where there is none, or one of no class."""
    try:
        gpu = this_gpu(settings)
        return facts_of(settings, machine_of(class_of(gpu, None), gpu))
    except (NvmlUnavailable, RequestError):
        return None

