"""Backups: one moment while others write, the same on both engines, nothing restored by halves."""

import itertools
import json
import os
import random
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, text

from kernelderby.core.errors import DerbyError, RequestError
from kernelderby.core.verdict import Mode, State
from kernelderby.storage import backup, claims, people, restore
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.backup_file import Backup, BadBackup, reading
from kernelderby.storage.backup_rows import tables_of
from kernelderby.storage.contest_models import Team
from kernelderby.storage.database import Database, connect, migrate
from kernelderby.storage.models import Audit, EventRow, Person, Submission, Turn, WebSession
from tests.databases import ENGINES
from tests.postgres import new_database
from tests.small_world import NOON, World

KEYS = {"secret": "s" * 43, "signing_key": "k" * 43}
_numbers = itertools.count(1)
Change = Callable[[dict[str, bytes]], list[tuple[str, bytes]]]


@pytest.fixture(params=ENGINES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database without any table, once for each engine."""
    (tmp_path / "target").mkdir()
    url = f"sqlite:///{tmp_path / 'target' / 'derby.sqlite'}"
    if request.param == "postgresql":
        url = new_database(request.getfixturevalue("postgres_server"), f"restored{next(_numbers)}")
    database = connect(url)
    yield database
    database.close()


@pytest.fixture
def new_store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "target" / "artifacts")


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


def _manifest(parts: dict[str, bytes], **changes: object) -> list[tuple[str, bytes]]:
    told = {**json.loads(parts["manifest.json"]), **changes}
    return list({**parts, "manifest.json": json.dumps(told, separators=(",", ":")).encode()}.items())


def _rows(table: str, change: Callable[[list[list[object]]], object]) -> Change:
    """The rows of a table changed, all hashes right."""
    def changed(parts: dict[str, bytes]) -> list[tuple[str, bytes]]:
        name = f"tables/{table}.jsonl"
        rows = [json.loads(line) for line in parts[name].splitlines()]
        change(rows)
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        told = json.loads(parts["manifest.json"])["tables"]
        told[table] |= {"sha256": sha256(data).hexdigest(), "bytes": len(data), "rows": len(rows)}
        return _manifest({**parts, name: data}, tables=told)
    return changed


def _tables(parts: dict[str, bytes]) -> dict[str, object]:
    found: dict[str, object] = json.loads(parts["manifest.json"])["tables"]
    return found


def _first_artifact(parts: dict[str, bytes]) -> str:
    return next(name for name in parts if name.startswith("artifacts/"))


HOSTILE: dict[str, Change] = {
    "no manifest": lambda parts: [(n, d) for n, d in parts.items() if n != "manifest.json"],
    "a path that leads away": lambda parts: [*parts.items(), ("../../outside", b"x")],
    "a table that leads away": lambda parts: _manifest(parts, tables={"../../outside": _tables(parts)["people"]}),
    "a name twice": lambda parts: [*parts.items(), (_first_artifact(parts), b"other")],
    "an artifact too few": lambda parts: [(n, d) for n, d in parts.items() if n != _first_artifact(parts)],
    "an artifact of another hash": lambda parts: list({**parts, _first_artifact(parts): b"x" * len(parts[_first_artifact(parts)])}.items()),
    "a secret of a strange name": lambda parts: _manifest(parts, keys={"../token": {"sha256": "0" * 64, "bytes": 1}}),
    "a newer form": lambda parts: _manifest(parts, form=2),
    "a newer schema": lambda parts: _manifest(parts, revision="9999"),
    "a schema by a trick": lambda parts: _manifest(parts, revision="base"),
    "a manifest that is a list": lambda parts: list({**parts, "manifest.json": b"[" * 100_000}.items()),
    "a manifest of other types": lambda parts: _manifest(parts, tables=[]),
    "a table too few": lambda parts: _manifest({n: d for n, d in parts.items() if n != "tables/audit.jsonl"},
                                               tables={k: v for k, v in _tables(parts).items() if k != "audit"}),
    "a row twice": _rows("people", lambda rows: rows.append(rows[0])),
    "a row of someone who is not there": _rows("tokens", lambda rows: rows[0].__setitem__(1, 99)),
    "a value of the wrong kind": _rows("people", lambda rows: rows[0].__setitem__(0, "1; DROP TABLE people")),
    "a number too large": _rows("people", lambda rows: rows[0].__setitem__(0, 1 << 70)),
    "a value too few": _rows("people", lambda rows: rows[0].pop()),
    "a value that must not be null": _rows("people", lambda rows: rows[0].__setitem__(1, None)),
    "a time that is none": _rows("people", lambda rows: rows[0].__setitem__(3, "yesterday")),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_a_sentence_and_writes_nothing(what: str, sqlite_database: Database, target: Database, new_store: ArtifactStore,
                                                         tmp_path: Path) -> None:
    world = World.make(sqlite_database, tmp_path)
    a_little_of_everything(world)
    save(world, tmp_path / "good")
    with zipfile.ZipFile(tmp_path / "good") as good:
        parts = {name: good.read(name) for name in good.namelist()}
    with zipfile.ZipFile(tmp_path / "bad", "w") as bad, pytest.warns() if what == "a name twice" else nullcontext():
        for name, data in HOSTILE[what](parts):
            bad.writestr(name, data)

    with pytest.raises(BadBackup, match="newer Kernel Derby" if "newer" in what else None):
        load(tmp_path / "bad", target, new_store)

    assert is_empty(target)
    assert not (tmp_path / "target" / "artifacts").exists()
    assert not (tmp_path.parent / "outside").exists()


def test_what_claims_to_unpack_to_more_than_the_disk_holds_is_refused(sqlite_database: Database, tmp_path: Path) -> None:
    world = World.make(sqlite_database, tmp_path)
    save(world, tmp_path / "good")
    with zipfile.ZipFile(tmp_path / "good") as good:
        parts = {name: good.read(name) for name in good.namelist()}
    told = json.loads(parts["manifest.json"])
    told["tables"]["events"]["bytes"] = 1 << 60
    with zipfile.ZipFile(tmp_path / "bad", "w") as bad:
        for name, data in _manifest(parts, tables=told["tables"]):
            bad.writestr(name, data)
        bad.getinfo("tables/events.jsonl").file_size = 1 << 60

    with reading(tmp_path / "bad") as found, pytest.raises(RequestError, match="Make room"):
        restore.insist_on_room(found, tmp_path / "not" / "there")


def test_a_damaged_file_is_never_taken_for_sound(sqlite_database: Database, tmp_path: Path) -> None:
    world = World.make(sqlite_database, tmp_path)
    a_little_of_everything(world)
    save(world, tmp_path / "good")
    data, chance = (tmp_path / "good").read_bytes(), random.Random(7)
    with reading(tmp_path / "good") as found:
        told = found.manifest
    cut = [data[:n] for n in (0, 1, 100, len(data) // 2, len(data) - 1)]
    flipped = [data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1:]
               for at in (chance.randrange(len(data)) for _ in range(400))]

    for bad in (*cut, *flipped):
        (tmp_path / "bad").write_bytes(bad)
        try:
            with reading(tmp_path / "bad") as found:
                restore.verify(found)
                assert found.manifest == told, "a bit that means nothing, such as a date in the zip"
        except BadBackup:
            continue
        assert bad not in cut


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

