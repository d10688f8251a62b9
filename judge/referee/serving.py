"""Gate `serves`: the call as an inference engine makes it, captured once in a CUDA graph and replayed while its inputs change in place.

Played in a fresh box, on the public case whose lengths and tables vary most. Every replay is a call like any other: inputs written and
outputs poisoned by the referee, guards, snapshot, all checks. So a length read on the host, a grid sized by it, a pointer, a copied
table or a kernel on stream 0 shows: it stays in the graph as it was, or is missing there. Capture itself refuses what waits for the
GPU on the host, and cudaMalloc. Memory of torch's allocator is allowed, since an engine's captures allow it, and counts as workspace.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelderby.core.devices import DeviceClass
from kernelderby.core.problem import Case
from kernelderby.core.verdict import CaseResult, Gate, Outcome
from kernelderby.judge.referee.arena import Layout
from kernelderby.judge.referee.entry import Entry, Played, Spent
from kernelderby.judge.referee.findings import Ended, Finding, NotArmable, ended
from kernelderby.judge.referee.inputs import ProblemCode, Seeds
from kernelderby.judge.referee.link import Job, Link

RECIPES = 2        # of those that timed inputs may hold; each gets a block of replays, and inputs without a recipe get one
REPLAYS = 2        # a block, each on inputs of its own, beside untimed ones
SLOWER, SLOWER_US = 1.25, 20.0      # a replay may take so many times what a timed call takes, and so much more: draws differ
MIB = 1 << 20
# Beside the workspace a program takes what it does not ask for: its modules and the graph, cuBLAS's handle and workspace (32 MiB in torch
# on Hopper), the rest of torch's last segments (20 MiB), stacks and spills for every thread that fits the GPU (64 MiB at 240 bytes a
# thread and 132 x 2048 threads). What the referee's own kernels load meanwhile falls in here as well.
OVERHEAD_BYTES = 128 * MIB
_HINT = ("Plain calls were right, so something was settled when the call was captured. Read lengths and tables inside the kernel, size the "
         "grid by shapes alone, keep no copy of an input, and launch everything on torch's current stream.")
_HINTED = (Outcome.WRONG_VALUES, Outcome.NONFINITE, Outcome.NONDETERMINISTIC, Outcome.ILLEGAL_MEMORY)
_OTHERS = (Gate.HONEST_TIME, Gate.DEVICE)      # a finding of these gates stays theirs


@dataclass(frozen=True)
class Service:
    """What is played for the gate, and by which code."""

    code: ProblemCode
    case: Case
    layout: Layout


@dataclass(frozen=True, kw_only=True)
class Served:
    """A call that was captured and replayed well."""

    case: str
    replays: int          # that were checked
    workspace_mb: int     # device memory beside the arena, what CUDA and libraries take among it
    wall_us: float        # of the shortest replay

    def held_to(self, timed: CaseResult, null_us: float) -> dict[str, Any]:
        """What the receipt says. Raises Ended where a timed call takes much less: a call can tell that it is captured."""
        replay_us = max(0.0, self.wall_us - null_us)
        if timed.time_us is not None and replay_us > SLOWER * timed.time_us + SLOWER_US:
            raise ended(Outcome.REFUSED, f"Case {self.case}: a replay of its CUDA graph takes {replay_us:,.0f} µs, a timed call "
                                         f"{timed.time_us:,.0f} µs. Let the call that is timed be the one that an engine would capture.",
                        Gate.SERVES)
        return {"case": self.case, "replays": self.replays, "workspace_mb": self.workspace_mb, "replay_us": round(replay_us, 1)}


def service_of(code: ProblemCode, device: DeviceClass, cases: Sequence[Case], layouts: Sequence[Layout]) -> Service | None:
    """What a problem's entries are asked on a class; None where the gate is not asked for, or nothing can be captured."""
    if not code.spec.serves or device.arch is None:
        return None
    place = most_varied(code, cases)
    return Service(code, cases[place], layouts[place])


def most_varied(code: ProblemCode, cases: Sequence[Case]) -> int:
    """The place of the case where most inputs of integers (lengths, tables) differ from draw to draw, and most of their values."""
    return max(range(len(cases)), key=lambda place: _varying(code, cases[place]))


def play_serving(link: Link, job: Job, service: Service, spent: Spent) -> Served:
    """Capture, replay, measure. Raises Ended."""
    name = service.case.name
    seeds = Seeds(job.seed, service.code.kind.torch_device)
    entry = Entry(link, job, service.code, seeds, spent)
    try:
        workspace = Workspace()
        played = _captured(entry, service)
        replays = _replay(entry, played, _features(service.code, seeds), name)
        walls = [wall for block in played.blocks_us for wall in block]
        return Served(case=name, replays=replays, workspace_mb=_held(workspace, entry, service),
                      wall_us=min(walls, default=0.0))
    finally:
        entry.close()


class Workspace:
    """Device memory that was taken since this was made, by anyone but this process's torch: by the one box that runs, since no other is
    started while a run goes on."""

    def __init__(self) -> None:
        self._before = _free()

    def bytes(self, arena: int) -> int:
        """How much, without an arena of ours that was shared since."""
        return max(0, self._before - _free() - arena)


def _captured(entry: Entry, service: Service) -> Played:
    """Load, plan and warm-up as ever, then the capture. Its draws are other than those of the plain calls."""
    name = service.case.name
    try:
        entry.share(service.layout.extent)
        entry.load()
        return entry.bind(replace(service.case, name=f"{name}/served"), service.layout, capture=True)
    except NotArmable:
        raise ended(Outcome.REFUSED, f"Case {name}: the launch of its CUDA graph waited for the GPU.", Gate.SERVES) from None
    except Ended as end:
        raise Ended(_of_the_gate(end.finding, f"Case {name}, captured in a CUDA graph: {end.finding.message}")) from None


def _replay(entry: Entry, played: Played, recipes: Sequence[str | None], name: str) -> int:
    """Blocks of replays, each on inputs that were drawn for it alone, one block for each recipe; how many were checked."""
    case, count = played.case, 0
    try:
        for recipe in recipes:
            played.case = replace(case, recipe=recipe)
            count += len(entry.play_block(played, REPLAYS))
        return count
    except NotArmable:
        raise ended(Outcome.REFUSED, f"Case {name}: a launch of its CUDA graph waited for the GPU.", Gate.SERVES) from None
    except Ended as end:
        said = f"Case {name}, replayed from a CUDA graph with its inputs changed in place: {end.finding.message}"
        raise Ended(_of_the_gate(end.finding, f"{said} {_HINT}" if end.finding.outcome in _HINTED else said)) from None


def _held(workspace: Workspace, entry: Entry, service: Service) -> int:
    """The workspace in MiB, the program's overhead among it. Raises Ended when it is too large."""
    held, limit = workspace.bytes(entry.shared_bytes), service.code.spec.limits.workspace_mb * MIB
    if held > limit + OVERHEAD_BYTES:
        raise ended(Outcome.REFUSED, f"Case {service.case.name}, captured in a CUDA graph: the program holds {held // MIB:,} MiB of device "
                                     f"memory beside inputs and outputs; {limit // MIB:,} MiB are allowed, and {OVERHEAD_BYTES // MIB} for "
                                     "what CUDA and libraries take by themselves. Reuse one workspace for all calls.", Gate.SERVES)
    return held // MIB


def _of_the_gate(finding: Finding, message: str) -> Finding:
    if finding.outcome is Outcome.CANCELLED:
        return finding
    return replace(finding, gate=finding.gate if finding.gate in _OTHERS else Gate.SERVES, message=message)


def _features(code: ProblemCode, seeds: Seeds) -> list[str | None]:
    """No recipe, then some of those that leave the work as it is, from a secret one on."""
    planted = code.planted
    first = seeds.number("serves/recipes") % max(1, len(planted))
    return [None, *(planted[(first + i) % len(planted)] for i in range(min(RECIPES, len(planted))))]


def _varying(code: ProblemCode, case: Case) -> tuple[int, int]:
    """How many inputs of integers differ between two draws, and how many of their values."""
    seeds = Seeds(b"", code.kind.torch_device)
    one, other = (_integers(code, case, seeds, which) for which in ("one", "other"))
    differing = [int((one[name] != other[name]).sum()) for name in one if one[name].shape == other[name].shape]
    return sum(count > 0 for count in differing), sum(differing)


def _integers(code: ProblemCode, case: Case, seeds: Seeds, which: str) -> dict[str, torch.Tensor]:
    data = code.draw(case, seeds.generator(f"{case.name}/{which}")).data
    values = {name: torch.as_tensor(data[name]) for name in code.spec.inputs}
    return {name: value for name, value in values.items() if not value.is_floating_point()}


def _free() -> int:
    """Bytes of device memory that are free, or held by this process's torch: that grows with checks and inputs."""
    from kernelderby.judge.referee.cuda.health import free_level  # needs cuda-bindings, which no CPU runner has

    return free_level()
