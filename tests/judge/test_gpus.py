"""The GPUs of a machine are found by their nodes; what cannot be used is told in a sentence, and nothing raises."""

import subprocess
import sys
from pathlib import Path

import pytest

from kernelderby.core.devices import class_of_gpu
from kernelderby.judge.gpus import gpus
from kernelderby.judge.referee.cuda.nvml import NvmlUnavailable


@pytest.mark.parametrize(("name", "device"), [
    ("NVIDIA H200", "h200"), ("NVIDIA H200 NVL", "h200"), ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA H100 PCIe", "h100"),
    ("NVIDIA B200", "b200"), ("NVIDIA GH200 480GB", None), ("NVIDIA GB200", None), ("NVIDIA A100-SXM4-80GB", None),
    ("NVIDIA GeForce RTX 4090", None), ("CPU", None), ("", None), ("NVIDIA H2000", None),
])
def test_a_name_has_one_class_or_none(name: str, device: str | None) -> None:
    found = class_of_gpu(name)

    assert (found.name if found else None) == device


def nodes(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch()
    return folder


def test_every_node_is_a_gpu_and_nothing_else_is(tmp_path: Path) -> None:
    dev = nodes(tmp_path, "nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia0p1", "null")

    found = gpus(dev, lambda number: {2: "NVIDIA H200", 10: "NVIDIA A10"}[number])

    assert [(g.number, g.name, g.device and g.device.name) for g in found] == [(2, "NVIDIA H200", "h200"), (10, "NVIDIA A10", None)]
    assert found[0].message is None
    assert found[1].message == "GPU 10 (NVIDIA A10) is not used: no device class fits it."


def test_a_driver_that_does_not_answer_is_told(tmp_path: Path) -> None:
    def silent(number: int) -> str:
        raise NvmlUnavailable

    found = gpus(nodes(tmp_path, "nvidia0"), silent)

    assert [(g.name, g.device) for g in found] == [(None, None)]
    assert str(found[0].message).startswith("GPU 0 (/dev/nvidia0) is not used: NVML cannot be asked")


def test_without_a_node_nobody_is_asked(tmp_path: Path) -> None:
    def asked(number: int) -> str:
        raise AssertionError

    assert gpus(tmp_path, asked) == []


def test_a_node_without_any_driver_behind_it_is_told(tmp_path: Path) -> None:
    """With the real library, and no GPU by such a number."""
    found = gpus(nodes(tmp_path, "nvidia999"))

    assert [g.device for g in found] == [None] and found[0].message


def test_looking_imports_no_torch() -> None:
    program = "import sys; from kernelderby.judge.gpus import gpus; gpus(); sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-P", "-c", program], check=False).returncode == 0
