"""One task a process reads new event rows and hands them to every watcher."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kernelderby.storage import events
from kernelderby.storage.database import Database
from kernelderby.storage.events import Event

log = logging.getLogger(__name__)
PERIOD_S = 0.3
SETTLE_S = 0.02      # a newcomer's first look waits this long, so that many newcomers share it
BATCH = 200          # events of one submission in one look
BACKLOG = 2000       # events that wait for a slow reader; the rest stays in the database until it has read some


class Watcher:
    """One reader of one submission's events."""

    def __init__(self, submission: int, seq: int) -> None:
        self.submission = submission
        self.seq = seq                       # the last event handed over
        self._queue: asyncio.Queue[Event] = asyncio.Queue(BACKLOG)

    async def next(self, timeout_s: float) -> Event | None:
        """The next event in order, or None when none came in time."""
        try:
            return await asyncio.wait_for(self._queue.get(), timeout_s)
        except TimeoutError:
            return None

    def at_hand(self) -> list[Event]:
        """The events that have already arrived."""
        return [self._queue.get_nowait() for _ in range(self._queue.qsize())]

    @property
    def has_more(self) -> bool:
        """Whether another event has already arrived."""
        return not self._queue.empty()

    def hand(self, found: list[Event]) -> None:
        """Take what is new to this reader."""
        for event in found:
            if event.seq <= self.seq:
                continue
            if self._queue.full():
                return
            self._queue.put_nowait(event)
            self.seq = event.seq


class Ticker:
    """Asks the database for `seq > n` of the watched submissions every 300 ms; asks nothing while nobody watches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watchers: set[Watcher] = set()
        self._newcomer = asyncio.Event()

    @asynccontextmanager
    async def watch(self, submission: int, after: int) -> AsyncIterator[Watcher]:
        """A watcher of the events with `seq > after`, those already there first."""
        watcher = Watcher(submission, after)
        self._watchers.add(watcher)
        self._newcomer.set()
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    async def run(self) -> None:
        """Serve watchers until cancelled."""
        while True:
            await self._rest()
            try:
                found = await asyncio.to_thread(self._look, self._cursors())
            except Exception:   # whatever went wrong with this look, the next one must come: nobody else serves these watchers
                log.exception("events could not be read")
                continue
            for watcher in self._watchers:
                watcher.hand(found.get(watcher.submission, []))

    async def _rest(self) -> None:
        try:
            await asyncio.wait_for(self._newcomer.wait(), PERIOD_S if self._watchers else None)
            await asyncio.sleep(SETTLE_S)
        except TimeoutError:
            pass
        self._newcomer.clear()

    def _cursors(self) -> dict[int, int]:
        cursors: dict[int, int] = {}
        for watcher in self._watchers:
            cursors[watcher.submission] = min(watcher.seq, cursors.get(watcher.submission, watcher.seq))
        return cursors

    def _look(self, cursors: dict[int, int]) -> dict[int, list[Event]]:
        with self._database.read() as session:
            return {submission: events.after(session, submission, seq, BATCH) for submission, seq in cursors.items()}
