"""Backups: one moment while others write, the same on both engines, nothing restored by halves."""

import itertools
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from kernelderby.core.errors import DerbyError, RequestError
from kernelderby.core.verdict import State
from kernelderby.storage import backup, claims, people
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.backup_file import reading
from kernelderby.storage.backup_rows import tables_of
from kernelderby.storage.database import Database, connect, migrate
from kernelderby.storage.models import Audit, EventRow, Person, Submission, Turn, WebSession
from tests.postgres import new_database
from tests.small_world import NOON, World
from tests.storage.saving import KEYS, a_little_of_everything, hashes, is_empty, load, save

_numbers = itertools.count(1)


def test_what_was_saved_is_what_is_restored_on_either_engine(world: World, target: Database, new_store: ArtifactStore, tmp_path: Path
                                                             ) -> None:
    a_little_of_everything(world)
    made = save(world, tmp_path / "one")

    load(tmp_path / "one", target, new_store)

    assert not made.lost and made.manifest.rows > 20
    backup.make(target, new_store, KEYS, tmp_path / "two")
    with reading(tmp_path / "one") as one, reading(tmp_path / "two") as two:
        assert hashes(one) == hashes(two)
        assert one.manifest.artifacts == two.manifest.artifacts
        assert {name: two.key(name) for name in two.manifest.keys} == KEYS
    world.send("ada")


def test_new_rows_get_numbers_of_their_own_after_a_restore(world: World, target: Database, new_store: ArtifactStore, tmp_path: Path
                                                           ) -> None:
    a_little_of_everything(world)
    save(world, tmp_path / "file")
    load(tmp_path / "file", target, new_store)

    again = World(database=target, artifacts=new_store, problem=world.problem)

    assert again.send("ada") == 4
    assert again.person("new").id == 4
    assert again.judged("ada", 9.0) == 3, "the queue goes on where it stood"


def test_a_moment_is_saved_while_others_write_and_nobody_waits(world: World, target: Database, new_store: ArtifactStore, tmp_path: Path
                                                                ) -> None:
    world.judged("ada", 12.5)
    stop, sent = threading.Event(), [0]

    def write() -> None:
        while not stop.is_set():
            world.send(f"writer{sent[0] % 3}", source=f"# {sent[0]}\n".encode())
            if sent[0] % 2:
                world.judged("ada", 12.0)
            sent[0] += 1
    writer = threading.Thread(target=write)
    writer.start()
    try:
        while sent[0] < 3:
            pass
        before = sent[0]
        files = [tmp_path / f"file{n}" for n in range(4)]
        made = [save(world, file) for file in files]
        assert sent[0] > before, "writers went on"
    finally:
        stop.set()
        writer.join()

    assert not any(m.lost for m in made)
    load(files[-1], target, new_store)
    with target.read() as session:
        events = session.execute(select(Submission.last_seq, func.count()).join(EventRow, EventRow.submission == Submission.id)
                                 .group_by(Submission.id, Submission.last_seq)).all()
        waiting = session.execute(select(Turn.person, Turn.queued).where(Turn.queued > 0)).all()
        queued = session.execute(select(Submission.person, func.count()).where(Submission.state == State.QUEUED)
                                 .group_by(Submission.person)).all()
    assert len(events) > 3 and all(last == count for last, count in events)
    assert sorted(map(tuple, waiting)) == sorted(map(tuple, queued))


def test_runs_at_work_wait_again_and_codes_are_void(world: World, target: Database, new_store: ArtifactStore, tmp_path: Path) -> None:
    world.send("ada")
    world.take()
    with world.database.begin() as session:
        people.new_login_code(session, people.create(session, "bob").id)
    save(world, tmp_path / "file")

    load(tmp_path / "file", target, new_store)

    again = World(database=target, artifacts=new_store, problem=world.problem)
    assert again.view(1).state is State.QUEUED
    with target.read() as session:
        assert session.scalar(select(Submission.lease_until)) is None
        assert session.scalar(select(WebSession.revoked_at)) is not None
        assert session.scalar(select(Audit.action).order_by(Audit.id.desc())) == "backup restore"
    with target.begin() as session:
        assert not claims.renew(session, 1, 1, datetime.now(UTC) + timedelta(seconds=9)), "the old run is fenced out"
    assert again.take().attempt == 2


def test_an_older_schema_is_brought_up_to_date(postgres_server: str, target: Database, new_store: ArtifactStore, tmp_path: Path) -> None:
    old = connect(new_database(postgres_server, f"old{next(_numbers)}"))
    migrate(old, "0004")
    store = ArtifactStore(tmp_path / "artifacts")
    with old.engine.begin() as connection:
        for table in tables_of(connection):
            if table.name == "people":
                connection.execute(insert(table).values(name="ada", role="admin", created_at=NOON))
            if table.name == "sessions":
                connection.execute(insert(table).values(person=1, kind="cookie", hash="c", created_at=NOON, expires_at=NOON))
    backup.make(old, store, {}, tmp_path / "file")
    old.close()

    load(tmp_path / "file", target, new_store)

    with target.read() as session:
        ada = session.scalars(select(Person)).one()
        assert (ada.name, ada.created_at, ada.banned_at, ada.ban_reason) == ("ada", NOON, None, "")
        assert session.scalars(select(WebSession.person)).all() == [1]


def test_a_database_with_rows_is_left_alone(world: World, target: Database, new_store: ArtifactStore, tmp_path: Path) -> None:
    a_little_of_everything(world)
    save(world, tmp_path / "file")
    migrate(target)
    with target.begin() as session:
        people.create(session, "someone")

    with pytest.raises(RequestError, match="not empty: it has rows in people"):
        load(tmp_path / "file", target, new_store)

    with target.read() as session:
        assert [p.name for p in people.listing(session)] == ["someone"]
    assert not (tmp_path / "target" / "artifacts").exists()


def test_a_restore_that_was_killed_counts_for_nothing_and_can_be_done_again(world: World, target: Database, new_store: ArtifactStore,
                                                                            tmp_path: Path) -> None:
    a_little_of_everything(world)
    save(world, tmp_path / "file")
    program = ("import os, signal, sys; from pathlib import Path\n"
               "from kernelderby.storage import restore; from kernelderby.storage.artifacts import ArtifactStore\n"
               "from kernelderby.storage.backup_file import reading; from kernelderby.storage.database import connect\n"
               "with reading(Path(sys.argv[1])) as found:\n"
               "    restore.restore(found, connect(sys.argv[2]), ArtifactStore(Path(sys.argv[3])),\n"
               "                    lambda: os.kill(os.getpid(), signal.SIGKILL))\n")

    url = target.engine.url.render_as_string(hide_password=False)
    died = subprocess.run([sys.executable, "-P", "-c", program, str(tmp_path / "file"), url, str(tmp_path / "target" / "artifacts")])

    assert died.returncode == -9
    assert is_empty(target)
    load(tmp_path / "file", target, new_store)
    assert not is_empty(target)


def test_a_full_disk_restores_nothing(world: World, target: Database, tmp_path: Path) -> None:
    a_little_of_everything(world)
    save(world, tmp_path / "file")

    class Full(ArtifactStore):
        def put(self, data: bytes) -> str:
            raise OSError(28, "No space left on device")

    with pytest.raises(DerbyError, match="No space left on device"):
        load(tmp_path / "file", target, Full(tmp_path / "target" / "artifacts"))
    assert is_empty(target)


def test_a_backup_is_for_its_owner_alone_and_overwrites_nothing(sqlite_database: Database, tmp_path: Path) -> None:
    world = World.make(sqlite_database, tmp_path)
    save(world, tmp_path / "file")

    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    with pytest.raises(RequestError, match="there already"):
        save(world, tmp_path / "file")
    with pytest.raises(RequestError, match="no folder"):
        save(world, tmp_path / "nowhere" / "file")
    assert [p.name for p in tmp_path.iterdir() if "backup" in p.name] == []


def test_a_backup_that_fails_leaves_no_file(sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World.make(sqlite_database, tmp_path)

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DerbyError, match="No space left on device"):
        save(world, tmp_path / "file")

    assert not (tmp_path / "file").exists()
    assert [p.name for p in tmp_path.iterdir() if "backup" in p.name] == []


def test_an_artifact_that_is_gone_is_told_and_the_rest_is_saved(world: World, target: Database, new_store: ArtifactStore, tmp_path: Path
                                                                ) -> None:
    lost, deleted, damaged = (world.view(world.send(who, source=who.encode())).source_sha for who in ("ada", "bob", "eve"))
    with world.database.begin() as session:
        session.scalars(select(Person).where(Person.name == "bob")).one().deleted_at = NOON
    world.artifacts.drop(lost)
    world.artifacts.drop(deleted)
    world.artifacts.path(damaged).write_bytes(b"other")

    made = save(world, tmp_path / "file")
    load(tmp_path / "file", target, new_store)

    assert (set(made.lost), made.deleted) == ({lost, damaged}, 1)
    assert not is_empty(target)


def test_an_empty_database_has_nothing_to_save(target: Database, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="nothing to back up"):
        backup.make(target, ArtifactStore(tmp_path / "artifacts"), {}, tmp_path / "file")

