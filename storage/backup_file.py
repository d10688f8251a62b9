"""The file of a backup: a zip of tables as JSON lines, artifacts, secrets, and a manifest with the SHA-256 of every part.

Nothing in it is ever unpacked by the name it has there, and nothing is believed before its hash was looked at.
"""

import hashlib
import os
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from kernelderby.core.errors import DerbyError, RequestError
from kernelderby.core.text import one_line

FORM = 1                         # of the file; a reader takes none that is newer
LONGEST_LINE = 64 << 20          # bytes of one row
LARGEST_ARTIFACT = 256 << 20
_LARGEST_MANIFEST = 64 << 20
_MANIFEST = "manifest.json"
_CHUNK = 1 << 20
_ENCRYPTED = 0x1                 # a zip entry's flag bit
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError, struct.error)
_SHA = r"^[0-9a-f]{64}$"
_NAME = r"^[a-z_]{1,64}$"


class BadBackup(RequestError):
    """This file is no sound backup. Nothing was restored from it; take another one."""


class Part(BaseModel):
    """A file inside, as it must be."""

    sha256: str = Field(pattern=_SHA)
    bytes: int = Field(ge=0, lt=1 << 63)


class TablePart(Part):
    """The rows of a table: one JSON array a line, its values in the order of `columns`."""

    columns: list[str] = Field(max_length=1000)
    rows: int = Field(ge=0)


class Manifest(BaseModel):
    """What a backup holds."""

    form: int
    revision: str = Field(pattern=r"^[0-9a-z_]{1,32}$")   # of the schema
    made_at: datetime
    tables: dict[str, TablePart]
    artifacts: dict[str, int]                             # bytes by SHA-256
    keys: dict[str, Part]                                 # the secrets

    @property
    def rows(self) -> int:
        """Of all tables."""
        return sum(table.rows for table in self.tables.values())

    @property
    def bytes(self) -> int:
        """Of all parts, unpacked."""
        return sum(part.bytes for part in self.parts().values())

    def parts(self) -> dict[str, Part]:
        """Every part but the manifest, by its name in the file."""
        return {
            **{_table(name): part for name, part in self.tables.items()},
            **{_artifact(sha): Part.model_construct(sha256=sha, bytes=size) for sha, size in self.artifacts.items()},
            **{_key(name): part for name, part in self.keys.items()},
        }


class Writer:
    """Adds parts to a backup that is being made."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._zip = archive

    def table(self, name: str, columns: list[str], lines: Iterable[bytes]) -> TablePart:
        """Add the rows of a table."""
        rows = 0

        def counted() -> Iterator[bytes]:
            nonlocal rows
            for rows, line in enumerate(lines, 1):   # noqa: B007 (the count is what is wanted)
                if len(line) >= LONGEST_LINE:
                    raise DerbyError(f"A row of {name} has {len(line)} bytes, which is more than a backup can hold.")
                yield line
        part = self._add(_table(name), counted())
        return TablePart(sha256=part.sha256, bytes=part.bytes, columns=columns, rows=rows)

    def artifact(self, sha: str, data: bytes) -> None:
        """Add the bytes of that hash."""
        self._add(_artifact(sha), [data])

    def key(self, name: str, value: str) -> Part:
        """Add a secret."""
        return self._add(_key(name), [value.encode()])

    def manifest(self, manifest: Manifest) -> None:
        """Add the manifest, last of all."""
        self._add(_MANIFEST, [manifest.model_dump_json().encode()])

    def _add(self, name: str, chunks: Iterable[bytes]) -> Part:
        digest, size = hashlib.sha256(), 0
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED
        with self._zip.open(info, "w", force_zip64=True) as part:
            for chunk in chunks:
                part.write(chunk)
                digest.update(chunk)
                size += len(chunk)
        return Part(sha256=digest.hexdigest(), bytes=size)


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """A backup that appears at `path` whole and synced to the disk, for its owner alone, or not at all."""
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=".derby-backup-")   # mode 0600
    try:
        with os.fdopen(fd, "w+b") as file:
            with zipfile.ZipFile(file, "w") as archive:
                yield Writer(archive)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


class Backup:
    """A backup to read from. Every read is held against the manifest and raises BadBackup."""

    def __init__(self, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self._zip = archive
        self.manifest = manifest

    def verify(self) -> None:
        """Read every part once."""
        for table in self.manifest.tables:
            for _ in self.lines(table):
                pass
        for sha in self.manifest.artifacts:
            self.artifact(sha)
        for name in self.manifest.keys:
            self.key(name)

    def lines(self, table: str) -> Iterator[bytes]:
        """The rows of a table. What is wrong with the whole shows at the end."""
        part, name = self.manifest.tables[table], _table(table)
        digest, rows = hashlib.sha256(), 0
        with _damage(name), self._zip.open(name) as file:
            while line := file.readline(LONGEST_LINE):
                if not line.endswith(b"\n"):
                    raise BadBackup(f"Line {rows + 1} of {name} has no end.")
                digest.update(line)
                rows += 1
                yield line
        if digest.hexdigest() != part.sha256 or rows != part.rows:
            raise BadBackup(f"{name} is damaged: it is not what the manifest says. Take another backup.")

    def artifact(self, sha: str) -> bytes:
        """The bytes of an artifact."""
        return self._whole(_artifact(sha), sha)

    def key(self, name: str) -> str:
        """A secret."""
        with _damage(_key(name)):
            return self._whole(_key(name), self.manifest.keys[name].sha256).decode()

    def _whole(self, name: str, sha: str) -> bytes:
        with _damage(name), self._zip.open(name) as file:
            data = file.read(LARGEST_ARTIFACT)
        if hashlib.sha256(data).hexdigest() != sha:
            raise BadBackup(f"{name} is damaged: it is not what the manifest says. Take another backup.")
        return data


@contextmanager
def reading(path: Path) -> Iterator[Backup]:
    """A backup whose list of contents is in order; the contents are not looked at yet. Raises BadBackup."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadBackup(f"{path} cannot be read: {error.strerror}.") from None
    with file:
        with _damage("The file"):
            archive = zipfile.ZipFile(file)
        with archive:
            manifest = _manifest(archive)
            _insist_on_contents(archive, manifest, os.fstat(file.fileno()).st_size)
            yield Backup(archive, manifest)


def _manifest(archive: zipfile.ZipFile) -> Manifest:
    if _MANIFEST not in archive.NameToInfo:
        raise BadBackup("This is no backup of Kernel Derby, or its end is missing: it has no manifest.")
    info = archive.getinfo(_MANIFEST)
    if info.file_size > _LARGEST_MANIFEST or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BadBackup("The backup's manifest is larger than one can be.")
    with _damage(_MANIFEST):
        data = archive.read(info)
    if (newer := re.match(rb'\{"form":(\d{1,9})\b', data)) and int(newer[1]) > FORM:
        raise BadBackup("This backup is of a newer Kernel Derby. Restore it with that one, or a later one.")
    try:
        return Manifest.model_validate_json(data)
    except ValidationError as error:
        raise BadBackup(f"The backup's manifest is wrong: {one_line(str(error.errors()[0]['msg']), 120)}.") from None


def _insist_on_contents(archive: zipfile.ZipFile, manifest: Manifest, file_bytes: int) -> None:
    """That exactly the parts of the manifest are there, once each, of the sizes it says."""
    entries, parts = archive.infolist(), manifest.parts()
    if bad := [name for name in (*manifest.tables, *manifest.keys) if not re.fullmatch(_NAME, name)]:
        raise BadBackup(f"The manifest names {one_line(repr(bad[0]), 80)}, which no backup holds.")
    if bad := [sha for sha, size in manifest.artifacts.items() if not re.fullmatch(_SHA, sha) or not 0 <= size < LARGEST_ARTIFACT]:
        raise BadBackup(f"The manifest names the artifact {one_line(repr(bad[0]), 80)}, which no backup holds.")
    if len(entries) != len(archive.NameToInfo) or archive.NameToInfo.keys() != parts.keys() | {_MANIFEST}:
        raise BadBackup("The file does not hold exactly what its manifest names, once each.")
    if any(e.flag_bits & _ENCRYPTED or e.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for e in entries):
        raise BadBackup("The file is packed in a way that no backup is.")
    if any(e.file_size != parts[e.filename].bytes for e in entries if e.filename != _MANIFEST):
        raise BadBackup("A part of the file has another size than its manifest says.")
    if sum(e.compress_size for e in entries) > file_bytes:
        raise BadBackup("The parts of the file claim more bytes than it has.")


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """What reading a broken zip raises, as a sentence."""
    try:
        yield
    except BadBackup:
        raise
    except _DAMAGE as error:
        raise BadBackup(f"{what} cannot be read: it is damaged, cut off, or no backup ({one_line(str(error), 120)}).") from None


def _table(name: str) -> str:
    return f"tables/{name}.jsonl"


def _artifact(sha: str) -> str:
    return f"artifacts/{sha}"


def _key(name: str) -> str:
    return f"keys/{name}"


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
