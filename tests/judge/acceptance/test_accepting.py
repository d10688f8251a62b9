"""The story of a runner's acceptance, told on a machine whose GPU is played: checks in order, then a report that is signed."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kernelderby.core.devices import CPU, DEVICES
from kernelderby.core.errors import RequestError
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Gate, Mode, Outcome, Verdict
from kernelderby.judge.acceptance import calibration
from kernelderby.judge.acceptance.accepting import Runner, accept
from kernelderby.judge.acceptance.calibration import CalibrationFailed, GpuBusy, null_figures, of_process, refuse_others
from kernelderby.judge.acceptance.certificate import calibration_file, certificate_file, facts_of, machine_of, read, write
from kernelderby.judge.acceptance.here import class_of
from kernelderby.judge.acceptance.trials import CASE, GALLERY, Trials, attack, bound_of, gains
from kernelderby.judge.judging import open_judge
from kernelderby.judge.referee.cuda.nvml import Gpu
from kernelderby.judge.sandbox.base import Capabilities
from tests.judge.fake_nvml import FakeNvml

CAN = Capabilities(name="bubblewrap", works=True, memory_limit="cgroup_v2", process_limit="cgroup_v2", freeze="cgroup_v2", own_uid=True)
H200 = DEVICES["h200"]
NULL_US = [150.0, 150.2, 150.4, 150.2] * 5 + [150.1, 150.3, 150.5, 150.3] * 5
CEILINGS = {"measured": {"flops": {"float16": 700e12, "float32": 400e12}, "bytes": 4.3e12, "exps": 4e12, "cache_bytes": 60 << 20},
            "load": {"copy": [{"sm_clock_mhz": 1980, "reasons": []}] * 3, "matrix": []}}


def verdict(outcome: Outcome, score_us: float | None = None, gate: Gate | None = None) -> Verdict:
    return Verdict(problem="add", version="v", device="h200", mode=Mode.BENCHMARK, outcome=outcome, gate=gate, score_us=score_us,
                   message="as the test says", receipt={"null_us": {CASE: NULL_US}})


REFUSED = verdict(Outcome.REFUSED, gate=Gate.HONEST_TIME)


@dataclass
class Played(Trials):
    """Trials whose verdicts are the test's own."""

    honest_us: list[float] = field(default_factory=lambda: [95.0, 90.0, 90.1, 90.2, 90.1, 90.0])
    attacks: dict[str, Verdict] = field(default_factory=lambda: dict.fromkeys(GALLERY, REFUSED))
    outcome: Outcome = Outcome.ACCEPTED

    def repeated(self, times: int) -> list[Verdict]:
        return [verdict(self.outcome, score if self.outcome is Outcome.ACCEPTED else None) for score in self.honest_us[:times]]

    def attacked(self) -> dict[str, Verdict]:
        return self.attacks


def accepted(folder: Path, trials: Trials, can: Capabilities = CAN, nvml: FakeNvml | None = None,
             left_behind: int = 0) -> tuple[dict[str, Any], list[str]]:
    """The report, and the names of the checks in the order they were told. What the programs that need a GPU print is data here."""
    params = folder / "params"
    params.write_text("RmProfilingAdminOnly: 1\n")
    said = {"leave": {"bytes": 2**37, "found": None, "of": None}, "find": {"bytes": 2**37, "found": left_behind, "of": 65536},
            calibration.CEILINGS: CEILINGS}
    told: list[str] = []
    runner = Runner(device=H200, gpu=Gpu(library=nvml or FakeNvml()), sandbox=can, trials=trials, params=params,
                    program=lambda *words, gpu: said[words[-1]])
    return accept(Settings(data=folder), runner, lambda result: told.append(result.name)), told


def test_a_runner_that_holds_gets_a_certificate_that_its_judge_finds(tmp_path: Path) -> None:
    report, told = accepted(tmp_path, Played())

    assert told == ["sandbox", "freeze", "uid", "limits", "alone", "counters", "mps", "memory", "ceilings", "clocks", "ipc", "spread",
                    "forgery"]
    assert report["failed"] == []
    assert report["bound"] == {"share": 0.0, "us": pytest.approx(0.1), "largest_gain_us": 0.0, "attacks": len(GALLERY)}
    settings = Settings(data=tmp_path)
    facts = facts_of(settings, machine_of(H200, Gpu(library=FakeNvml())))
    assert (facts.certificate, facts.bound_us) == (report["id"], pytest.approx(0.1))
    assert read(certificate_file(settings, "GPU-1")) == report


@pytest.mark.parametrize(("changed", "failed"), [
    ({"trials": Played(honest_us=[95.0, 90.0, 92.0, 94.0, 90.0, 92.0])}, ["spread"]),
    ({"trials": Played(attacks=dict.fromkeys(GALLERY, verdict(Outcome.ACCEPTED, 80.0)))}, ["forgery"]),
    ({"trials": Played(outcome=Outcome.RUNTIME_ERROR)}, ["ipc"]),
    ({"trials": Played(), "can": replace(CAN, freeze="none")}, ["freeze"]),
    ({"trials": Played(), "can": replace(CAN, works=False)}, ["sandbox"]),
    ({"trials": Played(), "nvml": FakeNvml(pids=[99])}, ["alone"]),
], ids=["spread", "forgery", "ipc", "freeze", "sandbox", "alone"])
def test_what_fails_is_named_and_leaves_the_runner_uncertified(tmp_path: Path, changed: dict[str, Any], failed: list[str]) -> None:
    report, told = accepted(tmp_path, **changed)

    assert report["failed"] == failed and len(told) == 13
    facts = facts_of(Settings(data=tmp_path), machine_of(H200, Gpu(library=FakeNvml())))
    assert facts.standing == f"failed: {failed[0]}"


def test_a_failure_voids_the_certificate_that_was_there(tmp_path: Path) -> None:
    accepted(tmp_path, Played())

    report, _ = accepted(tmp_path, Played(), left_behind=3)

    assert report["failed"] == ["memory"]
    assert facts_of(Settings(data=tmp_path), machine_of(H200, Gpu(library=FakeNvml()))).certificate is None


@pytest.mark.parametrize(("seen", "gain"), [
    (REFUSED, 0.0), (verdict(Outcome.ACCEPTED, 91.0), 0.0), (verdict(Outcome.ACCEPTED, 88.5), 1.5), (verdict(Outcome.WRONG_VALUES), 0.0),
    (verdict(Outcome.REFUSED, gate=Gate.RIGHT), None), (verdict(Outcome.RUNTIME_ERROR), None), (verdict(Outcome.UNSTABLE), None),
], ids=lambda value: str(value.outcome) if isinstance(value, Verdict) else str(value))
def test_what_an_attack_gained(seen: Verdict, gain: float | None) -> None:
    assert gains([90.0, 90.0, 91.0], {"a": seen}) == {"a": gain}


def test_the_bound_holds_the_largest_gain() -> None:
    bound = bound_of({"a": 0.0, "b": 1.5, "c": None}, 90.0, 0.6)

    assert bound["share"] * 90.0 + bound["us"] == pytest.approx(1.5, abs=0.01)


def test_the_null_call_is_told_with_its_spread_and_drift() -> None:
    assert null_figures([verdict(Outcome.ACCEPTED, 90.0)]) == {"wall_us": 150.25, "spread": pytest.approx(0.001, abs=0.001),
                                                               "drift_us": pytest.approx(0.1)}


@pytest.mark.parametrize(("name", "said", "found"), [
    ("NVIDIA H200", None, "h200"), ("NVIDIA H100 80GB HBM3", "h100", "h100"), ("NVIDIA H200", "h100", None), ("NVIDIA A10", None, None),
])
def test_a_gpu_is_of_the_class_that_its_name_says(name: str, said: str | None, found: str | None) -> None:
    gpu = Gpu(library=FakeNvml(name=name))

    if found:
        assert class_of(gpu, said).name == found
    else:
        with pytest.raises(RequestError, match=name):
            class_of(gpu, said)


def test_ceilings_are_measured_on_an_empty_gpu_alone() -> None:
    refuse_others(Gpu(library=FakeNvml()))
    with pytest.raises(GpuBusy, match=r"1 other process uses this GPU \(4\)\. Stop them"):
        refuse_others(Gpu(library=FakeNvml(pids=[4])))


def test_a_calibration_holds_ceilings_and_the_null_call_and_is_what_a_judge_reads(tmp_path: Path) -> None:
    gpu = Gpu(library=FakeNvml())

    found = calibration.calibrate(gpu, H200, Played(), lambda module, gpu: CEILINGS)

    assert {"device": "h200", "gpu": "NVIDIA H200", "uuid": "GPU-1", "driver": "580.95.05"}.items() <= found.items()
    assert found["null"]["wall_us"] == 150.25
    settings = Settings(data=tmp_path)
    write(calibration_file(settings, "GPU-1"), found)
    measured = facts_of(settings, machine_of(H200, gpu)).measured
    assert measured and (measured.bytes, measured.flops["float16"]) == (4.3e12, 700e12)


def test_no_calibration_comes_of_an_honest_kernel_that_fails() -> None:
    with pytest.raises(CalibrationFailed, match="not accepted"):
        calibration.calibrate(Gpu(library=FakeNvml()), H200, Played(outcome=Outcome.UNSTABLE), lambda module, gpu: CEILINGS)


def test_a_program_that_fails_is_told_by_its_last_words() -> None:
    with pytest.raises(CalibrationFailed, match="zoneinfo failed: .*zoneinfo"):
        of_process("zoneinfo")      # a package that cannot be run


def test_the_honest_kernel_and_the_gallery_are_judged_by_the_real_judge() -> None:
    """On the class cpu, where the attacks find nothing to attack and are honest themselves."""
    with open_judge(Settings(), "bubblewrap") as judge:
        trials = Trials(judge, CPU)
        honest, attacked = trials.judged(trials.honest), trials.judged(attack("early_done"))

    assert honest.accepted and honest.score_us and len(honest.receipt["null_us"][CASE]) >= 4, honest.message
    assert attacked.accepted, attacked.message
    assert all(attack(name) for name in GALLERY)
