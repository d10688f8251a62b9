"""A problem's folder that is uploaded: its gates may differ, and nothing else."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from kernelderby.core.errors import ProblemBroken, RequestError
from kernelderby.core.problem_folder import Problem, archive, find_problem
from kernelderby.core.problem_upload import BadFolder, name_of, read_folder, with_other_gates
from tests.small_world import small_problem

PROBLEMS = Path(__file__).resolve().parents[2] / "problems"


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, data in files.items():
            packed.writestr(name, data)
    return out.getvalue()


def files_of(problem: Problem) -> dict[str, bytes]:
    return {p.relative_to(problem.folder).as_posix(): p.read_bytes() for p in problem.folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize("prefix", ["", "doubling/", "deep/down/", "problems/warmup/doubling/", "tree/problems/warmup/doubling/"])
def test_a_folder_comes_at_any_depth(tmp_path: Path, prefix: str) -> None:
    old, new = small_problem(tmp_path / "old"), small_problem(tmp_path / "new", budget=0.5)
    sent = read_folder(zipped({prefix + name: data for name, data in files_of(new).items()}))

    found = with_other_gates(archive(old), sent, tmp_path / "work")

    assert (name_of(sent), found.version, found.gate_set) == ("doubling", old.version, new.gate_set)


def test_what_lies_outside_the_folder_is_the_old_versions(tmp_path: Path) -> None:
    old = find_problem("prefill_causal", PROBLEMS)
    files = files_of(old)
    files["problem.yml"] = files["problem.yml"].replace(b"min_effect: 0.005", b"min_effect: 0.006")

    found = with_other_gates(archive(old), read_folder(zipped(files)), tmp_path)

    assert found.version == old.version and found.gate_set != old.gate_set
    with tarfile.open(fileobj=io.BytesIO(archive(found))) as tar:
        assert set(tar.getnames()) >= {"problems/attention/oracle.py", "reference_kernels/prefill_causal/baseline.py"}


OTHER = [
    ("reference.py", b"\n# more\n", "reference.py"),
    ("problem.yml", b"\nlimits: {time_s: 3}\n", "`limits` in problem.yml"),
    ("problem.yml", b"", "has these gates already"),
]


@pytest.mark.parametrize(("file", "more", "said"), OTHER)
def test_what_is_no_change_of_gates_says_what_differs(tmp_path: Path, file: str, more: bytes, said: str) -> None:
    old = small_problem(tmp_path / "old")
    files = files_of(old)
    files[file] += more
    with pytest.raises(RequestError, match=said):
        with_other_gates(archive(old), files, tmp_path / "work")


def test_another_problem_is_not_taken_for_this_one(tmp_path: Path) -> None:
    old, other = small_problem(tmp_path / "old"), small_problem(tmp_path / "other", "halving")
    with pytest.raises(ProblemBroken, match="must agree"):
        with_other_gates(archive(old), files_of(other), tmp_path / "work")


BAD = [
    ("nothing", b"", "Send a zip or tar"),
    ("no problem.yml", zipped({"a.txt": b""}), "0 files problem.yml"),
    ("two of them", zipped({"a/problem.yml": b"", "b/problem.yml": b""}), "2 files problem.yml"),
    ("a way out", zipped({"../problem.yml": b""}), "no file below a folder"),
    ("an absolute name", zipped({"/problem.yml": b""}), "no file below a folder"),
    ("too many files", zipped({f"{i}.py": b"" for i in range(501)}), "over 500 files"),
]


@pytest.mark.parametrize(("data", "said"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_what_is_no_folder_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(BadFolder, match=said):
        read_folder(data)


@pytest.mark.parametrize("spec", [b"[" * 3000, b"name: [1", b"- 1", b"\xff", b""])
def test_a_spec_that_cannot_be_read_is_refused(spec: bytes) -> None:
    with pytest.raises(BadFolder, match="cannot be read"):
        name_of({"problem.yml": spec})
