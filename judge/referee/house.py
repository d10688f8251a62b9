"""The house box: the trusted twin that plays null and baseline calls by the very steps an entry's calls take. Kept for many runs."""

import math
from collections.abc import Sequence
from statistics import median

from kernelderby.core.errors import DerbyError, RunnerBusy
from kernelderby.core.verdict import Outcome
from kernelderby.judge.box.wire import sealed_files
from kernelderby.judge.referee.arena import Layout
from kernelderby.judge.referee.boxes import OVERDUE_S, LentBox
from kernelderby.judge.referee.clock import Bound, Data, Rig, refuse_disturbed
from kernelderby.judge.referee.findings import Ended, NotArmable
from kernelderby.judge.referee.inputs import ProblemCode
from kernelderby.judge.referee.link import Link

LIMIT_S = 600.0     # our own code: only a hang ends it


class House:
    """A box that holds the baseline. Whatever goes wrong in it is ours: DerbyError. Ended is raised when an entry's work disturbs it."""

    def __init__(self, code: ProblemCode, baseline: bytes, arena_bytes: int) -> None:
        self._code = code
        self._baseline = baseline
        self._arena_bytes = arena_bytes
        self._rig: Rig | None = None
        self._is_armable = True      # whether the baseline's calls can be launched ahead
        self._quiet_us: dict[Layout, float] = {}

    def open(self, link: Link) -> None:
        """Take the box now, if there is none yet: what it takes of a device is then no part of what a run takes. Raises as a block does."""
        try:
            self._rig = self._rig or self._opened(link)
        except Ended as end:
            raise _failed(end) from None

    def null_block(self, link: Link, bound: Bound, data: Data, calls: int, lead_in: int, *, armed: bool | None) -> list[float]:
        """Wall times in µs of calls that do nothing."""
        try:
            return self._block(link, bound, [data] * calls, lead_in, {"null": True, "armed": armed is not False})
        except NotArmable:
            self._drop()
            raise RunnerBusy from None

    def baseline_block(self, link: Link, bound: Bound, inputs: Sequence[Data], lead_in: int, *, armed: bool | None) -> list[float]:
        """Wall times in µs of the baseline's calls on these inputs."""
        try:
            return self._block(link, bound, inputs, lead_in, {"armed": armed is not False and self._is_armable})
        except NotArmable:
            self._is_armable = False
            self._drop()
        return self._block(link, bound, inputs, lead_in, {"armed": False})

    def quiet_us(self, layout: Layout) -> float:
        """The least that preparing a call of this layout took in a whole block; infinite before the first one."""
        return self._quiet_us.get(layout, math.inf)

    @property
    def prepared_us(self) -> list[float]:
        """Of the last block, what the GPU took to prepare each call."""
        return self._rig.prepared_us if self._rig else []

    def _block(self, link: Link, bound: Bound, inputs: Sequence[Data], lead_in: int, options: Data) -> list[float]:
        try:
            rig = self._rig = self._rig or self._opened(link)
            scalars, order = self._code.scalars(inputs[0]), list(self._code.spec.inputs)
            walls = rig.trusted_block(bound, inputs, scalars, order, lead_in, LIMIT_S, self.quiet_us(bound.layout), **options)
        except Ended as end:
            self._drop()
            raise _failed(end) from None
        if rig.prepared_us:
            self._quiet_us[bound.layout] = min(self.quiet_us(bound.layout), median(rig.prepared_us))
        refuse_disturbed(len(walls), len(inputs))
        return walls

    def _opened(self, link: Link) -> Rig:
        box = LentBox(link.take_box(trusted=True), link)
        with sealed_files(self._baseline) as fds:
            box.ask("load", OVERDUE_S, fds, file_name="submission.py")
        return self._code.kind.open_rig(box, self._arena_bytes)

    def _drop(self) -> None:
        """A box left in the middle of a call is of no use any more."""
        if self._rig:
            self._rig.close()
        self._rig = None


def _failed(end: Ended) -> Exception:
    return end if end.finding.outcome is Outcome.CANCELLED else DerbyError(f"The house box failed: {end.finding.message}")
