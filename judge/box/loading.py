"""An entry from its file and the libraries that were made for it: Python, with or without `load_inline`, or a `.cu`."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelderby.judge.box.entry import Entry, load_entry
from kernelderby.judge.box.fault import Fault, Kind
from kernelderby.judge.box.ffi import load_library
from kernelderby.judge.box.inline import CU_KEY, Finder, Recorder, take_the_place_of_load_inline


def load(source: bytes, file_name: str, libraries: Mapping[str, Path]) -> Entry:
    """The entry of a file. Raises Fault."""
    if file_name.endswith(".cu"):
        return load_library(_library(libraries), file_name)
    if b"load_inline" in source:
        take_the_place_of_load_inline(Finder(libraries))
    return load_entry(source, file_name)


def _library(libraries: Mapping[str, Path]) -> Path:
    if CU_KEY not in libraries:
        raise Fault(Kind.MISSING_ENTRY, "The file was not compiled, so there is nothing to run. Test it: the verdict says why.")
    return libraries[CU_KEY]


def unpacked(artifacts: Sequence[Mapping[str, Any]], packed: int) -> dict[str, Path]:
    """Copies of our own of the libraries that lie one after another in a file: what is mapped can be changed by nobody else."""
    folder, start, libraries = Path(tempfile.mkdtemp(prefix="derby-")), 0, {}
    for number, artifact in enumerate(artifacts):
        path = libraries[artifact["key"]] = folder / f"{number}.so"
        path.write_bytes(os.pread(packed, artifact["size"], start))
        start += artifact["size"]
    return libraries


def extracted(source: bytes, file_name: str) -> list[dict[str, Any]]:
    """The arguments of each `load_inline` call, as far as the file comes without what was not compiled yet."""
    recorder = Recorder()
    take_the_place_of_load_inline(recorder)
    with suppress(Fault):      # told where the file is loaded in earnest
        load_entry(source, file_name)
    return [asdict(seen) for seen in recorder.seen]
