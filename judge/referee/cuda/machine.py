"""What this runner's GPU is, and how it is doing."""

from contextlib import suppress
from functools import cache
from typing import Any

import torch
from cuda.bindings import driver

from kernelderby.judge.referee.cuda.nvml import Gpu, NvmlUnavailable

MOST_GPUS = 64      # of a host


def machine() -> dict[str, Any]:
    """For the verdict's environment."""
    properties = torch.cuda.get_device_properties(0)
    code, cuda = driver.cuDriverGetVersion()
    return {"gpu": properties.name, "driver": _driver(), "cuda": None if int(code) else f"{cuda // 1000}.{cuda % 1000 // 10}",
            "multiprocessors": properties.multi_processor_count, "l2_bytes": properties.L2_cache_size}


@cache
def this_gpu() -> Gpu:
    """The GPU of this process's context, whatever number its node has. Raises NvmlUnavailable."""
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    for minor in range(MOST_GPUS):
        with suppress(NvmlUnavailable):
            gpu = Gpu(minor)
            if gpu.uuid() == uuid:
                return gpu
    raise NvmlUnavailable


def _driver() -> str | None:
    try:
        with open("/sys/module/nvidia/version") as file:
            return file.read().strip()
    except OSError:
        return None
