"""What all tables share: their base, numbers, times, and the conditions of partial indexes."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Integer, MetaData, TypeDecorator, text
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase

BigId = BigInteger().with_variant(Integer, "sqlite")   # SQLite counts rows by INTEGER PRIMARY KEY alone


# Conditions of partial indexes: a query uses such an index where it says the same words, without parameters.
QUEUED = "state = 'queued'"
LEASED = "lease_until IS NOT NULL"
COMPETES = "competes IS TRUE"
WAITING = "queued > 0"
DUEL_OPEN = "state <> 'done'"
REPLAYS_QUEUED = "state = 'queued' AND replays IS NOT NULL"
IN_CONTEST = "contest IS NOT NULL"      # `contest = …` says so too


def only(condition: str) -> dict[str, Any]:
    """An index of the rows for which that holds."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


class UtcTime(TypeDecorator[datetime]):
    """An aware UTC time; SQLite keeps none of the zone, so it is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value.astimezone(UTC) if value is not None else None

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


class Base(DeclarativeBase):
    """All tables."""

    metadata = MetaData(naming_convention={   # later revisions can name what they drop
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    })
    type_annotation_map = {datetime: UtcTime, dict[str, Any]: JSON, list[str]: JSON}
