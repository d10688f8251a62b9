"""A worker's end of a referee's link that lends boxes and listens to nobody."""

import os
from dataclasses import asdict
from typing import Any

from kernelderby.judge.referee.link import Lent, Link
from kernelderby.judge.sandbox.base import Box
from kernelderby.judge.sandbox.pool import Pool


class Lender(Link):
    """`lent`: the boxes that were not given back."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.lent: dict[int, Box] = {}

    def take_box(self, *, trusted: bool) -> Lent:
        box = self._pool.take()
        self.lent[box.id] = box
        return Lent(id=box.id, wire_fd=os.dup(box.wire.fileno()), log_fd=os.dup(box.log_fd), freezer=box.freezer())

    def end_box(self, box_id: int) -> dict[str, Any]:
        return asdict(self.lent.pop(box_id).end())

    def check_cancelled(self) -> None:
        pass
