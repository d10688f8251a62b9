"""The workers that were seen."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from kernelderby.storage.models import Runner
from kernelderby.storage.upsert import upsert

ALIVE = timedelta(seconds=60)      # seen this lately: at work
FORGOTTEN = timedelta(days=1)      # a worker's name holds its process id, so the gone ones are cleared


@dataclass(frozen=True, kw_only=True)
class RunnerInfo:
    """A worker, when it was last seen, and what it runs on."""

    name: str
    device: str
    seen_at: datetime
    environment: dict[str, Any]


def seen(session: Session, name: str, device: str, environment: Mapping[str, Any], now: datetime) -> None:
    """A worker is here."""
    upsert(session, Runner, {"name": name, "device": device, "seen_at": now, "environment": dict(environment)},
           ["name"], {"device": device, "seen_at": now, "environment": dict(environment)})
    session.execute(delete(Runner).where(Runner.seen_at < now - FORGOTTEN).execution_options(synchronize_session=False))


def gone(session: Session, name: str) -> None:
    """A worker ended."""
    session.execute(delete(Runner).where(Runner.name == name).execution_options(synchronize_session=False))


def alive(session: Session, now: datetime) -> list[RunnerInfo]:
    """The workers at work now, by device and name."""
    rows = session.scalars(select(Runner).where(Runner.seen_at > now - ALIVE).order_by(Runner.device, Runner.name))
    return [RunnerInfo(name=r.name, device=r.device, seen_at=r.seen_at, environment=r.environment) for r in rows]
