"""One entry in one box: load it, play a case's blocks with it, hold every call to the checks."""

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kernelderby.core.errors import ProblemBroken, RunnerBusy
from kernelderby.core.problem import Case
from kernelderby.core.submission import is_cuda
from kernelderby.core.verdict import Gate, Mode, Outcome
from kernelderby.judge.box.wire import sealed_files
from kernelderby.judge.referee.arena import Layout
from kernelderby.judge.referee.boxes import OVERDUE_S, LentBox
from kernelderby.judge.referee.checking import CaseCheck, Outputs
from kernelderby.judge.referee.clock import SPARE_CALLS, Bound, Data, Rig, binding, refuse_disturbed
from kernelderby.judge.referee.findings import Ended, NotArmable, ended
from kernelderby.judge.referee.inputs import Drawn, ProblemCode, Seeds
from kernelderby.judge.referee.link import Job, Link
from kernelderby.judge.referee.steadiness import Gauged

LEAD_IN = 5                        # after so many calls caches are as warm as they get
LONG_CALL_US = 20_000
PLANT_EVERY = 3                    # of ranked calls, on average, one holds a planted feature


@dataclass
class Spent:
    """Seconds by stage."""

    box: float = 0.0
    load: float = 0.0
    check: float = 0.0      # making inputs, oracle, comparison
    time: float = 0.0       # calls, warm-ups and the house's blocks among them


@dataclass
class Played:
    """What one case's calls showed."""

    case: Case
    warm: Drawn
    check: CaseCheck
    warmup_us: float                # plan and warm-up together: a first idea of how long a call takes
    is_armed: bool | None = None    # whether its calls are launched ahead
    prepared_us: list[float] = field(default_factory=list)         # what the GPU took to prepare each call
    blocks_us: list[list[float]] = field(default_factory=list)     # wall times
    gauged: list[Gauged] = field(default_factory=list)             # how the device was around each block
    claims_us: list[float] = field(default_factory=list)

    @property
    def lead_in(self) -> int:
        """How many untimed calls start a block; calls that take long need none."""
        return LEAD_IN if self.warmup_us < LONG_CALL_US else 0


class Entry:
    """A contestant's program in a box of its own. Everything it does wrong raises Ended.

    On a GPU, where its calls `may_arm`, binding a case and playing a block raise NotArmable for one that waits for the GPU.
    """

    def __init__(self, link: Link, job: Job, code: ProblemCode, seeds: Seeds, spent: Spent, *, may_arm: bool = True) -> None:
        self._may_arm = may_arm
        self._link, self._job, self._code, self._seeds, self.spent = link, job, code, seeds, spent
        started = time.monotonic()
        self.box = LentBox(link.take_box(trusted=False), link)
        self._rig: Rig | None = None
        spent.box += time.monotonic() - started

    def share(self, arena_bytes: int) -> None:
        """Share an arena for its cases."""
        started = time.monotonic()
        self._rig = self._code.kind.open_rig(self.box, arena_bytes)
        self.spent.load += time.monotonic() - started

    def null_block(self, bound: Bound, data: Data, calls: int) -> list[float]:
        """Wall times in µs of calls that do nothing. To be had before `load`: the box holds nobody's code yet. Raises RunnerBusy."""
        started = time.monotonic()
        try:
            walls = self._opened().trusted_block(bound, [data] * calls, self._code.scalars(data), list(self._code.spec.inputs), LEAD_IN,
                                                 OVERDUE_S, null=True)
        except NotArmable:
            raise RunnerBusy from None
        refuse_disturbed(len(walls), calls)
        self.spent.time += time.monotonic() - started
        return walls

    def load(self) -> None:
        """Run the source's own statements."""
        started = time.monotonic()
        self._ask_to_load()
        self.spent.load += time.monotonic() - started

    def compile(self, targets: tuple[str, ...], deadline_s: float) -> Any:
        """The box's word on what its Triton kernels compile to; for show alone."""
        return self._ask_to_load(targets=list(targets), deadline_s=deadline_s).get("compile")

    def bind(self, case: Case, layout: Layout, **options: Any) -> Played:
        """Start a case: fresh data for the warm-up, then plan and warm-up themselves. `options` go to the box beside the wire's `bind`."""
        warm = self._draw(case, f"{case.name}/warmup")
        if self._code.layout(case, warm.data) != layout:
            raise _unstable(case)
        order = list(self._code.spec.inputs)
        rig = self._opened()
        before = rig.played_s
        bound = binding(self._code.spec, layout)
        rig.bind(bound, warm.data, self._code.scalars(warm.data), order, self._code.spec.limits.time_s, armed=self._may_arm, **options)
        warmup_s = rig.played_s - before
        self.spent.time += warmup_s
        return Played(case, warm, CaseCheck(self._code, case, self._seeds), rig.rehearsal_us or warmup_s * 1e6, rig.is_armed)

    def play_block(self, played: Played, most: int) -> list[Drawn]:
        """Play up to `most` calls, fewer when they take long, then check each; the inputs that were played.

        Inputs are made before the first call, outputs checked after the last: calls follow each other at one pace, as the house's do.
        """
        rig, name = self._opened(), f"{played.case.name}/{len(played.blocks_us)}"
        drawn = self._drawn_block(played, name, most)
        walls: list[float] = []
        played.blocks_us.append(walls)
        results: list[Outputs] = []
        lead_in = [played.warm.data] * played.lead_in       # untimed calls see other data than timed ones
        gauge = self._code.kind.gauge()
        before = gauge.read()
        rig.arm(len(drawn) + len(lead_in))
        for shot in rig.play([inputs.data for inputs in drawn], lead_in, rig.refuse):
            if not shot.is_void:
                walls.append(shot.wall_us)
            results.append(shot.outputs)
            self._link.check_cancelled()
            if sum(walls) > self._code.kind.block_s * 1e6:
                break
        played.gauged.append(Gauged(before=before, after=gauge.read()))
        self.spent.time += sum(walls) / 1e6
        for number, outputs in enumerate(results):
            self._check(played, f"{name}/{number}", drawn[number], outputs)
        played.prepared_us += rig.prepared_us
        rig.prepared_us = []
        played.claims_us += rig.stop()[len(lead_in) :]
        refuse_disturbed(len(walls), len(results))
        return drawn[: len(results)]

    def expect_preparation(self, quiet_us: float) -> None:
        """What a preparation of this case takes while nobody else works: one that takes much longer was disturbed."""
        self._opened().quiet_us = quiet_us

    @property
    def shared_bytes(self) -> int:
        """The size of the arena that was shared."""
        return self._opened().arena.bytes

    def close(self) -> None:
        """Give the box back."""
        if self._rig:
            self._rig.close()
        else:
            self.box.close()

    def _check(self, played: Played, label: str, drawn: Drawn, outputs: Outputs) -> None:
        started = time.monotonic()
        failure = played.check.check(label, drawn, outputs)
        self.spent.check += time.monotonic() - started
        if failure is None:
            return
        outcome, message = failure.outcome or Outcome.WRONG_VALUES, failure.message or ""
        gate = Gate.ANY_INPUT if drawn.recipe else None
        if outcome is Outcome.WRONG_VALUES and not played.check.is_repeatable([outputs, *self._replays(drawn)]):
            raise ended(Outcome.NONDETERMINISTIC, f"Three calls on the same input gave different results. The first: {message}", gate)
        raise ended(outcome, message, gate)

    def _replays(self, drawn: Drawn) -> list[Outputs]:
        """Two more results for the same input; fewer when a replay goes wrong in another way."""
        results: list[Outputs] = []
        with suppress(Ended):
            for shot in self._opened().play([drawn.data] * SPARE_CALLS, [], lambda trace: None):
                results.append(shot.outputs)
        return results

    def _drawn_block(self, played: Played, label: str, most: int) -> list[Drawn]:
        """Fresh inputs for as many calls as fit in a block's time and memory; what is settled once a case stays."""
        walls = [wall for block in played.blocks_us for wall in block] or [played.warmup_us]
        fitting = self._code.kind.block_bytes() // self._opened().bound.layout.extent
        count = max(1, min(most, int(self._code.kind.block_s * 1e6 / max(1.0, min(walls))), fitting))
        return [self._settled(played, self._planted(played.case, label, number), f"{label}/{number}") for number in range(count)]

    def _planted(self, case: Case, label: str, number: int) -> Case:
        """Now and then a ranked call's inputs hold a recipe's feature, so that no shortcut is safe on what looks random."""
        recipes = self._code.planted if self._job.mode is Mode.RANKED and not case.hidden else ()
        if not recipes:
            return case
        chance = self._seeds.number(f"{label}/{number}/plant")
        return case if chance % PLANT_EVERY else replace(case, recipe=recipes[chance // PLANT_EVERY % len(recipes)])

    def _settled(self, played: Played, case: Case, label: str) -> Drawn:
        drawn = self._draw(case, label)
        if self._code.layout(played.case, drawn.data) != self._opened().bound.layout:
            raise _unstable(played.case)
        fixed = (*self._code.spec.plan, *self._code.scalars(played.warm.data))
        drawn.data.update({name: played.warm.data[name] for name in fixed})
        return drawn

    def _draw(self, case: Case, label: str) -> Drawn:
        started = time.monotonic()
        drawn = self._code.draw(case, self._seeds.generator(label))
        self.spent.check += time.monotonic() - started
        return drawn

    def _ask_to_load(self, **options: Any) -> dict[str, Any]:
        job = self._job
        limit_s = options.get("deadline_s", self._code.spec.limits.time_s)
        with sealed_files(job.source, *([job.packed] if job.artifacts else [])) as fds:
            return self.box.ask("load", limit_s, fds, file_name=_named(job.file_name), artifacts=list(job.artifacts), **options)

    def _opened(self) -> Rig:
        assert self._rig is not None, "an arena is shared first"
        return self._rig


def _named(file_name: str) -> str:
    """As traces and compilers name the file, whatever the contestant calls it."""
    return "submission.cu" if is_cuda(file_name) else "submission.py"


def _unstable(case: Case) -> ProblemBroken:
    """Addresses must stay still within a case."""
    return ProblemBroken(f"make_inputs({case.name}) returned other shapes than before; a case's shapes may not depend on the generator.")
