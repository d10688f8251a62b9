"""What was compiled is found again by everything it depends on, and by nothing else."""

import os
import resource
from pathlib import Path

import pytest

from kernelderby.core.verdict import CompileReport
from kernelderby.judge.build import builder as building
from kernelderby.judge.build.cache import Cache, Kept, key_of
from kernelderby.judge.build.recipes import Recipe
from kernelderby.judge.build.toolkit import Toolkit

KEPT = Kept(library=b"\x7fELF\n\0rest", report=[CompileReport(kernel="k", arch="sm_90a", registers=8)])
PARTS = {"version": 1, "sources": {"a.cu": "x"}, "stages": [[{"argv": ["nvcc", "-O3"]}]], "toolkit": ["nvcc 1"]}
CHANGES = {"version": 2, "sources": {"a.cu": "y"}, "stages": [[{"argv": ["nvcc", "-O2"]}]], "toolkit": ["nvcc 2"]}


def test_what_was_put_is_found_as_it_was(tmp_path: Path) -> None:
    Cache(tmp_path / "builds").put("k" * 64, KEPT)

    assert Cache(tmp_path / "builds").get("k" * 64) == KEPT
    assert (tmp_path / "builds").stat().st_mode & 0o077 == 0, "nobody else may write there"


@pytest.mark.parametrize("part", CHANGES)
def test_each_part_changes_the_key(part: str) -> None:
    assert key_of(**PARTS) != key_of(**{**PARTS, part: CHANGES[part]})


def test_a_file_that_was_changed_or_renamed_counts_as_missing(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for name in ("a", "b", "c"):
        cache.put(name, KEPT)
    (tmp_path / "a.build").write_bytes((tmp_path / "a.build").read_bytes()[:-1] + b"!")
    os.rename(tmp_path / "b.build", tmp_path / "d.build")
    (tmp_path / "c.build").write_bytes(b"")

    assert [cache.get(name) for name in ("a", "d", "c", "never")] == [None] * 4


def test_the_least_lately_used_goes_first(tmp_path: Path) -> None:
    Cache(tmp_path).put("old", KEPT)
    cache = Cache(tmp_path, most_bytes=3 * (tmp_path / "old.build").stat().st_size + 10)
    for number, name in enumerate(("old", "used", "new")):
        cache.put(name, KEPT)
        os.utime(tmp_path / f"{name}.build", ns=(number, number))
    assert cache.get("old")      # a hit makes it young again

    cache.put("newest", KEPT)

    assert cache.get("newest") and cache.get("old")
    assert not cache.get("used")


def test_a_full_disk_gets_no_fuller(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))      # a write beyond it fails as on a full disk
    try:
        Cache(tmp_path).put("large", Kept(library=bytes(100_000), report=[]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert list(tmp_path.iterdir()) == []


def test_no_two_sources_have_one_key() -> None:
    toolkit = Toolkit(cuda=None, gxx=None)
    sources = (b"a", b"A", b"\\xff", b"\xff", "\u00ff".encode(), b"\xff\n")

    keys = {building._key(Recipe(sources={"s": source}, stages=[], places={}, target=None, report=None, ptx=None), toolkit)
            for source in sources}

    assert len(keys) == len(sources)
