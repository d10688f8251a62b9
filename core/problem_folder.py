"""Reading a problem's folder: its parts, its hashes, its archive."""

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import ValidationError

from kernelderby.core.errors import NotFound, ProblemBroken
from kernelderby.core.problem import ProblemFile

_GATE_KEYS = ("hidden", "serves", "libraries", "min_effect")   # with every output's budget: they form the gate set, not the version
_NOT_JUDGED_BY = ("submissions/", "statement.md", "starter", "problem.yml")      # problem.yml counts by its keys


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem on disk. The root is the folder that holds `problems/` and `reference_kernels/`."""

    folder: Path
    spec: ProblemFile
    version: str       # hash of all that an entry's result depends on, without the gate set
    gate_set: str      # hash of hidden families, budgets and gates

    @property
    def name(self) -> str:
        """The name in every command."""
        return self.spec.name

    @property
    def root(self) -> Path:
        """The folder above `problems/`."""
        return self.folder.parents[min(2, len(self.folder.parents) - 1)]

    @property
    def baseline(self) -> Path:
        """The honest baseline's file."""
        here = self.folder / self.spec.baseline
        return here if here.is_file() else self.root / self.spec.baseline

    @property
    def statement(self) -> str:
        """The statement in Markdown."""
        path = self.folder / "statement.md"
        return path.read_text() if path.is_file() else ""

    @property
    def starters(self) -> dict[str, Path]:
        """Starter files by name: starter.py (Triton), starter_torch.py, starter.cu."""
        return {p.name: p for p in sorted(self.folder.glob("starter*")) if p.is_file()}


def load_problem(folder: Path) -> Problem:
    """The problem in `folder` (`…/problems/<family>/<name>`). Raises ProblemBroken with the key that is wrong."""
    folder = folder.resolve()
    path = folder / "problem.yml"
    try:
        data = yaml.safe_load(path.read_text())
    except OSError:
        raise ProblemBroken(f"{folder.name} has no problem.yml.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ProblemBroken(f"{path.name} is not YAML: {str(error)[:300]}") from None
    try:
        spec = ProblemFile.model_validate(data)
    except ValidationError as error:
        raise ProblemBroken(f"{path.name}: {_first(error)}") from None
    if spec.name != folder.name:
        raise ProblemBroken(f"problem.yml names {spec.name!r}, its folder {folder.name!r}. They must agree.")
    problem = Problem(folder=folder, spec=spec, version="", gate_set="")
    for part in (folder / "reference.py", problem.baseline):
        if not part.is_file():
            raise ProblemBroken(f"{spec.name} needs {part.name}, which is not there.")
    return Problem(folder=folder, spec=spec, version=_version(problem), gate_set=_gate_set(spec))


def problem_folders(problems: Path) -> list[Path]:
    """Every `<family>/<name>` with a problem.yml under the folder `problems`, in order."""
    return sorted(p.parent for p in problems.glob("*/*/problem.yml"))


def find_problem(name_or_path: str, problems: Path) -> Problem:
    """The problem by name under `problems`, or the one at that path. Raises NotFound."""
    path = Path(name_or_path)
    if (path / "problem.yml").is_file():
        return load_problem(path)
    for folder in problem_folders(problems):
        if folder.name == name_or_path:
            return load_problem(folder)
    known = ", ".join(f.name for f in problem_folders(problems)) or "none"
    raise NotFound(f"There is no problem {name_or_path[:80]!r}. Known: {known}.")


def archive(problem: Problem) -> bytes:
    """All files of a problem as an uncompressed tar, byte for byte the same for the same files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, path in _parts(problem):
            info = tarfile.TarInfo(name)
            info.size = path.stat().st_size
            with path.open("rb") as f:
                tar.addfile(info, f)
    return out.getvalue()


def unpack(data: bytes, into: Path) -> Problem:
    """The problem of an archive, unpacked under the empty folder `into`."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:   # file by file: extraction filters came with Python 3.11.4, Debian 12 has 3.11.2
        for member in tar:
            path, content = into / member.name, tar.extractfile(member)
            if content is None or not path.resolve().is_relative_to(into.resolve()):
                raise ProblemBroken(f"The archive of a problem holds {member.name[:80]!r}, which is no file of it.")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
    return load_problem(problem_folders(into / "problems")[0])


def version_differences(old: Problem, new: Problem) -> list[str]:
    """What makes the two different versions: keys of problem.yml, files by their names in the archive."""
    before, after = _without_gates(old.spec), _without_gates(new.spec)
    keys = [f"`{key}` in problem.yml" for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
    files, now = _judged_by(old), _judged_by(new)
    return keys + [name for name in sorted(files.keys() | now.keys()) if files.get(name) != now.get(name)]


def _parts(problem: Problem) -> Iterator[tuple[str, Path]]:
    """The files of a problem with their names in its archive, in order."""
    family, name = problem.spec.family, problem.name
    for path in sorted(p for p in problem.folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts):
        yield f"problems/{family}/{name}/{path.relative_to(problem.folder)}", path
    oracle = problem.folder.parent / "oracle.py"
    if oracle.is_file():
        yield f"problems/{family}/oracle.py", oracle
    if not problem.baseline.is_relative_to(problem.folder):
        yield problem.spec.baseline, problem.baseline


def _version(problem: Problem) -> str:
    digest = hashlib.sha256(json.dumps(_without_gates(problem.spec), sort_keys=True).encode())
    for name, data in _judged_by(problem).items():
        digest.update(name.encode() + b"\0" + data + b"\0")
    return digest.hexdigest()[:12]


def _judged_by(problem: Problem) -> dict[str, bytes]:
    """The files that an entry's result depends on, in order."""
    own = f"problems/{problem.spec.family}/{problem.name}/"
    return {name: path.read_bytes() for name, path in _parts(problem) if not name.removeprefix(own).startswith(_NOT_JUDGED_BY)}


def _without_gates(spec: ProblemFile) -> dict[str, object]:
    data = spec.model_dump(mode="json", by_alias=True, exclude=set(_GATE_KEYS))
    for output in data["outputs"].values():
        output.pop("budget")
    order = {key: list(data[key].items()) for key in ("inputs", "outputs")}       # their order is the order in `data`
    return data | order


def _gate_set(spec: ProblemFile) -> str:
    data = spec.model_dump(mode="json", by_alias=True)
    gates = {key: data[key] for key in _GATE_KEYS} | {"budgets": {n: o["budget"] for n, o in data["outputs"].items()}}
    return hashlib.sha256(json.dumps(gates, sort_keys=True).encode()).hexdigest()[:12]


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(p) for p in first['loc']) or 'the file'}: {first['msg'].removeprefix('Value error, ')}"
