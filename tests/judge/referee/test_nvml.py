"""What NVML tells of a GPU; where it does not answer, nothing breaks that need not."""

import pytest

from kernelderby.judge.referee.cuda.nvml import Gpu, NvmlUnavailable
from kernelderby.judge.referee.steadiness import Reading
from tests.judge.fake_nvml import FakeNvml


def test_a_gpu_tells_who_it_is_and_how_it_is() -> None:
    gpu = Gpu(library=FakeNvml(reasons=0x44, pids=[7, 3], mps_pids=[9]))

    assert (gpu.uuid(), gpu.name(), gpu.driver_version(), gpu.free_bytes()) == ("GPU-1", "NVIDIA H200", "580.95.05", 5 << 30)
    assert gpu.processes() == [3, 7, 9]
    assert gpu.read() == Reading(sm_clock_mhz=1980, temperature_c=41, power_w=123.456, reasons=("sw_power_cap", "hw_thermal_slowdown"))


def test_what_processes_hold_is_their_sum_or_nothing_where_one_is_not_told() -> None:
    assert Gpu(library=FakeNvml(pids=[3, 7])).held_bytes() == 2 << 30
    assert Gpu(library=FakeNvml()).held_bytes() == 0
    assert Gpu(library=FakeNvml(pids=[3], held=None)).held_bytes() is None


@pytest.mark.parametrize("question", ["nvmlDeviceGetClockInfo", "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage",
                                      "nvmlDeviceGetCurrentClocksEventReasons"])
def test_what_a_machine_does_not_tell_is_missing_from_a_reading_and_nothing_else_is(question: str) -> None:
    reading = Gpu(library=FakeNvml(broken=frozenset({question}))).read()

    assert [value is None for value in (reading.sm_clock_mhz, reading.temperature_c, reading.power_w, reading.reasons)].count(True) == 1


def test_a_question_that_must_be_answered_says_what_to_do_when_it_is_not() -> None:
    with pytest.raises(NvmlUnavailable, match="Not Supported.*nvidia-smi"):
        Gpu(library=FakeNvml(broken=frozenset({"nvmlDeviceGetUUID"}))).uuid()


def test_a_gpu_goes_by_the_number_of_its_node() -> None:
    assert Gpu(3, FakeNvml(minor=3)).uuid() == "GPU-1"
    assert Gpu(0, FakeNvml(minor=3, broken=frozenset({"nvmlDeviceGetMinorNumber"}))).uuid() == "GPU-1"
    with pytest.raises(NvmlUnavailable, match="no GPU number 0"):
        Gpu(0, FakeNvml(minor=3))
