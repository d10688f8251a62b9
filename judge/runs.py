"""What a worker does with its time: claim a run, judge it, write the verdict, claim the next.

All judging happens on the one thread that calls `Runs.work`: the sandbox ends its boxes when the thread that started them ends.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from kernelderby.core import receipt
from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import DerbyError, NotFound, ProblemBroken, RefereeLost, SandboxUnavailable
from kernelderby.core.settings import Settings
from kernelderby.core.verdict import Outcome, State, Verdict
from kernelderby.judge import contest_seeds
from kernelderby.judge.duels import PAUSE_S, Duels
from kernelderby.judge.job import Job
from kernelderby.judge.judging import Judge
from kernelderby.judge.lease import LEASE_S, Lease
from kernelderby.judge.receipts import load_key, sign
from kernelderby.judge.seeds import contest_secret, run_seed, secret_of
from kernelderby.judge.versions import Versions
from kernelderby.storage import claims, factors, problems, signing_keys
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.claims import Claim
from kernelderby.storage.database import Database

log = logging.getLogger(__name__)

IDLE_S = 5.0          # an idle worker looks by itself this often, rung for or not
LONG_PAUSE_S = 60.0   # up to which pauses double while this machine has no sandbox, so that it does not burn the whole queue
INSIST_S = 60.0       # how long the end of a run is tried when the database is away
_STOPPED = "The runner was told to stop."


class Runs:
    """The runs of one worker on one device class."""

    def __init__(self, settings: Settings, database: Database, device: DeviceClass) -> None:
        artifacts = ArtifactStore(settings.artifacts)
        self.runner = f"{socket.gethostname()}/{device.name}/{os.getpid()}"[:80]
        self._database = database
        self._device = device
        self._artifacts = artifacts
        self._versions = Versions(settings.data / "versions", artifacts)
        self._secret = secret_of(settings)
        self._key = load_key(settings)
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._duels = Duels(database, device, self._versions, artifacts, self._stopping)
        self._current: tuple[Claim, Lease] | None = None
        self._pause_s = PAUSE_S
        self.fault: str | None = None      # why nothing more is claimed here, and what to do

    def work(self, judge: Judge) -> None:
        """Judge until `stop`, or until the judge finds a `fault` on this machine; looks every IDLE_S, and at once after `wake`."""
        with self._database.begin() as session:
            signing_keys.add(session, self._key.id, self._key.public)
        self._prepare(judge)
        while not self._stopping.is_set():
            self._wake.clear()
            if not self._play_next(judge):
                self._wake.wait(IDLE_S)
                continue
            if judge.fault:
                log.error("this runner claims nothing more", extra={"reason": judge.fault})
                self.fault = judge.fault
                return
            judge.idle()

    def wake(self) -> None:
        """There may be work."""
        self._wake.set()

    def stop(self) -> None:
        """Claim nothing more."""
        self._stopping.set()
        self._wake.set()

    def interrupt(self) -> None:
        """End the current run early; it goes back to the queue."""
        if current := self._current:
            current[1].end()

    def release(self) -> None:
        """Give the current run back from another thread, when its own does not answer any more."""
        if current := self._current:
            claim = current[0]
            try:
                with self._database.begin() as session:
                    claims.release(session, claim.id, claim.attempt, _STOPPED)
            except SQLAlchemyError as error:
                log.warning("the run was not given back", extra={"submission": claim.id, "error": str(error)})

    def _prepare(self, judge: Judge) -> None:
        """Start boxes and the first problem's referee before anybody waits for them. Raises SandboxUnavailable."""
        with self._database.read() as session:
            offered = [p for p in problems.listing(session) if self._device.name in p.devices]
        try:
            for problem in offered[:1]:
                judge.prepare(self._versions.get(problem.version, problem.gate_set, problem.archive), self._device)
        except (ProblemBroken, NotFound, RefereeLost) as error:
            log.warning("the referee was not started ahead", extra={"problem": offered[0].name, "reason": error.message})

    def _play_next(self, judge: Judge) -> bool:
        """A duel for a crown follows the verdict that called for it; one that a person asked for waits until no submission does."""
        if self._duels.play_next(judge, is_for_crown=True):
            return True
        if claim := self._next():
            self._serve(judge, claim)
            return True
        return self._duels.play_next(judge, is_for_crown=False)

    def _next(self) -> Claim | None:
        now = datetime.now(UTC)
        try:
            with self._database.begin() as session:
                lost = claims.expire(session, now)
            with self._database.begin() as session:
                claim = claims.claim(session, self._device.name, self.runner, LEASE_S, now)
        except SQLAlchemyError as error:
            log.warning("the database was not reached", extra={"error": str(error)})
            return None
        for submission, attempt in lost:
            log.error("a run was lost", extra={"submission": submission, "attempt": attempt})
        return claim

    def _serve(self, judge: Judge, claim: Claim) -> None:
        """One run, from claim to verdict. Whatever happens is written down; nothing is raised."""
        started = time.monotonic()
        try:
            verdict = self._judge(judge, claim)
        except DerbyError as error:
            is_unable = isinstance(error, SandboxUnavailable)
            self._lose(claim, isinstance(error, RefereeLost) and error.box_alive, error.message)
            self._stopping.wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, LONG_PAUSE_S) if is_unable else PAUSE_S
        except Exception as error:
            log.exception("judging failed", extra={"submission": claim.id})
            self._lose(claim, False, f"The judge failed ({type(error).__name__}).")
            self._stopping.wait(PAUSE_S)
        else:
            self._finish(claim, verdict, time.monotonic() - started)
            self._pause_s = PAUSE_S
        finally:
            self._current = None

    def _judge(self, judge: Judge, claim: Claim) -> Verdict:
        with Lease(self._database, claim) as lease:
            self._current = (claim, lease)
            job = Job(
                submission=claim.id, attempt=claim.attempt, problem=self._versions.get(claim.version, claim.gate_set, claim.archive),
                device=self._device, mode=claim.mode, file_name=claim.file_name, source=self._artifacts.get(claim.source_sha),
                seed=self._seed(claim),
            )
            lease.report("state", {"state": State.RUNNING, "seed_commitment": self._commitment(claim)})
            return judge.judge(job, lease.report, lease.cancelled)

    def _finish(self, claim: Claim, verdict: Verdict, total_s: float) -> None:
        if verdict.outcome is Outcome.CANCELLED and self._stopping.is_set():
            self._insist(claim, lambda s: claims.release(s, claim.id, claim.attempt, _STOPPED))
            return
        stages = {**verdict.stages_s, "queue": round(claim.queued_s, 4), "total": round(total_s, 4)}
        said = verdict.model_copy(update={"stages_s": stages})
        if self._insist(claim, lambda s: claims.finish(s, claim.id, claim.attempt, self._rated_and_signed(s, claim, said))):
            log.info("judged", extra={"submission": claim.id, "outcome": verdict.outcome, "total_s": total_s})

    def _rated_and_signed(self, session: Session, claim: Claim, verdict: Verdict) -> Verdict:
        told = {**verdict.receipt, "seed_commitment": self._commitment(claim), **self._contest(claim)}
        rated = factors.rated(session, verdict, datetime.now(UTC))
        final = rated.model_copy(update={"submission": claim.id, "attempt": claim.attempt, "receipt": told})
        return receipt.sealed(final, sign(self._key, receipt.payload_of(final)))

    def _commitment(self, claim: Claim) -> str:
        """Written down before the run, so that nobody can choose another seed after it."""
        return receipt.commitment(self._key.salt(claim.id, claim.attempt), self._seed(claim))

    def _seed(self, claim: Claim) -> bytes:
        secret = self._secret if claim.contest is None else contest_secret(self._secret, claim.contest)
        return run_seed(secret, claim.id, claim.attempt)

    def _contest(self, claim: Claim) -> dict[str, Any]:
        """What ties a contest's run to the secret that is committed to at its start."""
        if claim.contest is None:
            return {}
        return {"contest": claim.contest, "contest_commitment": contest_seeds.made(self._key, self._secret, claim.contest).commitment}

    def _lose(self, claim: Claim, box_alive: bool, reason: str) -> None:
        log.error("an attempt was lost", extra={"submission": claim.id, "attempt": claim.attempt, "reason": reason})
        self._insist(claim, lambda s: claims.lose(s, claim.id, claim.attempt, box_alive, reason))

    def _insist(self, claim: Claim, end: Callable[[Session], bool]) -> bool:
        """Write the end of a run, however long the database needs. Past INSIST_S the lease is gone, and another worker judges it again."""
        give_up = time.monotonic() + INSIST_S
        while True:
            try:
                with self._database.begin() as session:
                    written = end(session)
            except SQLAlchemyError as error:
                log.warning("the end of a run was not written", extra={"submission": claim.id, "error": str(error)})
                if time.monotonic() > give_up:
                    return False
                time.sleep(PAUSE_S)
                continue
            if not written:
                log.warning("fenced out", extra={"submission": claim.id, "attempt": claim.attempt})
            return written
