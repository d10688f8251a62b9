"""Rows as JSON lines that mean the same in SQLite and PostgreSQL: times in UTC, JSON columns as the text they hold."""

import json
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    DateTime,
    Float,
    Insert,
    Integer,
    MetaData,
    Numeric,
    Select,
    String,
    Table,
    Text,
    bindparam,
    cast,
    select,
)

from kernelderby.storage.backup_file import BadBackup

_VERSION_TABLE = "alembic_version"
_LARGEST_INTEGER = 1 << 63


def tables_of(connection: Connection) -> list[Table]:
    """Every table as it is in this database, those that others refer to first."""
    metadata = MetaData()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*expression-based index")     # rows need no index
        metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name != _VERSION_TABLE]


def dump(connection: Connection, table: Table) -> Iterator[dict[str, Any]]:
    """The rows of a table in the order of its key, by column, as values of JSON."""
    columns = list(table.columns)
    read: Select[Any] = select(*(_text(c) if isinstance(c.type, JSON) else c for c in columns)).order_by(*table.primary_key.columns)
    with connection.execution_options(yield_per=500).execute(read) as rows:
        for row in rows:
            yield {column.name: _plain(value) for column, value in zip(columns, row, strict=True)}


def insertion(table: Table, columns: list[str], dialect: str) -> Insert:
    """What takes the rows that `parse` makes."""
    return table.insert().values({name: _bound(table.columns[name], dialect) for name in columns})


def parse(table: Table, columns: list[str], line: bytes) -> dict[str, Any]:
    """The values of a line, for `insertion`. Raises BadBackup for what the column cannot hold."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        raise BadBackup(f"A line of {table.name} is no JSON.") from None
    if not isinstance(values, list) or len(values) != len(columns):
        raise BadBackup(f"A line of {table.name} does not have its {len(columns)} values.")
    return {_name(c): _value(table.columns[c], value) for c, value in zip(columns, values, strict=True)}


def _text(column: Column[Any]) -> Any:
    return cast(column, Text).label(column.name)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    return value


def _bound(column: Column[Any], dialect: str) -> Any:
    if not isinstance(column.type, JSON):
        return bindparam(_name(column.name), type_=column.type)
    text = bindparam(_name(column.name), type_=Text)
    return cast(text, JSON) if dialect == "postgresql" else text      # to SQLite a JSON column is text


def _name(column: str) -> str:
    return f"value_{column}"      # a column's own name is taken


def _value(column: Column[Any], value: Any) -> Any:
    if value is None:
        return None
    for kind, read in _READ:
        if isinstance(column.type, kind):
            try:
                return read(value)
            except (TypeError, ValueError, RecursionError):
                raise BadBackup(f"A line of {column.table.name} holds a value of {column.name} that it cannot hold.") from None
    raise BadBackup(f"{column.table.name}.{column.name} is of a kind that no backup holds.")


def _json(value: Any) -> str:
    json.loads(value)
    return str(value)


def _time(value: Any) -> datetime:
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError
    return found.astimezone(UTC)


def _integer(value: Any) -> int:
    if type(value) is not int or abs(value) >= _LARGEST_INTEGER:
        raise ValueError
    return value


def _exactly(*kinds: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) not in kinds:
            raise ValueError
        return value
    return read


_READ: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (JSON, _json), (DateTime, _time), (Boolean, _exactly(bool)), (Integer, _integer), (Float, _exactly(float, int)),
    (Numeric, _exactly(float, int)), (String, _exactly(str)),
)
