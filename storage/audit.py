"""Who did what: log-ins, tokens, problems added, cancels, rejudges."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelderby.storage.models import Audit, Person


def note(session: Session, person: int | None, action: str, **detail: Any) -> None:
    """Write down an action. `detail` is JSON; never a secret."""
    session.add(Audit(at=datetime.now(UTC), person=person, action=action, detail=detail))


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One action."""

    id: int
    at: datetime
    person_id: int | None        # None: whoever holds the database
    person: str | None           # the name they have now
    action: str
    detail: dict[str, Any]


def listing(session: Session, *, limit: int, before: int | None = None, person: int | None = None) -> list[Entry]:
    """Actions, newest first, below the number `before`; of one person, where asked."""
    query = select(Audit, Person.name).outerjoin(Person, Person.id == Audit.person).order_by(Audit.id.desc()).limit(limit)
    if before is not None:
        query = query.where(Audit.id < before)
    if person is not None:
        query = query.where(Audit.person == person)
    return [Entry(id=row.id, at=row.at, person_id=row.person, person=name, action=row.action, detail=row.detail)
            for row, name in session.execute(query)]
