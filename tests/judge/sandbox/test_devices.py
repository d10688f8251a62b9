"""Which GPU a process sees: named by the number of its node, counted by CUDA among the nodes that are here."""

from pathlib import Path

import pytest

from kernelderby.judge.sandbox.devices import one_gpu

NODES = {
    "the first of two": (["nvidia0", "nvidia1"], 0, "0"),
    "the second of two": (["nvidia0", "nvidia1"], 1, "1"),
    "the only one of a container": (["nvidia3"], 3, "0"),
    "numbers, not letters, make the order": ([f"nvidia{n}" for n in range(12)], 11, "11"),
    "one that is not here": (["nvidia0"], 5, "5"),
}


@pytest.mark.parametrize("which", NODES)
def test_a_process_outside_a_box_sees_that_gpu_alone(which: str, tmp_path: Path) -> None:
    nodes, gpu, place = NODES[which]
    for name in (*nodes, "nvidiactl", "nvidia-uvm", "nvidia-caps"):
        (tmp_path / name).touch()

    assert one_gpu(gpu, tmp_path) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": place}
