"""Holding on to a run: a thread that renews its lease, writes its events, and notices when it should end."""

import logging
import queue
import threading
import time
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from kernelderby.storage import claims
from kernelderby.storage.claims import Claim
from kernelderby.storage.database import Database

log = logging.getLogger(__name__)

LEASE_S = 20.0       # without a renewal for so long, the run belongs to whoever claims it next
RENEW_S = 5.0
LOOK_S = 1.0         # how often cancellation is read
GATHER_S = 0.05      # events that come this close together are written in one transaction
LAST_WORDS_S = 30.0  # how long the last events are tried when the database is away

Step = tuple[str, dict[str, Any]]


class Lease:
    """A context: inside it the run is held; leaving it writes the last events. The run's own thread never waits for the database."""

    def __init__(self, database: Database, claim: Claim) -> None:
        self._database = database
        self._claim = claim
        self._steps: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._hold, name=f"lease-{claim.id}", daemon=True)
        self._renew_at = time.monotonic() + RENEW_S

    def __enter__(self) -> "Lease":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._steps.put(None)
        self._thread.join()

    def report(self, kind: str, data: dict[str, Any]) -> None:
        """One step of the run, in order."""
        self._steps.put((kind, data))

    def cancelled(self) -> bool:
        """Whether the run should end: its person or its worker wants it, or it is no longer ours."""
        return self._ended.is_set()

    def end(self) -> None:
        """Make `cancelled` true."""
        self._ended.set()

    def _hold(self) -> None:
        pending: list[Step] = []
        last = False
        while not last:
            steps, last = self._gather()
            pending += steps
            if self._tell(pending):
                pending.clear()
        give_up = time.monotonic() + LAST_WORDS_S
        while pending and time.monotonic() < give_up and not self._tell(pending):
            time.sleep(LOOK_S)

    def _gather(self) -> tuple[list[Step], bool]:
        """What was reported since, at most LOOK_S later, and whether it was the last."""
        steps: list[Step] = []
        wait_s = LOOK_S
        while True:
            try:
                step = self._steps.get(timeout=wait_s)
            except queue.Empty:
                return steps, False
            if step is None:
                return steps, True
            steps.append(step)
            wait_s = GATHER_S

    def _tell(self, steps: list[Step]) -> bool:
        """Write the steps, renew when it is time, read cancellation. False: the database is away."""
        due = time.monotonic() >= self._renew_at
        try:
            if steps or due:
                self._write(steps)
            with self._database.read() as session:
                standing = claims.standing(session, self._claim.id, self._claim.attempt)
        except SQLAlchemyError as error:
            log.warning("the lease was not renewed", extra={"submission": self._claim.id, "error": str(error)})
            return False
        if not standing.ours or standing.cancelled:
            self._ended.set()
        return True

    def _write(self, steps: list[Step]) -> None:
        claim = self._claim
        with self._database.begin() as session:
            claims.add_events(session, claim.id, claim.attempt, steps)
            claims.renew(session, claim.id, claim.attempt, datetime.now(UTC) + timedelta(seconds=LEASE_S))
        self._renew_at = time.monotonic() + RENEW_S
