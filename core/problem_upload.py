"""A problem's folder that came over the network, laid over the version of the platform that it changes."""

import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import yaml

from kernelderby.core.errors import ProblemBroken, RequestError
from kernelderby.core.problem_folder import Problem, load_problem, unpack, version_differences
from kernelderby.core.text import one_line

MAX_BYTES = 16 * 2**20          # of all files together
MAX_FILES = 500
_SPEC = "problem.yml"
_LEFT_OUT = {"__pycache__", "__MACOSX", ".git", ".DS_Store"}

Files = Mapping[str, bytes]     # by path below the problem's folder, or below the root where `problems/` lies


class BadFolder(RequestError):
    """The upload is no problem's folder. Send a zip or tar of the folder that holds problem.yml."""


def read_folder(upload: bytes) -> Files:
    """The files of a zip or tar. Raises BadFolder."""
    if len(upload) > MAX_BYTES:
        raise BadFolder(f"The upload is larger than {MAX_BYTES // 2**20} MiB. Leave out what no judging needs.")
    found: dict[str, bytes] = {}
    try:
        for name, data in _members(upload):
            path = _path(name)
            if not _LEFT_OUT.intersection(path.parts):
                found[str(path)] = data
            if len(found) > MAX_FILES or sum(map(len, found.values())) > MAX_BYTES:
                raise BadFolder(f"The folder holds over {MAX_FILES} files or {MAX_BYTES // 2**20} MiB. Leave out what no judging needs.")
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError, ValueError):
        raise BadFolder from None
    return _below_the_spec(found)


def name_of(files: Files) -> str:
    """The problem's name, by its problem.yml. Raises BadFolder."""
    try:
        said = yaml.safe_load(next(data for path, data in files.items() if PurePosixPath(path).name == _SPEC).decode())
        return one_line(said["name"] if isinstance(said["name"], str) else "", 80)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, KeyError, TypeError, ValueError) as error:
        raise BadFolder(f"{_SPEC} cannot be read: {one_line(error, 200) or type(error).__name__}.") from None


def with_other_gates(archive: bytes, files: Files, folder: Path) -> Problem:
    """The problem of an archive with these files in place of its own, below `folder`; what lies outside its folder stays.

    Raises RequestError where that is another version, with what differs, or no change at all; ProblemBroken.
    """
    old = unpack(archive, folder / "old")
    try:
        new = load_problem(_laid_over(old, files, folder / "new"))
    except OSError:
        raise BadFolder("Two files of the upload need the same place, or a name is too long.") from None
    if new.version != old.version:
        what = ", ".join(version_differences(old, new)[:8])
        raise RequestError(f"This is another version of {old.name}, since more than its gates changed: {what}. Another reference, input or "
                           "case makes a new version with a board of its own: `derby problem add`. Of this one only hidden cases, budgets, "
                           "`serves`, `libraries` and `min_effect` can change.")
    if new.gate_set == old.gate_set:
        raise RequestError(f"Nothing changed: {old.name} has these gates already. Change hidden cases, budgets, `serves`, `libraries` or "
                           "`min_effect` in problem.yml.")
    return new


def _laid_over(old: Problem, files: Files, root: Path) -> Path:
    own = PurePosixPath("problems", old.spec.family, old.name)
    for path in (p for p in old.root.rglob("*") if p.is_file()):
        relative = PurePosixPath(path.relative_to(old.root).as_posix())
        if not relative.is_relative_to(own):
            _write(root / relative, path.read_bytes())
    whole = any(PurePosixPath(path).parts[0] == "problems" for path in files)
    for name, data in files.items():
        _write(root / (PurePosixPath(name) if whole else own / name), data)
    if not (root / own / _SPEC).is_file():
        raise ProblemBroken(f"The upload has no problems/{old.spec.family}/{old.name}/{_SPEC}. Send the folder of {old.name}.")
    return root / own


def _path(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or not path.parts or ".." in path.parts or not name.isprintable():
        raise BadFolder(f"The upload holds {one_line(name, 80)!r}, which is no file below a folder.")
    return path


def _below_the_spec(found: Files) -> Files:
    """Paths from the folder on that holds problem.yml, or from the one that holds `problems/`."""
    specs = [PurePosixPath(path) for path in found if PurePosixPath(path).name == _SPEC]
    if len(specs) != 1:
        raise BadFolder(f"The upload holds {len(specs)} files {_SPEC}; it takes one. Send the folder of one problem.")
    parts = specs[0].parts
    depth = parts.index("problems") if "problems" in parts[:-1] else len(parts) - 1
    below = {PurePosixPath(path): data for path, data in found.items()}
    return {str(PurePosixPath(*path.parts[depth:])): data for path, data in below.items()
            if len(path.parts) > depth and path.parts[:depth] == parts[:depth]}


def _members(upload: bytes) -> Iterator[tuple[str, bytes]]:
    if not zipfile.is_zipfile(io.BytesIO(upload)):
        with tarfile.open(fileobj=io.BytesIO(upload)) as tar:
            for member in tar:
                if member.isfile() and (content := tar.extractfile(member)) is not None:
                    yield member.name, content.read(MAX_BYTES + 1)
        return
    with zipfile.ZipFile(io.BytesIO(upload)) as archive:
        for info in archive.infolist():
            if not info.is_dir():
                with archive.open(info) as file:
                    yield info.filename, file.read(MAX_BYTES + 1)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
