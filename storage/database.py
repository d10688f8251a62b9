"""The database: one engine, short transactions, the schema brought up to date."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import StaticPool

from kernelderby.core.errors import SetupError

if TYPE_CHECKING:
    from alembic.config import Config

BUSY_S = 30                      # how long a writer waits for another on SQLite
_MIGRATION_LOCK = 0x6465726279   # "derby": the advisory lock of those who migrate


class Database:
    """Where everything is kept. Safe to share between threads; `close` when done."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writes = sessionmaker(engine, expire_on_commit=False)
        self._reads = sessionmaker(engine.execution_options(derby_read=True, postgresql_readonly=True), expire_on_commit=False)

    @contextmanager
    def begin(self) -> Iterator[Session]:
        """A session in one write transaction: committed at the end, rolled back on an exception. Keep it short."""
        with self._writes.begin() as session:
            yield session

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session that only reads, beside writers and other readers."""
        with self._reads.begin() as session:
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection that only reads, and sees one moment for as long as it is held; writers go on meanwhile."""
        options: dict[str, Any] = {"derby_read": True}     # SQLite's readers see one moment anyway
        if self.engine.dialect.name == "postgresql":
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with self.engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def connect(url: str) -> Database:
    """The database at an SQLAlchemy address: `sqlite:///path` or `postgresql+psycopg://…`.

    Raises SetupError for what is no address, and for a file in a folder that is not there.
    """
    try:
        address = make_url(url)
    except Exception as error:
        raise SetupError(f"DERBY_DATABASE_URL cannot be read: {error}.") from None
    if address.get_backend_name() == "sqlite":
        return Database(_sqlite(url, address.database))
    return Database(create_engine(url, pool_pre_ping=True, pool_size=8, max_overflow=24))


def migrate(database: Database, revision: str = "head") -> None:
    """Bring the schema to `revision`. Several processes may call it at once: one works, the others wait. Raises SetupError."""
    try:
        with database.engine.begin() as connection:
            lock(connection)
            move(connection, revision)
    except OperationalError as error:
        said = str(error.orig).partition("\n")[0].rstrip(".")
        raise SetupError(f"The database cannot be used: {said}. Check DERBY_DATABASE_URL and DERBY_DATA.") from error


def lock(connection: Connection) -> None:
    """Wait until nobody else changes the schema, and keep others from it until this transaction ends."""
    if connection.dialect.name == "postgresql":    # on SQLite the transaction is the lock
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))


def revision_of(connection: Connection) -> str | None:
    """The schema's revision; None: there is no schema."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def known_revisions() -> frozenset[str]:
    """Every revision that the schema ever had."""
    from alembic.script import ScriptDirectory

    return frozenset(script.revision for script in ScriptDirectory.from_config(_alembic()).walk_revisions())


def move(connection: Connection, revision: str) -> None:
    """Change the schema to `revision`, "base" or "head", inside the connection's transaction."""
    from alembic import command  # here: 12 MB that only a migration needs, and every process would hold

    config = _alembic()
    config.attributes["connection"] = connection
    if revision == "base":
        command.downgrade(config, revision)
    else:
        command.upgrade(config, revision)


def _alembic() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def _sqlite(url: str, path: str | None) -> Engine:
    options: dict[str, Any] = {"connect_args": {"timeout": BUSY_S, "check_same_thread": False}}
    if path is None or path in ("", ":memory:"):
        options["poolclass"] = StaticPool   # a database in memory lives in one connection
    elif not Path(path).parent.is_dir():
        raise SetupError(f"There is no folder {Path(path).parent} for the database. `derby up` makes it, DERBY_DATA names another.")
    engine = create_engine(url, **options)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None   # transactions begin where `_begin_sqlite` says, not where the driver guesses
    _use_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous=FULL")   # an acknowledged row survives a power cut
    connection.execute("PRAGMA foreign_keys=ON")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """The first to open a file changes its journal; SQLite tells others meanwhile that it is locked, without waiting."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    reads = connection.get_execution_options().get("derby_read", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")   # a late upgrade to a write lock would fail at once, not wait
