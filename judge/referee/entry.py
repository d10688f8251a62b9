"""One entry in one box: load it, play a case's blocks with it, hold every call to the checks."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kernelderby.core.errors import ProblemBroken
from kernelderby.core.problem import Case
from kernelderby.core.verdict import Gate, Mode, Outcome
from kernelderby.judge.box.wire import sealed_file
from kernelderby.judge.referee.arena import Layout
from kernelderby.judge.referee.boxes import LentBox
from kernelderby.judge.referee.checking import CaseCheck, Outputs
from kernelderby.judge.referee.clock import SPARE_CALLS, Rig, binding
from kernelderby.judge.referee.findings import Ended, ended
from kernelderby.judge.referee.inputs import Drawn, ProblemCode, Seeds
from kernelderby.judge.referee.link import Job, Link

LEAD_IN = 5                        # after so many calls caches are as warm as they get
LONG_CALL_US = 20_000
PLANT_EVERY = 3                    # of ranked calls (or of blocks), on average, one holds a planted feature
MOST_VOID = 0.5                    # of a block's calls: with fewer valid ones it says nothing


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
    claims_us: list[float] = field(default_factory=list)

    @property
    def lead_in(self) -> int:
        """How many untimed calls start a block; calls that take long need none."""
        return LEAD_IN if self.warmup_us < LONG_CALL_US else 0


class Entry:
    """A contestant's program in a box of its own. Everything it does wrong raises Ended."""

    def __init__(self, link: Link, job: Job, code: ProblemCode, seeds: Seeds, spent: Spent) -> None:
        self._link, self._job, self._code, self._seeds, self.spent = link, job, code, seeds, spent
        started = time.monotonic()
        self.box = LentBox(link.take_box(trusted=False), link)
        self._rig: Rig | None = None
        spent.box += time.monotonic() - started

    def load(self, arena_bytes: int) -> None:
        """Run the source's own statements, and share an arena for its cases."""
        started = time.monotonic()
        self._ask_to_load()
        self._rig = self._code.kind.open_rig(self.box, arena_bytes)
        self.spent.load += time.monotonic() - started

    def compile(self, targets: tuple[str, ...], deadline_s: float) -> Any:
        """The box's word on what its Triton kernels compile to; for show alone."""
        return self._ask_to_load(targets=list(targets), deadline_s=deadline_s).get("compile")

    def bind(self, case: Case, layout: Layout) -> Played:
        """Start a case: fresh data for the warm-up, then plan and warm-up themselves."""
        warm = self._draw(case, f"{case.name}/warmup")
        if self._code.layout(case, warm.data) != layout:
            raise _unstable(case)
        order = list(self._code.spec.inputs)
        rig = self._opened()
        before = rig.played_s
        bound = binding(self._code.spec, layout, self._code.kind.kept_in_a_block)
        rig.bind(bound, warm.data, self._code.scalars(warm.data), order, self._code.spec.limits.time_s)
        warmup_s = rig.played_s - before
        self.spent.time += warmup_s
        return Played(case, warm, CaseCheck(self._code, case, self._seeds), rig.rehearsal_us or warmup_s * 1e6, rig.is_armed)

    def play_block(self, played: Played, most: int) -> list[Drawn]:
        """Play up to `most` calls, fewer when they take long, then check each; the inputs that were played.

        Inputs are made before the first call and outputs are checked after the last, so that calls follow each other at one pace:
        the house's blocks do the same.
        """
        rig, name = self._opened(), f"{played.case.name}/{len(played.blocks_us)}"
        drawn = self._drawn_block(played, name, most)
        walls: list[float] = []
        played.blocks_us.append(walls)
        results: list[Outputs] = []
        # Untimed calls see other data than timed ones, but for what is settled once a block.
        lead_in = [{**played.warm.data, **{n: drawn[0].data[n] for n in rig.bound.per_block}}] * played.lead_in
        rig.arm(len(drawn) + len(lead_in))
        for shot in rig.play([inputs.data for inputs in drawn], lead_in, rig.refuse):
            if not shot.is_void:
                walls.append(shot.wall_us)
            results.append(shot.outputs)
            self._link.check_cancelled()
            if sum(walls) > self._code.kind.block_s * 1e6:
                break
        self.spent.time += sum(walls) / 1e6
        for number, outputs in enumerate(results):
            self._check(played, f"{name}/{number}", drawn[number], outputs)
        played.prepared_us += rig.prepared_us
        rig.prepared_us = []
        played.claims_us += rig.stop()[len(lead_in) :]
        _refuse_disturbed(walls, len(results))
        return drawn[: len(results)]

    def expect_preparation(self, longest_us: float) -> None:
        """The twin's longest preparation of this case: one that takes much longer was disturbed."""
        self._opened().longest_preparation_us = longest_us

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
        """Fresh inputs for as many calls as fit in a block's time and memory; what is settled once a block or a case stays."""
        walls = [wall for block in played.blocks_us for wall in block] or [played.warmup_us]
        size = max(1, sum(region.bytes for region in self._opened().bound.layout.inputs))
        count = max(1, min(most, int(self._code.kind.block_s * 1e6 / max(1.0, min(walls))), self._code.kind.block_bytes // size))
        kept: dict[str, Any] = {}
        return [self._settled(played, self._planted(played.case, label, number), f"{label}/{number}", kept) for number in range(count)]

    def _planted(self, case: Case, label: str, number: int) -> Case:
        """Now and then a ranked call's inputs hold a recipe's feature, so that no shortcut is safe on what looks random."""
        recipes = self._code.planted if self._job.mode is Mode.RANKED and not case.hidden else ()
        if not recipes or (number and self._opened().bound.per_block):      # what is settled once a block is planted in its first call
            return case
        chance = self._seeds.number(f"{label}/{number}/plant")
        return case if chance % PLANT_EVERY else replace(case, recipe=recipes[chance // PLANT_EVERY % len(recipes)])

    def _settled(self, played: Played, case: Case, label: str, kept: dict[str, Any]) -> Drawn:
        drawn = self._draw(case, label)
        bound = self._opened().bound
        if self._code.layout(played.case, drawn.data) != bound.layout:
            raise _unstable(played.case)
        for name in bound.per_block:
            drawn.data[name] = kept.setdefault(name, drawn.data[name])
        fixed = (*self._code.spec.plan, *self._code.scalars(played.warm.data))
        drawn.data.update({name: played.warm.data[name] for name in fixed})
        return drawn

    def _draw(self, case: Case, label: str) -> Drawn:
        started = time.monotonic()
        drawn = self._code.draw(case, self._seeds.generator(label))
        self.spent.check += time.monotonic() - started
        return drawn

    def _ask_to_load(self, **options: Any) -> dict[str, Any]:
        fd = sealed_file(self._job.source)
        try:
            limit_s = options.get("deadline_s", self._code.spec.limits.time_s)
            return self.box.ask("load", limit_s, (fd,), file_name="submission.py", **options)
        finally:
            os.close(fd)

    def _opened(self) -> Rig:
        assert self._rig is not None, "load comes first"
        return self._rig


def _refuse_disturbed(walls: list[float], calls: int) -> None:
    if len(walls) < MOST_VOID * calls:
        raise ended(Outcome.REFUSED, "The GPU was busy with other work while inputs were prepared: leave nothing running between calls.",
                    Gate.HONEST_TIME)


def _unstable(case: Case) -> ProblemBroken:
    """Addresses must stay still within a case."""
    return ProblemBroken(f"make_inputs({case.name}) returned other shapes than before; a case's shapes may not depend on the generator.")
