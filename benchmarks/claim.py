"""How long a worker takes to claim its next run with 100,000 waiting: `python -m benchmarks.claim [--out FILE]`.

Both engines, durable as in production; every claim is its own transaction, committed. PostgreSQL is a fresh cluster on a unix socket.
On a machine with other work to do, `chrt -r 1` before the command measures the claim and not the wait for a processor.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import insert, text

from benchmarks import machine
from benchmarks.machine import seconds
from kernelderby.storage import claims, submissions
from kernelderby.storage.database import Database, connect, migrate
from kernelderby.storage.models import Person, ProblemRow, ProblemVersion, Submission, Turn
from tests.postgres import cluster, new_database

QUEUED = 100_000
CLAIMS = 1_000
THREADS = 8
LIMIT_MS = 5.0


def main() -> int:
    """Measure, print and write; 1 where a median is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out: Path | None = parser.parse_args().out
    engines = {name: [measure(open_engine, people) for people in (1_000, QUEUED)] for name, open_engine in ENGINES.items()}
    policy = "round robin, real time" if os.sched_getscheduler(0) == os.SCHED_RR else f"nice {os.nice(0)}"
    machine.write({"machine": machine.facts(), "scheduling": policy, "queued": QUEUED, "limit_ms": LIMIT_MS, "engines": engines}, out)
    return int(any(run["claim_ms"]["median"] > LIMIT_MS for runs in engines.values() for run in runs))


def measure(open_engine: Any, people: int) -> dict[str, Any]:
    """One engine with the queue spread over that many people."""
    with open_engine() as (database, version):
        migrate(database)
        fill(database, people)
        one_by_one = [1000 * seconds(lambda: claim(database)) for _ in range(CLAIMS)]
        with ThreadPoolExecutor(THREADS) as pool:
            started = time.perf_counter()
            taken = list(pool.map(lambda _: claim(database), range(CLAIMS)))
            together_s = time.perf_counter() - started
        places = [1000 * seconds(lambda: place(database, people)) for _ in range(20)]
    assert len(set(taken)) == CLAIMS, "a run was claimed twice"
    return {"version": version, "people": people, "claim_ms": machine.spread(one_by_one), "position_ms": machine.spread(places),
            f"claims_a_second_from_{THREADS}_threads": round(CLAIMS / together_s)}


def claim(database: Database) -> int:
    """The next run's number."""
    with database.begin() as session:
        found = claims.claim(session, "cpu", "benchmark", 20, datetime.now(UTC))
    assert found is not None
    return found.id


def place(database: Database, people: int) -> int:
    """Where the last one in the queue stands, as a door shows it."""
    with database.read() as session:
        return submissions.position(session, people, "cpu", QUEUED)


def fill(database: Database, people: int) -> None:
    """A queue of QUEUED submissions, dealt out among the people in turn."""
    now = datetime.now(UTC)
    with database.begin() as session:
        session.execute(insert(Person), [{"id": p, "name": f"person {p}", "role": "contestant", "created_at": now}
                                         for p in range(1, people + 1)])
        session.execute(insert(ProblemRow), [{"id": 1, "name": "p", "title": "P", "family": "f", "current": 1, "position": 0}])
        session.execute(insert(ProblemVersion), [{"id": 1, "problem": 1, "hash": "0" * 12, "gate_set": "0" * 12, "archive": "0" * 64,
                                                  "devices": ["cpu"], "min_effect": 0.005, "created_at": now, "open": True}])
        session.execute(insert(Turn), [{"person": p, "device": "cpu", "served_at": now, "gpu_seconds": 0.0, "queued": QUEUED // people}
                                       for p in range(1, people + 1)])
        session.execute(insert(Submission), [row(n, n % people + 1, now) for n in range(1, QUEUED + 1)])
    with database.begin() as session:
        session.execute(text("ANALYZE"))


def row(number: int, person: int, now: datetime) -> dict[str, Any]:
    """A queued submission."""
    return {"id": number, "person": person, "version": 1, "device": "cpu", "mode": "ranked", "state": "queued", "file_name": "k.py",
            "source_sha": "0" * 64, "language": "triton", "licence": "MIT", "ai_use": "", "door": "api", "created_at": now,
            "queued_at": now, "attempt": 0, "losses": 0, "box_losses": 0, "cancel_requested": False, "last_seq": 0, "competes": False}


@contextmanager
def sqlite() -> Iterator[tuple[Database, str]]:
    """A file of its own, on the disk that temporary files lie on."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        database = connect(f"sqlite:///{folder}/derby.sqlite")
        stack.callback(database.close)
        with database.read() as session:
            version = f"SQLite {session.scalar(text('SELECT sqlite_version()'))}, WAL, synchronous=FULL"
        yield database, version


@contextmanager
def postgresql() -> Iterator[tuple[Database, str]]:
    """A cluster of its own, with PostgreSQL's defaults."""
    with cluster(()) as folder, ExitStack() as stack:
        database = connect(new_database(folder, "derby"))
        stack.callback(database.close)
        with database.read() as session:
            version = f"PostgreSQL {session.scalar(text('SHOW server_version'))}, fsync on"
        yield database, version


ENGINES = {"sqlite": sqlite, "postgresql": postgresql}


if __name__ == "__main__":
    raise SystemExit(main())
