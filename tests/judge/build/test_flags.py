"""Compiler flags that a contestant may choose, and those that would choose programs and files."""

import pytest

from kernelderby.judge.build.flags import FlagRefused, taken

KEPT = [
    ["-O3"], ["-std=c++17"], ["-DN=4", "-UNDEBUG"], ["--use_fast_math"], ["-lineinfo"], ["-Xptxas", "-v,-O3"], ["--maxrregcount=128"],
    ["-maxrregcount", "64"], ["--expt-relaxed-constexpr", "--expt-extended-lambda"], ["--ptxas-options=-v"], ["-Xcompiler", "-O2,-fPIC"],
]
DROPPED = [["-gencode=arch=compute_90a,code=sm_90a"], ["-gencode", "arch=compute_80,code=sm_80"], ["-arch=sm_90a"], ["-lcuda"],
           ["-I/usr/local/cuda/include"], ["-I/opt/cutlass/include"], ["-lcudart"], ["-march=native"]]
REFUSED = [
    ["-fplugin=/tmp/evil.so"], ["-wrapper", "/tmp/evil"], ["-include", "/etc/passwd"], ["-ccbin", "/tmp/g++"], ["--compiler-bindir=/tmp"],
    ["-B/tmp"], ["-specs=/tmp/x"], ["@/etc/passwd"], ["-Xptxas", "--output-file,/tmp/x"], ["-Xcompiler", "-fplugin=/tmp/evil.so"],
    ["-o", "/tmp/x"],
    ["-DA=$(id)"], ["-I/proc/self"], ["-L/tmp"], ["-Wl,-rpath,/tmp"], ["--keep-dir", "/"], ["-MF", "x"], ["-E"], ["-run"],
    ["--options-file", "x"],
    ["-Xptxas"], ["-maxrregcount"], ["-save-temps"], ["-dlopen"], [""], ["-O3\n-fplugin=x"], ["-iquote", "/"],
]


@pytest.mark.parametrize("flags", KEPT, ids=" ".join)
def test_flags_that_only_shape_the_code_are_kept(flags: list[str]) -> None:
    assert taken(flags) == flags


@pytest.mark.parametrize("flags", DROPPED, ids=" ".join)
def test_what_the_judge_chooses_is_dropped_without_a_word(flags: list[str]) -> None:
    assert taken(["-O3", *flags, "-DX"]) == ["-O3", "-DX"]


@pytest.mark.parametrize("flags", REFUSED, ids=" ".join)
def test_a_flag_that_chooses_programs_or_files_is_refused_with_a_sentence(flags: list[str]) -> None:
    with pytest.raises(FlagRefused, match="is not allowed"):
        taken(["-O3", *flags])
