"""Who did what: log-ins, tokens, problems added, cancels, rejudges."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from kernelderby.storage.models import Audit


def note(session: Session, person: int | None, action: str, **detail: Any) -> None:
    """Write down an action. `detail` is JSON; never a secret."""
    session.add(Audit(at=datetime.now(UTC), person=person, action=action, detail=detail))
