"""The artifact store: bytes by their hash, whole or not at all."""

from pathlib import Path

import pytest

from kernelderby.core.errors import DerbyError, NotFound
from kernelderby.core.submission import source_sha
from kernelderby.storage.artifacts import ArtifactStore


@pytest.mark.parametrize("data", [b"", b"x", b"\0" * 4096, bytes(range(256)) * 999], ids=len)
def test_what_is_put_comes_back(tmp_path: Path, data: bytes) -> None:
    store = ArtifactStore(tmp_path / "artifacts")
    sha = store.put(data)
    assert sha == source_sha(data) == store.put(data)
    assert store.get(sha) == data == store.path(sha).read_bytes()
    assert [p.name for p in (tmp_path / "artifacts").rglob("*") if p.is_file()] == [sha]


@pytest.mark.parametrize("sha", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64])
def test_what_was_never_put_is_not_found(tmp_path: Path, sha: str) -> None:
    with pytest.raises(NotFound):
        ArtifactStore(tmp_path).get(sha)


def test_damage_on_disk_is_noticed(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    sha = store.put(b"good")
    store.path(sha).write_bytes(b"evil")
    with pytest.raises(DerbyError, match="damaged"):
        store.get(sha)
