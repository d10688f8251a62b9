"""The house box: the trusted twin that plays null and baseline calls by the very steps an entry's calls take. Kept for many runs."""

import os
from collections.abc import Sequence

from kernelderby.core.errors import DerbyError
from kernelderby.core.verdict import Outcome
from kernelderby.judge.referee.arena import source_file
from kernelderby.judge.referee.boxes import OVERDUE_S, LentBox
from kernelderby.judge.referee.clock import Bound, Data, Rig, Trace
from kernelderby.judge.referee.findings import Ended
from kernelderby.judge.referee.inputs import ProblemCode
from kernelderby.judge.referee.link import Link

LIMIT_S = 600.0     # our own code: only a hang ends it


class House:
    """A box that holds the baseline. Whatever goes wrong in it is ours: DerbyError."""

    def __init__(self, code: ProblemCode, baseline: bytes, arena_bytes: int) -> None:
        self._code = code
        self._baseline = baseline
        self._arena_bytes = arena_bytes
        self._rig: Rig | None = None

    def null_block(self, link: Link, bound: Bound, data: Data, calls: int, lead_in: int) -> list[float]:
        """Wall times in µs of calls that do nothing."""
        return self._block(link, bound, [data] * calls, lead_in, {"null": True})

    def baseline_block(self, link: Link, bound: Bound, inputs: Sequence[Data], lead_in: int) -> list[float]:
        """Wall times in µs of the baseline's calls on these inputs."""
        return self._block(link, bound, inputs, lead_in, {})

    def _block(self, link: Link, bound: Bound, inputs: Sequence[Data], lead_in: int, options: Data) -> list[float]:
        try:
            rig = self._rig = self._rig or self._opened(link)
            rig.bind(bound, inputs[0], self._code.scalars(inputs[0]), list(self._code.spec.inputs), LIMIT_S, **options)
            rig.arm(len(inputs) + lead_in)
            walls = [shot.wall_us for shot in rig.play(inputs, [inputs[0]] * lead_in, _trusted)]
            rig.stop()
        except Ended as end:
            self._drop()
            if end.finding.outcome is Outcome.CANCELLED:
                raise
            raise DerbyError(f"The house box failed: {end.finding.message}") from end
        return walls

    def _opened(self, link: Link) -> Rig:
        box = LentBox(link.take_box(trusted=True), link)
        fd = source_file(self._baseline)
        try:
            box.ask("load", OVERDUE_S, (fd,), file_name="submission.py")
        finally:
            os.close(fd)
        return Rig(box, self._arena_bytes)

    def _drop(self) -> None:
        """A box left in the middle of a call is of no use any more."""
        if self._rig:
            self._rig.close()
        self._rig = None


def _trusted(trace: Trace) -> None:
    """A null call leaves its outputs as they are; looking costs what it costs for an entry, and nothing is made of it."""
