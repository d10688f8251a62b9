"""A backup restored: into an empty database and store, in one transaction, brought up to the schema of today."""

import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from sqlalchemy import Connection, Table, func, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from kernelderby.core.errors import DerbyError, RequestError
from kernelderby.core.text import one_line
from kernelderby.core.verdict import State
from kernelderby.storage import audit, backup_rows, claims, duels
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.backup_file import Backup, BadBackup
from kernelderby.storage.database import Database, known_revisions, lock, move
from kernelderby.storage.models import DuelRow, Submission, WebSession

_BATCH = 500
_REASON = "The platform was restored from a backup."


def verify(backup: Backup) -> None:
    """Read all of it against its hashes, and see that this Kernel Derby knows its schema. Raises BadBackup."""
    if backup.manifest.revision not in known_revisions():
        raise BadBackup(f"The backup's schema {backup.manifest.revision} is unknown here: it is of a newer Kernel Derby. "
                        "Restore it with that one, or a later one.")
    backup.verify()


def restore(backup: Backup, database: Database, artifacts: ArtifactStore, keep_keys: Callable[[], None]) -> None:
    """Fill an empty database from a backup that was verified; rows count once all else is in place. Raises RequestError, BadBackup.

    `keep_keys` writes the secrets, just before the rows are committed.
    """
    try:
        with database.engine.begin() as connection:
            lock(connection)
            _insist_on_empty(connection)
            move(connection, "base")
            move(connection, backup.manifest.revision)
            _fill(connection, backup)
            move(connection, "head")
            _count_on(connection)
            with Session(connection) as session:
                _settle(session, backup)
                session.commit()     # into this transaction, which is still open
            for sha in backup.manifest.artifacts:
                artifacts.put(backup.artifact(sha))
            keep_keys()
    except DBAPIError as error:
        said = one_line(str(error.orig), 200).rstrip(".")
        raise BadBackup(f"The database does not take what the backup holds: {said}. Nothing was restored.") from None
    except OSError as error:
        raise DerbyError(f"The data folder cannot be written: {error.strerror}. No row was restored; mend it and restore again.") from None


def insist_on_room(backup: Backup, folder: Path) -> None:
    """That the disk below a folder can hold what the backup unpacks to. Raises RequestError."""
    there = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(there).free
    if backup.manifest.bytes > free:
        raise RequestError(f"The backup unpacks to {backup.manifest.bytes / 1e6:,.0f} MB, and {there} has {free / 1e6:,.0f} MB left. "
                           "Make room, or name another folder with DERBY_DATA.")


def _insist_on_empty(connection: Connection) -> None:
    for table in backup_rows.tables_of(connection):
        if connection.execute(select(text("1")).select_from(table).limit(1)).first():
            raise RequestError(f"The database is not empty: it has rows in {table.name}. A backup is restored into an empty one alone: "
                               "name another folder with DERBY_DATA, or another database with DERBY_DATABASE_URL.")


def _fill(connection: Connection, backup: Backup) -> None:
    tables = backup_rows.tables_of(connection)
    if {t.name for t in tables} != backup.manifest.tables.keys():
        raise BadBackup(f"The backup does not hold the tables of its schema {backup.manifest.revision}.")
    for table in tables:
        _fill_table(connection, table, backup)


def _fill_table(connection: Connection, table: Table, backup: Backup) -> None:
    columns = backup.manifest.tables[table.name].columns
    if sorted(columns) != sorted(c.name for c in table.columns):
        raise BadBackup(f"The backup does not hold the columns of {table.name} in its schema {backup.manifest.revision}.")
    insertion = backup_rows.insertion(table, columns, connection.dialect.name)
    lines = backup.lines(table.name)
    while batch := [backup_rows.parse(table, columns, line) for line in islice(lines, _BATCH)]:
        connection.execute(insertion, batch)


def _count_on(connection: Connection) -> None:
    """New rows get numbers after those restored; PostgreSQL counts apart from the rows."""
    if connection.dialect.name != "postgresql":
        return
    for table in backup_rows.tables_of(connection):
        for column in table.primary_key.columns:
            sequence = connection.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))
            last = connection.scalar(select(func.max(column))) if sequence else None
            if last is not None:
                connection.execute(select(func.setval(sequence, last)))


def _settle(session: Session, backup: Backup) -> None:
    """Runs go back to the queue, since nobody works on them here; what can be used once is void, since it may have been used."""
    at_work = select(Submission.id, Submission.attempt).where(Submission.state.in_((State.BUILDING, State.RUNNING)))
    for submission, attempt in session.execute(at_work).all():
        claims.release(session, submission, attempt, _REASON)
    for duel, attempt in session.execute(select(DuelRow.id, DuelRow.attempt).where(DuelRow.state == State.RUNNING)).all():
        duels.release(session, duel, attempt)
    session.execute(update(WebSession).where(WebSession.kind != "cookie", WebSession.revoked_at.is_(None))
                    .values(revoked_at=backup.manifest.made_at))
    audit.note(session, None, "backup restore", made_at=backup.manifest.made_at.isoformat(), revision=backup.manifest.revision)
