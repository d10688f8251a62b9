"""Sources and problem archives, kept by the SHA-256 of their bytes."""

import hashlib
import os
import re
import tempfile
from pathlib import Path

from kernelderby.core.errors import DerbyError, NotFound

_SHA = re.compile(r"[0-9a-f]{64}")


class ArtifactStore:
    """A folder of blobs that never change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        """Keep `data`; its SHA-256 in hex. On return the bytes survive a power cut; putting them again is cheap."""
        sha = hashlib.sha256(data).hexdigest()
        path = self.path(sha)
        if path.exists():
            return sha
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(fd, "wb") as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
        _sync_folder(path.parent.parent)
        return sha

    def get(self, sha: str) -> bytes:
        """The bytes of that hash. Raises NotFound; DerbyError where the disk no longer holds what was put."""
        try:
            data = self.path(sha).read_bytes()
        except OSError:
            raise NotFound(f"The artifact {sha[:12]} is not here.") from None
        if hashlib.sha256(data).hexdigest() != sha:
            raise DerbyError(f"The artifact {sha[:12]} is damaged on disk. Restore it from a backup.")
        return data

    def drop(self, sha: str) -> None:
        """Keep the bytes of that hash no longer; nothing where they are not here. Raises NotFound for what is no hash."""
        self.path(sha).unlink(missing_ok=True)

    def path(self, sha: str) -> Path:
        """Where the bytes of that hash lie, present or not. Raises NotFound for what is no hash."""
        if not _SHA.fullmatch(sha):
            raise NotFound(f"{sha[:80]!r} is not the hash of an artifact.")
        return self._folder / sha[:2] / sha


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
