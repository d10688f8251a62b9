"""The build as a step of a judging: told as an event, and a verdict of its own where it ends there."""

from typing import Any

from kernelderby.core.devices import DeviceClass
from kernelderby.core.duel import Duel, Fallen, Side
from kernelderby.core.problem_folder import Problem
from kernelderby.core.submission import source_sha
from kernelderby.core.verdict import Mode, Verdict
from kernelderby.judge.build.builder import Build

_STAGES = ("queue", "build", "box", "load", "check", "time", "total")


def step_of(build: Build) -> dict[str, Any]:
    """The data of the event `build`."""
    if build.finding:
        return {"message": "Not run", "seconds": round(build.seconds, 3)}
    what = "Taken from the cache" if build.is_cached else "Built"
    return {"message": f"{what} in {build.seconds:.1f} s", "seconds": round(build.seconds, 3)}


def verdict_without_run(build: Build, problem: Problem, device: DeviceClass, mode: Mode, source: bytes) -> Verdict:
    """The verdict on an entry that was not run, since its build found something."""
    assert build.finding
    return Verdict(problem=problem.name, version=problem.version, device=device.name, mode=mode, outcome=build.finding.outcome,
                   gate=build.finding.gate, message=build.finding.message, compile=build.report, log=build.log or None,
                   stages_s=dict.fromkeys(_STAGES, 0.0), receipt={"gate_set": problem.gate_set, "source_sha": source_sha(source)})


def unbuilt_duel(build: Build, side: Side, problem: Problem, device: DeviceClass) -> Duel:
    """The duel of an entry that was not run, since its build found something."""
    assert build.finding
    return Duel(problem=problem.name, version=problem.version, device=device.name,
                fallen=Fallen(entry=side, outcome=build.finding.outcome, gate=build.finding.gate, message=build.finding.message))
