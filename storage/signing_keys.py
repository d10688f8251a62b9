"""The public keys that receipts were ever signed with, as the audit log holds them: a receipt outlives the key's change."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from kernelderby.storage import audit
from kernelderby.storage.models import Audit

_ACTION = "signing_key"


@dataclass(frozen=True, kw_only=True)
class KeyInfo:
    """A public key."""

    id: str
    public: str         # base64url
    since: datetime     # when a worker first had it


def add(session: Session, key_id: str, public: str) -> None:
    """A worker signs with this key. One that is known stays as it is."""
    if all(key.public != public for key in listing(session)):
        audit.note(session, None, _ACTION, id=key_id, public=public)
        session.flush()


def listing(session: Session) -> list[KeyInfo]:
    """Every key, the first one first."""
    rows = session.scalars(select(Audit).where(Audit.action == _ACTION).order_by(Audit.id))
    found = {row.detail["public"]: row for row in reversed(rows.all())}     # two workers may note one at the same time
    return [KeyInfo(id=row.detail["id"], public=public, since=row.at) for public, row in reversed(found.items())]
