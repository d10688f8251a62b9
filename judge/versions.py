"""Problem versions on a worker's disk: unpacked once from their archive, found by their hashes afterwards."""

import os
import shutil
import tempfile
from pathlib import Path

from kernelderby.core.errors import ProblemBroken
from kernelderby.core.problem_folder import Problem, load_problem, problem_folders, unpack
from kernelderby.storage.artifacts import ArtifactStore


class Versions:
    """The problems a worker has met. Several workers may share the folder."""

    def __init__(self, folder: Path, artifacts: ArtifactStore) -> None:
        self._folder = folder
        self._artifacts = artifacts
        self._known: dict[str, Problem] = {}

    def get(self, version: str, gate_set: str, archive: str) -> Problem:
        """The problem of that version and gate set. Raises ProblemBroken where its archive holds another; NotFound without archive."""
        key = f"{version}-{gate_set}"
        if key not in self._known:
            place = self._folder / key
            if not place.is_dir():
                self._unpack(archive, place)
            self._known[key] = _checked(load_problem(problem_folders(place / "problems")[0]), key)
        return self._known[key]

    def _unpack(self, archive: str, place: Path) -> None:
        """Beside its place first, then moved there whole: a worker that dies half-way leaves nothing that looks finished."""
        data = self._artifacts.get(archive)
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=self._folder, prefix=".unpacking-"))
        try:
            _checked(unpack(data, temporary), place.name)
            os.chmod(temporary, 0o755)
            os.rename(temporary, place)
        except OSError:
            if not place.is_dir():   # else another worker was first
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _checked(problem: Problem, key: str) -> Problem:
    found = f"{problem.version}-{problem.gate_set}"
    if found != key:
        raise ProblemBroken(f"The archive of {problem.name} holds the version {found}, not {key}. Add the problem again.")
    return problem
