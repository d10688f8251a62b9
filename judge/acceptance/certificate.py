"""A runner's certificate: a signed report of `derby runner accept`, which holds while nothing of what it was made for has changed."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import SetupError
from kernelderby.core.light import Ceilings
from kernelderby.core.runner import UNKNOWN_RUNNER, RunnerFacts
from kernelderby.core.settings import ROOT, Settings
from kernelderby.judge.receipts import SigningKey, load_key, sign, verify
from kernelderby.judge.referee.cuda.nvml import Gpu, NvmlUnavailable

KIND = "certificate"
SIGNATURE = "signature"      # the name of what failed when a report was not signed by this platform's key


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a certificate was made for. When one of these is another, it holds no more."""

    device: str      # the class
    uuid: str
    driver: str
    torch: str
    judge: str       # hash of our own judge


def machine_of(device: DeviceClass, gpu: Gpu) -> Machine:
    """This machine. Raises NvmlUnavailable."""
    return Machine(device=device.name, uuid=gpu.uuid(), driver=gpu.driver_version(), torch=_version("torch"), judge=judge_hash())


def judge_hash(folder: Path = ROOT / "judge") -> str:
    """12 hex digits over every source of the judge."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def issued(key: SigningKey, machine: Machine, report: Mapping[str, Any], failed: list[str]) -> dict[str, Any]:
    """The signed report; a certificate if nothing failed. Its id is a hash of the rest."""
    payload = {"kind": KIND, **asdict(machine), **report, "failed": failed}
    name = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()[:12]
    return sign(key, {**payload, "id": name})


def why_void(report: Mapping[str, Any], machine: Machine, public_key: str) -> str | None:
    """What keeps a report from being a certificate of this machine: the check that failed, or what has changed. None: it holds."""
    if report.get("kind") != KIND or not verify(public_key, report):
        return SIGNATURE
    if report["failed"]:
        return str(report["failed"][0])
    return next((field.name for field in fields(machine) if report.get(field.name) != getattr(machine, field.name)), None)


def runner_facts(settings: Settings, device: DeviceClass) -> RunnerFacts:
    """What the data folder knows of this machine's runner of a class; nothing of a CPU."""
    if device.arch is None:
        return UNKNOWN_RUNNER
    try:
        machine = machine_of(device, Gpu(settings.gpu))
    except NvmlUnavailable:
        return UNKNOWN_RUNNER
    return facts_of(settings, machine)


def facts_of(settings: Settings, machine: Machine) -> RunnerFacts:
    """The same for a machine that is known."""
    calibration, report = read(calibration_file(settings, machine.uuid)), read(certificate_file(settings, machine.uuid))
    measured = calibration.get("measured") if calibration.get("device") == machine.device else None
    ceilings = _ceilings(measured, calibration_file(settings, machine.uuid)) if measured else None
    failed = why_void(report, machine, load_key(settings).public) if report else None
    holds = bool(report) and failed is None
    bound = report.get("bound", {}) if holds else {}
    return RunnerFacts(gpu=machine.uuid, measured=ceilings, failed_check=failed,
                       certificate=report["id"] if holds else None, bound_share=bound.get("share", 0.0), bound_us=bound.get("us", 0.0))


def calibration_file(settings: Settings, uuid: str) -> Path:
    """Where the figures of `derby calibrate` are kept."""
    return settings.data / "runners" / f"{uuid}.json"


def certificate_file(settings: Settings, uuid: str) -> Path:
    """Where the last report of `derby runner accept` is kept."""
    return settings.data / "runners" / f"{uuid}.certificate.json"


def read(path: Path) -> dict[str, Any]:
    """What a file of ours holds; nothing when there is none. Raises SetupError for one that is spoilt."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        raise _spoilt(path) from None
    return found if isinstance(found, dict) else {}


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Keep data in a file, whole or not at all. Raises SetupError."""
    partly = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partly.write_text(json.dumps(data, indent=1, allow_nan=False))
        partly.replace(path)
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}.") from None


def _ceilings(measured: Any, path: Path) -> Ceilings:
    """The rates of a calibration's file, whoever wrote there. Raises SetupError."""
    try:
        found = Ceilings(**measured)
        rates = [*found.flops.values(), found.bytes, found.exps, found.cache_bytes]
        if "float32" in found.flops and all(0 < rate < math.inf for rate in rates):
            return found
    except (AttributeError, TypeError):
        pass
    raise _spoilt(path)


def _spoilt(path: Path) -> SetupError:
    return SetupError(f"{path} cannot be read. Delete it, and run `derby calibrate` and `derby runner accept` again.")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
