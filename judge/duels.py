"""What a worker does about duels: claim one, play it, write down what it showed, and let the board follow.

A head-to-head for a crown is a row beside the verdict that called for it, written in the same transaction. The old leader leads until
the row has its result; a worker that dies in between only delays it.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from kernelderby.core.devices import DeviceClass
from kernelderby.core.duel import Duel, held_to_solo
from kernelderby.core.errors import DerbyError
from kernelderby.core.verdict import Mode
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge
from kernelderby.judge.versions import Versions
from kernelderby.storage import boards, duels, factors
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.database import Database
from kernelderby.storage.duels import DuelClaim, Side

log = logging.getLogger(__name__)

LEASE_S = 180.0     # longer than a batch of boxes may take to start: it is renewed by the thread that waits for them
RENEW_S = 10.0
PAUSE_S = 2.0       # after a failure of ours, so that three attempts do not burn in one second; a run's too


class Duels:
    """The duels of one worker on one device class. For the judge's thread."""

    def __init__(self, database: Database, device: DeviceClass, versions: Versions, artifacts: ArtifactStore,
                 stopping: threading.Event) -> None:
        self._database, self._device = database, device
        self._versions, self._artifacts = versions, artifacts
        self._stopping = stopping

    def play_next(self, judge: Judge, *, is_for_crown: bool) -> bool:
        """Play the oldest duel that waits. False: there is none, or the database is away."""
        try:
            with self._database.begin() as session:
                claim = duels.claim(session, self._device.name, LEASE_S, datetime.now(UTC), is_for_crown=is_for_crown)
            if claim is None:
                return False
            self._end(claim, self._played(judge, claim))
        except SQLAlchemyError as error:
            log.warning("a duel was not begun or not written down", extra={"error": str(error)})
            return False
        return True

    def _played(self, judge: Judge, claim: DuelClaim) -> Duel | None:
        """What the duel showed; void where we failed. None: it was cut short, since this worker ends or the duel is another's now."""
        if claim.is_hopeless:
            return duels.void(claim, self._device.name, "The runner was not heard from any more, several times.")
        held = _Held(self._database, claim, self._stopping.is_set)
        try:
            duel = judge.duel(self._job(claim, claim.a), self._job(claim, claim.b), _say_nothing, held.is_over)
        except DerbyError as error:
            log.error("a duel was lost", extra={"duel": claim.id, "reason": error.message})
            duel = duels.void(claim, self._device.name, error.message)
            self._stopping.wait(PAUSE_S)
        except Exception as error:
            log.exception("a duel failed", extra={"duel": claim.id})
            duel = duels.void(claim, self._device.name, f"The judge failed ({type(error).__name__}).")
        return None if held.was_over else duel

    def _held_to_solo(self, session: Session, claim: DuelClaim, duel: Duel) -> Duel:
        """The duel, void where it does not agree with what the entries took alone, in this runner's own µs."""
        runner = duel.environment.get("gpu_uuid")
        if self._device.arch is None:      # a CPU's times differ more from run to run than a rival could make them
            return duel
        factor = factors.factor(session, claim.version, self._device.name, runner, datetime.now(UTC)) if runner else 1.0
        a_us, b_us = ({case: us / factor for case, us in side.solo_us.items()} for side in (claim.a, claim.b))
        return held_to_solo(duel, a_us, b_us)

    def _job(self, claim: DuelClaim, side: Side) -> Job:
        problem = self._versions.get(claim.version, claim.gate_set, claim.archive)
        return Job(submission=side.submission, attempt=claim.attempt, problem=problem, device=self._device, mode=Mode.RANKED,
                   file_name=side.file_name, source=self._artifacts.get(side.source_sha), seed=secrets.token_bytes(32))

    def _end(self, claim: DuelClaim, duel: Duel | None) -> None:
        with self._database.begin() as session:
            if duel is None:
                duels.release(session, claim.id, claim.attempt)
                return
            duel = self._held_to_solo(session, claim, duel)
            board = duels.finish(session, claim.id, claim.attempt, duel)
            if board is not None:
                boards.settle(session, board)
        log.info("dueled", extra={"duel": claim.id, "faster": duel.faster, "void": duel.void, "total_s": duel.seconds})


class _Held:
    """The lease of a duel, renewed by whoever keeps asking whether it is over."""

    def __init__(self, database: Database, claim: DuelClaim, is_stopping: Callable[[], bool]) -> None:
        self._database, self._claim, self._is_stopping = database, claim, is_stopping
        self._renew_at = time.monotonic() + RENEW_S
        self.was_over = False

    def is_over(self) -> bool:
        """Whether to stop at once."""
        if time.monotonic() >= self._renew_at:
            self._renew_at = time.monotonic() + RENEW_S
            self.was_over |= not self._is_renewed()
        self.was_over |= self._is_stopping()
        return self.was_over

    def _is_renewed(self) -> bool:
        try:
            with self._database.begin() as session:
                return duels.renew(session, self._claim.id, self._claim.attempt, datetime.now(UTC) + timedelta(seconds=LEASE_S))
        except SQLAlchemyError as error:
            log.warning("a duel's lease was not renewed", extra={"duel": self._claim.id, "error": str(error)})
            return True


def _say_nothing(kind: str, data: dict[str, Any]) -> None:
    """Nobody follows a duel step by step."""
