"""INSERT … ON CONFLICT, which both engines have and SQLAlchemy spells by engine."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from kernelderby.storage.base import Base


def upsert(session: Session, table: type[Base], values: Mapping[str, Any], keys: Sequence[str], update: Mapping[str, Any]) -> None:
    """Insert a row of `values`, or set `update` on the row that has the same `keys`."""
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    session.execute(insert(table).values(**values).on_conflict_do_update(index_elements=list(keys), set_=dict(update)))
