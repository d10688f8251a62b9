"""A backup: one moment of the database, the artifacts that its rows name, and the secrets, in one file."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table

from kernelderby.core.errors import DerbyError, RequestError
from kernelderby.storage import backup_rows
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.backup_file import FORM, LARGEST_ARTIFACT, Manifest, Part, TablePart, Writer, writing
from kernelderby.storage.database import Database, revision_of

_NAMES_ARTIFACT = {"problem_versions": "archive", "submissions": "source_sha"}


@dataclass(frozen=True, kw_only=True)
class Made:
    """A backup that was written."""

    manifest: Manifest
    deleted: int                # sources that went with the people who deleted themselves
    lost: tuple[str, ...]       # artifacts that rows name and the disk no longer holds: the backup lacks them


@dataclass(kw_only=True)
class _Named:
    """The artifacts that rows name."""

    needed: dict[str, bool] = field(default_factory=dict)      # False: of people alone who deleted themselves
    deleted_people: set[int] = field(default_factory=set)

    def see(self, table: str, row: Mapping[str, Any]) -> None:
        if table == "people" and row.get("deleted_at"):
            self.deleted_people.add(row["id"])
        if (column := _NAMES_ARTIFACT.get(table)) and row.get("replays") is None:      # a replay's source is its original's
            sha = str(row[column])
            self.needed[sha] = self.needed.get(sha, False) or row.get("person") not in self.deleted_people


def make(database: Database, artifacts: ArtifactStore, keys: Mapping[str, str], path: Path) -> Made:
    """Write a backup to `path`, for its owner alone, while the platform runs on. Raises RequestError, DerbyError."""
    if path.exists():
        raise RequestError(f"{path} is there already. Choose another name; a backup overwrites nothing.")
    if not path.absolute().parent.is_dir():
        raise RequestError(f"There is no folder {path.absolute().parent} for the backup.")
    try:
        with writing(path) as writer:
            return _write(database, artifacts, keys, writer)
    except OSError as error:
        raise DerbyError(f"The backup {path} cannot be written: {error.strerror}. Nothing was left there.") from None


def _write(database: Database, artifacts: ArtifactStore, keys: Mapping[str, str], writer: Writer) -> Made:
    named = _Named()
    with database.snapshot() as connection:
        made_at, revision = datetime.now(UTC), revision_of(connection)
        if revision is None:
            raise RequestError("There is nothing to back up: the database is empty. Check DERBY_DATABASE_URL and DERBY_DATA.")
        tables = {t.name: _write_table(connection, t, named, writer) for t in backup_rows.tables_of(connection)}
    kept = _write_artifacts(artifacts, named, writer)
    secrets: dict[str, Part] = {name: writer.key(name, value) for name, value in keys.items()}
    manifest = Manifest(form=FORM, revision=revision, made_at=made_at, tables=tables, artifacts=kept, keys=secrets)
    writer.manifest(manifest)
    missing = [sha for sha in named.needed if sha not in kept]
    lost = tuple(sha for sha in missing if named.needed[sha])
    return Made(manifest=manifest, deleted=len(missing) - len(lost), lost=lost)


def _write_table(connection: Connection, table: Table, named: _Named, writer: Writer) -> TablePart:
    def lines() -> Iterator[bytes]:
        for row in backup_rows.dump(connection, table):
            named.see(table.name, row)
            yield json.dumps(list(row.values()), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    return writer.table(table.name, [column.name for column in table.columns], lines())


def _write_artifacts(artifacts: ArtifactStore, named: _Named, writer: Writer) -> dict[str, int]:
    kept = {}
    for sha in sorted(named.needed):
        try:
            data = artifacts.get(sha)
        except DerbyError:      # not there, or damaged on disk: it is told, and the rest is saved
            continue
        if len(data) < LARGEST_ARTIFACT:
            writer.artifact(sha, data)
            kept[sha] = len(data)
    return kept
