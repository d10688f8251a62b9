"""What was compiled before. Keys are made by the trusted side from all that a result depends on; no sandbox ever sees the folder."""

import hashlib
import json
import os
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelderby.core.verdict import CompileReport

MOST_BYTES = 2 << 30


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One library and what the compilers said of it."""

    library: bytes            # empty: the source was compiled for the report alone
    report: list[CompileReport]


def key_of(**parts: Any) -> str:
    """The name of a result that depends on these parts alone."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Cache:
    """A folder of files, one a key: a line of JSON, then the library. Several processes may share it."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes

    def get(self, key: str) -> Kept | None:
        """What was kept under a key; None when nothing was, or when the file is damaged."""
        path = self._path(key)
        try:
            head, _, library = path.read_bytes().partition(b"\n")
            said = json.loads(head)
            if said["key"] != key or said["library"] != hashlib.sha256(library).hexdigest():
                return None
            kept = Kept(library=library, report=[CompileReport.model_validate(row) for row in said["report"]])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with suppress(OSError):
            os.utime(path)      # the least lately used goes first
        return kept

    def put(self, key: str, kept: Kept) -> None:
        """Keep a result; a machine whose disk is full goes on without."""
        rows = [row.model_dump(mode="json") for row in kept.report]
        head = {"key": key, "library": hashlib.sha256(kept.library).hexdigest(), "report": rows}
        with suppress(OSError), ExitStack() as stack:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix=".", delete=False) as file:
                stack.callback(Path(file.name).unlink, missing_ok=True)      # of what could not be written whole nothing stays
                file.write(json.dumps(head).encode() + b"\n" + kept.library)
            os.replace(file.name, self._path(key))
            self._shrink()

    def _shrink(self) -> None:
        files = sorted(((f.stat().st_mtime_ns, f.stat().st_size, f) for f in self._folder.iterdir()), reverse=True)
        held = 0
        for _, size, file in files:
            held += size
            if held > self._most_bytes:
                file.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.build"
