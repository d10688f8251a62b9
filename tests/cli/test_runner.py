"""`derby calibrate`, `derby runner accept`, and what `derby doctor` says of a certificate: as a person calls them, without a GPU."""

from pathlib import Path
from typing import Any

import pytest

from kernelderby.cli import calibrate, runner
from kernelderby.core.light import DATASHEET
from kernelderby.core.runner import RunnerFacts
from kernelderby.core.settings import Settings
from tests.cli.conftest import Shell

HAS_GPU = Path("/dev/nvidia0").exists()
FOUND: dict[str, Any] = {
    "device": "h200", "gpu": "NVIDIA H200", "uuid": "GPU-1", "driver": "580.95.05", "memory": {"read": 4.2e12, "copy": 4.3e12},
    "measured": {"flops": {"bfloat16": 750e12, "float32": 400e12}, "bytes": 4.3e12, "exps": 4.0e12, "cache_bytes": 60 << 20},
    "null": {"wall_us": 150.21, "spread": 0.003, "drift_us": 0.12},
}


@pytest.mark.parametrize("command", [["calibrate"], ["runner", "accept"]], ids=" ".join)
@pytest.mark.parametrize(("device", "status", "says"), [
    ("cpu", 2, "The class cpu is for practice"), ("a100", 2, "There is no device class 'a100'"),
    pytest.param("h200", 3, "no NVIDIA GPU", marks=pytest.mark.skipif(HAS_GPU, reason="there is a GPU here")),
])
def test_a_class_without_a_certificate_is_told_so(command: list[str], device: str, status: int, says: str, shell: Shell) -> None:
    done = shell.derby(*command, "--device", device, "--json")

    assert (done.returncode, done.stdout) == (status, "")
    assert says in done.stderr and "Traceback" not in done.stderr


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU here")
@pytest.mark.parametrize("command", [("judge", "{0}"), ("duel", "{0}", "{0}"), ("problem", "check", "vector_add"),
                                     ("worker",)], ids=" ".join)
def test_judging_for_a_gpu_class_without_a_gpu_is_one_sentence(command: tuple[str, ...], tmp_path: Path, shell: Shell) -> None:
    kernel = tmp_path / "k.py"
    kernel.write_text("#!POPCORN leaderboard vector_add\ndef custom_kernel(data): ...\n")
    done = shell.derby(*(word.format(kernel) for word in command), "--device", "h200")

    assert (done.returncode, done.stdout) == (3, "")
    assert "no NVIDIA GPU" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("certificate", "failed", "works", "found"), [
    ("c0ffee", None, True, "c0ffee"), (None, "counters", None, "void: counters"), (None, None, None, "none"),
])
def test_doctor_names_the_certificate(certificate: str | None, failed: str | None, works: bool | None, found: str) -> None:
    said = runner.checks_of(RunnerFacts(gpu="GPU-1", certificate=certificate, failed_check=failed, measured=DATASHEET["h200"]))

    assert [(check.part, check.works, check.found) for check in said] == [("certificate", works, found)]
    assert works or "derby runner accept" in (said[0].fix or "")


def test_doctor_names_ceilings_that_were_never_measured() -> None:
    assert [check.part for check in runner.checks_of(RunnerFacts(gpu="GPU-1"))] == ["certificate", "ceilings"]


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU here")
def test_doctor_says_nothing_of_certificates_where_there_is_no_gpu(tmp_path: Path) -> None:
    assert list(runner.state(Settings(data=tmp_path))) == []


def test_ceilings_are_printed_beside_the_data_sheet() -> None:
    lines = calibrate.lines(FOUND, "runners/GPU-1.json")

    assert [line.split() for line in lines[2:4]] == [["bfloat16", "products,", "TFLOP/s", "750.00", "989.40", "76%"],
                                                     ["float32", "products,", "TFLOP/s", "400.00", "494.70", "81%"]]
    assert "exponentials" in lines[5] and lines[5].endswith("96%")
    assert "150.2 µs" in lines[7] and "runners/GPU-1.json" in lines[-1]
