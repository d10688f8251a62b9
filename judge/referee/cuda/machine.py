"""What this runner's GPU is, and how it is doing."""

from typing import Any

import torch
from cuda.bindings import driver


def machine() -> dict[str, Any]:
    """For the verdict's environment."""
    properties = torch.cuda.get_device_properties(0)
    code, cuda = driver.cuDriverGetVersion()
    return {"gpu": properties.name, "driver": _driver(), "cuda": None if int(code) else f"{cuda // 1000}.{cuda % 1000 // 10}",
            "multiprocessors": properties.multi_processor_count, "l2_bytes": properties.L2_cache_size}


def _driver() -> str | None:
    try:
        with open("/sys/module/nvidia/version") as file:
            return file.read().strip()
    except OSError:
        return None
