"""Files that are no sound backup: a sentence, and nothing is written."""

import json
import random
import zipfile
from collections.abc import Callable
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

import pytest

from kernelderby.core.errors import RequestError
from kernelderby.storage import restore
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.backup_file import BadBackup, reading
from kernelderby.storage.database import Database
from tests.small_world import World
from tests.storage.saving import a_little_of_everything, is_empty, load, save

Change = Callable[[dict[str, bytes]], list[tuple[str, bytes]]]


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
