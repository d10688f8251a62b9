"""When a certificate holds, and what is said when it does not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.devices import CPU, DEVICES
from kernelderby.core.errors import SetupError
from kernelderby.core.light import DATASHEET, Ceilings
from kernelderby.core.runner import UNKNOWN_RUNNER, RunnerFacts
from kernelderby.core.settings import Settings
from kernelderby.judge.acceptance.certificate import (
    Machine,
    calibration_file,
    certificate_file,
    facts_of,
    issued,
    judge_hash,
    machine_of,
    read,
    runner_facts,
    why_void,
    write,
)
from kernelderby.judge.receipts import SigningKey, load_key
from kernelderby.judge.referee.cuda.nvml import Gpu
from tests.judge.fake_nvml import FakeNvml

HERE = Machine(device="h200", uuid="GPU-1", driver="580.95.05", torch="2.11.0", judge="0123456789ab")
BOUND = {"share": 0.002, "us": 0.4}
KEY, OTHER_KEY = SigningKey(bytes(32)), SigningKey(bytes([1]) * 32)


def report(**changed: Any) -> dict[str, Any]:
    return {"gpu": "NVIDIA H200", "checks": [], "bound": BOUND, **changed}


@pytest.mark.parametrize(("changed", "reason"), [
    ({}, None), ({"driver": "590.1"}, "driver"), ({"uuid": "GPU-2"}, "uuid"), ({"torch": "2.13.0"}, "torch"),
    ({"judge": "ba9876543210"}, "judge"), ({"device": "h100"}, "device"),
])
def test_a_certificate_holds_until_something_it_was_made_for_changes(changed: dict[str, str], reason: str | None) -> None:
    signed = issued(KEY, HERE, report(), [])

    assert why_void(json.loads(json.dumps(signed)), replace(HERE, **changed), KEY.public) == reason


@pytest.mark.parametrize(("signed", "reason"), [
    (issued(KEY, HERE, report(), ["counters", "spread"]), "counters"),
    (issued(OTHER_KEY, HERE, report(), []), "signature"),
    ({**issued(KEY, HERE, report(), ["counters"]), "failed": []}, "signature"),
    ({**issued(KEY, HERE, report(), []), "kind": "verdict"}, "signature"),
    ({"kind": "certificate"}, "signature"),
], ids=["failed", "another key", "changed by hand", "another kind", "not signed"])
def test_what_is_no_certificate_says_why(signed: dict[str, Any], reason: str) -> None:
    assert why_void(signed, HERE, KEY.public) == reason


def test_a_runner_is_told_what_its_data_folder_knows(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    assert facts_of(settings, HERE) == RunnerFacts(gpu="GPU-1")

    measured = RunnerFacts(measured=DATASHEET["h200"]).as_json()["measured"]
    write(calibration_file(settings, "GPU-1"), {"device": "h200", "measured": measured})
    signed = issued(load_key(settings), HERE, report(), [])
    write(certificate_file(settings, "GPU-1"), signed)

    found = facts_of(settings, HERE)
    assert isinstance(found.measured, Ceilings) and found.measured == DATASHEET["h200"]
    assert (found.certificate, found.failed_check, found.bound_share, found.bound_us) == (signed["id"], None, 0.002, 0.4)


def test_a_void_certificate_gives_its_bound_up(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    write(certificate_file(settings, "GPU-1"), issued(load_key(settings), HERE, report(), []))

    found = facts_of(settings, replace(HERE, driver="590.1"))

    assert (found.standing, found.bound_share, found.bound_us) == ("failed: driver", 0.0, 0.0)


def test_a_cpu_and_a_machine_without_nvml_are_unknown_runners(tmp_path: Path) -> None:
    assert runner_facts(Settings(data=tmp_path), CPU) == UNKNOWN_RUNNER
    assert not list(tmp_path.iterdir())


def test_a_machine_is_what_nvml_and_our_own_sources_say() -> None:
    found = machine_of(DEVICES["h200"], Gpu(library=FakeNvml()))

    assert (found.device, found.uuid, found.driver, found.judge) == ("h200", "GPU-1", "580.95.05", judge_hash())


def test_the_hash_of_the_judge_changes_with_any_of_its_sources(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.py").write_text("a")
    before = judge_hash(tmp_path)
    (tmp_path / "note.txt").write_text("no source")
    assert judge_hash(tmp_path) == before

    (tmp_path / "sub/a.py").write_text("b")
    assert judge_hash(tmp_path) != before


def test_a_spoilt_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "GPU-1.json"
    path.write_text("{")

    with pytest.raises(SetupError, match=r"GPU-1\.json cannot be read\. Delete it"):
        read(path)


RATES = {"flops": {"float32": 1e14}, "bytes": 4e12, "exps": 4e12, "cache_bytes": 6e7}


@pytest.mark.parametrize("measured", [
    [1], "x", 7, {"bytes": 1.0}, {**RATES, "more": 1.0}, {**RATES, "bytes": 0}, {**RATES, "bytes": -1.0}, {**RATES, "exps": float("nan")},
    {**RATES, "exps": float("inf")}, {**RATES, "bytes": "4e12"}, {**RATES, "flops": [1.0]}, {**RATES, "flops": {}},
    {**RATES, "flops": {"float32": None}},
])
def test_a_calibration_changed_by_hand_is_told_and_never_judged_with(measured: Any, tmp_path: Path) -> None:
    settings = Settings(data=tmp_path)
    calibration_file(settings, HERE.uuid).parent.mkdir()
    calibration_file(settings, HERE.uuid).write_text(json.dumps({"device": HERE.device, "measured": measured}))

    with pytest.raises(SetupError, match="Delete it"):
        facts_of(settings, HERE)
