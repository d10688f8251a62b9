"""Each check of a runner, on machines as data: what passes, and which sentence tells what does not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.devices import DEVICES
from kernelderby.core.light import DATASHEET, Ceilings
from kernelderby.judge.acceptance import checks
from kernelderby.judge.acceptance.checks import CheckResult
from kernelderby.judge.referee.cuda.nvml import Gpu
from kernelderby.judge.sandbox.base import Capabilities
from tests.judge.fake_nvml import FakeNvml

GOOD = Capabilities(name="bubblewrap", works=True, memory_limit="cgroup_v2", process_limit="cgroup_v2", freeze="cgroup_v2", own_uid=True)
SHEET = DATASHEET["h200"]
USUAL = Ceilings(flops={"bfloat16": 750e12, "float32": 400e12}, bytes=4.3e12, exps=4.0e12, cache_bytes=60 << 20)
BOUND = {"share": 0.001, "us": 0.4}


def load(*mhz: int | None, reasons: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"copy": [{"sm_clock_mhz": one, "reasons": list(reasons)} for one in mhz], "matrix": []}


@pytest.mark.parametrize(("can", "failed"), [
    (GOOD, []),
    (replace(GOOD, works=False), ["sandbox"]),
    (replace(GOOD, network=True), ["sandbox"]),
    (replace(GOOD, freeze="none"), ["freeze"]),
    (replace(GOOD, freeze="sigstop"), []),
    (replace(GOOD, own_uid=False), ["uid"]),
    (replace(GOOD, memory_limit="rlimit"), ["limits"]),
    (replace(GOOD, process_limit="none"), ["limits"]),
    (Capabilities(name="none", works=True), ["sandbox", "freeze", "uid", "limits"]),
])
def test_what_a_sandbox_lacks_is_named(can: Capabilities, failed: list[str]) -> None:
    assert [check.name for check in checks.sandbox(can) if not check.ok] == failed


@pytest.mark.parametrize(("text", "ok"), [
    ("ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n", True), ("RmProfilingAdminOnly: 0\n", False), ("", False), (None, False),
])
def test_open_counters_fail_a_runner(tmp_path: Path, text: str | None, ok: bool) -> None:
    params = tmp_path / "params"
    if text is not None:
        params.write_text(text)

    found = checks.counters(params)

    assert found.ok is ok
    assert ok or "NVreg_RestrictProfilingToAdminUsers=1" in found.message


def test_another_process_on_the_gpu_fails_a_runner() -> None:
    assert checks.alone(Gpu(library=FakeNvml())).ok
    found = checks.alone(Gpu(library=FakeNvml(pids=[17])))
    assert found.ok is False and "17" in found.message


@pytest.mark.parametrize(("command", "clients", "ok"), [
    ("python", [], True), ("nvidia-cuda-mps", [], False), ("python", [4], False),      # the kernel keeps 15 letters of a name
])
def test_mps_fails_a_runner(tmp_path: Path, command: str, clients: list[int], ok: bool) -> None:
    (tmp_path / "12").mkdir()
    (tmp_path / "12/comm").write_text(command + "\n")

    assert checks.no_mps(Gpu(library=FakeNvml(mps_pids=clients)), tmp_path).ok is ok


CASES: dict[str, tuple[CheckResult, bool]] = {
    "usual ceilings": (checks.ceilings(USUAL, DEVICES["h200"]), True),
    "slow memory": (checks.ceilings(replace(USUAL, bytes=3.3e12), DEVICES["h200"]), False),
    "slow products": (checks.ceilings(replace(USUAL, flops={**USUAL.flops, "bfloat16": 300e12}), DEVICES["h200"]), False),
    "faster than it can be": (checks.ceilings(replace(USUAL, bytes=1.1 * SHEET.bytes), DEVICES["h200"]), False),
    "steady clocks": (checks.clocks(load(1980, 1965, 1980)), True),
    "power alone": (checks.clocks(load(1700, 1700, reasons=("sw_power_cap",))), True),
    "clocks that wander": (checks.clocks(load(1980, 1980, 1500)), False),
    "hot": (checks.clocks(load(1980, 1980, reasons=("hw_thermal_slowdown",))), False),
    "no clock told": (checks.clocks(load(None, None)), False),
    "scores agree": (checks.spread([90.0, 90.1, 90.2, 90.1, 90.0]), True),
    "scores differ": (checks.spread([90.0, 91.0, 92.0, 90.0, 91.0]), False),
    "no attack pays": (checks.forgery({"a": 0.0, "b": 1.5}, 90.0, BOUND), True),
    "one pays": (checks.forgery({"a": 0.0, "b": 3.5}, 90.0, BOUND), False),
    "one says nothing": (checks.forgery({"a": None}, 90.0, BOUND), False),
    "memory cleared": (checks.scrubbed({"bytes": 9}, {"bytes": 9, "found": 0, "of": 4}), True),
    "memory shows": (checks.scrubbed({"bytes": 9}, {"bytes": 9, "found": 1, "of": 4}), False),
}


@pytest.mark.parametrize("name", CASES)
def test_figures_decide(name: str) -> None:
    found, ok = CASES[name]

    assert found.ok is ok and found.message.strip()
