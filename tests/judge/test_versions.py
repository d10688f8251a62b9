"""Problem versions on a worker's disk."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelderby.core.errors import NotFound, ProblemBroken
from kernelderby.core.problem_folder import archive
from kernelderby.judge.versions import Versions
from kernelderby.storage.artifacts import ArtifactStore
from tests.small_world import small_problem


def test_a_version_is_unpacked_once_and_is_the_problem_that_was_added(tmp_path: Path) -> None:
    problem, artifacts = small_problem(tmp_path / "author"), ArtifactStore(tmp_path / "artifacts")
    key = artifacts.put(archive(problem))
    found = Versions(tmp_path / "versions", artifacts).get(problem.version, problem.gate_set, key)
    assert (found.name, found.version, found.gate_set) == (problem.name, problem.version, problem.gate_set)
    assert found.folder == tmp_path / "versions" / f"{problem.version}-{problem.gate_set}" / "problems" / "warmup" / "doubling"
    assert found.baseline.is_file()

    artifacts.path(key).unlink()   # the disk holds it now
    assert Versions(tmp_path / "versions", artifacts).get(problem.version, problem.gate_set, key).folder == found.folder
    assert [p.name for p in (tmp_path / "versions").iterdir()] == [f"{problem.version}-{problem.gate_set}"]


def test_workers_that_unpack_at_once_share_one_folder(tmp_path: Path) -> None:
    problem, artifacts = small_problem(tmp_path / "author"), ArtifactStore(tmp_path / "artifacts")
    key = artifacts.put(archive(problem))
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: Versions(tmp_path / "versions", artifacts).get(problem.version, problem.gate_set, key), range(6)))
    assert len({p.folder for p in found}) == 1
    assert len(list((tmp_path / "versions").iterdir())) == 1


def test_an_archive_of_another_version_is_refused(tmp_path: Path) -> None:
    problem, artifacts = small_problem(tmp_path / "author"), ArtifactStore(tmp_path / "artifacts")
    key = artifacts.put(archive(problem))
    with pytest.raises(ProblemBroken, match="Add the problem again"):
        Versions(tmp_path / "versions", artifacts).get("0" * 12, problem.gate_set, key)
    with pytest.raises(NotFound):
        Versions(tmp_path / "versions", artifacts).get(problem.version, problem.gate_set, "0" * 64)
    assert list((tmp_path / "versions").iterdir()) == []
