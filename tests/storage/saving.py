"""Ways to save a small world and to restore it."""

from pathlib import Path

from sqlalchemy import select, text

from kernelderby.core.verdict import Mode
from kernelderby.storage import backup, people, restore
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.backup_file import Backup, reading
from kernelderby.storage.backup_rows import tables_of
from kernelderby.storage.contest_models import Team
from kernelderby.storage.database import Database
from kernelderby.storage.models import WebSession
from tests.small_world import NOON, World

KEYS = {"secret": "s" * 43, "signing_key": "k" * 43}


def save(world: World, path: Path) -> backup.Made:
    return backup.make(world.database, world.artifacts, KEYS, path)


def load(path: Path, database: Database, store: ArtifactStore) -> None:
    with reading(path) as found:
        restore.verify(found)
        restore.restore(found, database, store, lambda: None)


def hashes(found: Backup) -> dict[str, str]:
    return {name: table.sha256 for name, table in found.manifest.tables.items() if name != "audit"}


def is_empty(database: Database) -> bool:
    with database.engine.connect() as connection:
        return not any(connection.execute(select(text("1")).select_from(t)).first() for t in tables_of(connection))


def a_little_of_everything(world: World) -> None:
    world.judged("ada", 12.5, 0.01, message="line\nbreak \u2028 ✓ \\u0041 {}")
    world.judged("bob", 11.5)
    world.send("ćirić", Mode.TEST, source=b"other\r\n\x00")
    with world.database.begin() as session:
        bob = people.by_name(session, "bob")
        assert bob
        people.new_token(session, bob.id, "bob's")
        session.add(Team(name="both ✓", owner=bob.id, created_at=NOON))
        session.add(WebSession(person=None, kind="cookie", hash="c" * 64, detail={"a": [1, None, "é"]}, created_at=NOON, expires_at=NOON,
                               revoked_at=None))
