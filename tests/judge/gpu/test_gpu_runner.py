"""The runner itself, on a real GPU: NVML answers, ceilings are those of such a part, memory is cleared, a receipt tells the clocks."""

from pathlib import Path

import pytest

from benchmarks.gpu.gallery import HONEST
from kernelderby.core.devices import device
from kernelderby.core.light import Ceilings
from kernelderby.core.settings import Settings
from kernelderby.judge.acceptance import checks
from kernelderby.judge.acceptance.calibration import CEILINGS, of_process
from kernelderby.judge.acceptance.here import class_of, this_gpu
from kernelderby.judge.judging import Judge
from tests.judge.gpu.addition import addition, judged

pytestmark = pytest.mark.gpu

SCRUB = "kernelderby.judge.referee.cuda.scrub"


def test_nvml_tells_of_the_gpu_all_that_a_receipt_holds(gpu: str) -> None:
    found = this_gpu(Settings.from_env())

    assert class_of(found, None).name == gpu and found.uuid().startswith("GPU-") and found.free_bytes() > 0
    reading = found.read()
    assert reading.sm_clock_mhz and reading.temperature_c and reading.power_w and reading.reasons is not None


def test_ceilings_and_clocks_are_those_of_such_a_part(gpu: str) -> None:
    found = of_process(CEILINGS)

    measured = Ceilings(**found["measured"])
    assert {"float16", "bfloat16", "float32"} <= set(measured.flops)
    for check in (checks.ceilings(measured, device(gpu)), checks.clocks(found["load"])):
        assert check.ok, check.message


def test_memory_that_a_process_gave_up_is_cleared(gpu: str) -> None:
    found = checks.scrubbed(of_process(SCRUB, "leave"), of_process(SCRUB, "find"))

    assert found.ok, found.message


def test_a_receipt_tells_how_the_gpu_was_around_each_block(judge: Judge, gpu: str, tmp_path: Path) -> None:
    verdict = judged(judge, addition(tmp_path, 67_108_864), gpu, HONEST)

    (rows,) = verdict.receipt["gauges"].values()
    (blocks,) = verdict.receipt["blocks_us"].values()
    assert verdict.accepted, verdict.message
    assert [row["counts"] for row in rows].count(True) == len(blocks) >= 3
    assert all(row["after"]["sm_clock_mhz"] > 0 for row in rows)
