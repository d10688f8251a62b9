"""The devices of a class as a box sees them: one GPU's node and the driver's own files, nothing of the other GPUs."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from kernelderby.core.devices import device
from kernelderby.core.errors import SandboxUnavailable

_SHARED_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")     # of the driver itself; every context opens them
_LIBRARY = "libcuda.so.1"


def device_arguments(name: str, gpu: int = 0) -> list[str]:
    """bubblewrap's arguments for a class, to stand behind its `--dev`. Raises SandboxUnavailable when there is no such GPU here."""
    if device(name).arch is None:
        return []
    node = gpu_node(gpu)
    if not node.exists():
        raise SandboxUnavailable(f"There is no {node} here, so no box for {name} can be started: load the NVIDIA driver, "
                                 "or name another GPU with DERBY_GPU.")
    nodes = [node, *(path for path in (Path("/dev", shared) for shared in _SHARED_NODES) if path.exists())]
    return [word for path in nodes for word in ("--dev-bind", str(path), str(path))]


def gpu_node(gpu: int) -> Path:
    """The device node of the GPU of that number."""
    return Path(f"/dev/nvidia{gpu}")


def gpu_numbers(nodes: Path = Path("/dev")) -> list[int]:
    """The numbers of the GPUs that have a node here, in order: 0 is /dev/nvidia0."""
    return sorted(int(tail) for node in nodes.glob("nvidia[0-9]*") if (tail := node.name.removeprefix("nvidia")).isdecimal())


def one_gpu(gpu: int, nodes: Path = Path("/dev")) -> dict[str, str]:
    """What makes a process outside a box see that GPU alone. CUDA counts the GPUs that have a node here, by their place on the bus."""
    numbers = gpu_numbers(nodes)
    place = numbers.index(gpu) if gpu in numbers else gpu
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(place)}


def device_variables(name: str) -> dict[str, str]:
    """What a box of the class finds in its environment besides."""
    library = next(_driver_libraries(), None) if device(name).arch else None
    return {"TRITON_LIBCUDA_PATH": str(library)} if library else {}      # Triton would ask ldconfig, which a box has not


def driver_folders() -> list[Path]:
    """Where the driver's libraries lie, when not among the system's own."""
    usual = (Path("/usr/lib"), Path("/usr/lib64"), Path("/lib"), Path("/lib64"))
    return sorted({path for path in _driver_libraries() if not any(path.is_relative_to(folder) for folder in usual)})


def _driver_libraries() -> Iterator[Path]:
    program = shutil.which("ldconfig", path=f"{os.defpath}:/sbin:/usr/sbin")
    known = subprocess.run([program, "-p"], capture_output=True, text=True, check=False).stdout if program else ""
    for line in known.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.split(" ")[0] == _LIBRARY and Path(path).exists():
            yield Path(path).parent
            yield Path(path).resolve().parent
