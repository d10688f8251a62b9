"""Which of a contestant's compiler flags are used. Everything else would let a source choose programs, files or plugins."""

import re
from collections.abc import Iterable, Iterator

_TAKEN = tuple(re.compile(pattern) for pattern in (
    r"-O[0-3s]", r"-Ofast", r"-std=(c|gnu)\+\+(17|20)", r"-[DU][A-Za-z_]\w*(=[\w.+-]*)?", r"-w", r"-Wall", r"-Wextra", r"-Wno-[\w-]+",
    r"-lineinfo", r"--generate-line-info", r"-?-use_fast_math", r"-ffast-math", r"-fno-[a-z-]+", r"-funroll-loops",
    r"-fPIC", r"-?-maxrregcount=\d{1,3}", r"-?-expt-relaxed-constexpr", r"-?-expt-extended-lambda",
    r"-?-extended-lambda", r"-?-(ftz|prec-div|prec-sqrt|fmad)=(true|false)", r"--extra-device-vectorization", r"-restrict",
    r"-?-diag-suppress=[\d,]+", r"-?-ptxas-options=(-v|-O[0-3]|--verbose|-dlcm=c[ag]|--allow-expensive-optimizations=true|-warn-spills)",
))
_PTXAS = re.compile(r"(-v|--verbose|-O[0-3]|-dlcm=c[ag]|-warn-spills|--warn-on-spills|-allow-expensive-optimizations=true|"
                    r"--allow-expensive-optimizations=true|--maxrregcount=\d{1,3})(,(-v|-O[0-3]|-dlcm=c[ag]|-warn-spills))*")
_HOST = re.compile(r"(-O[0-3]|-fPIC|-w|-Wall|-Wno-[\w-]+|-ffast-math|-funroll-loops)(,(-O[0-3]|-fPIC|-w|-Wall|-Wno-[\w-]+|-ffast-math))*")
_WITH_VALUE = {"-Xptxas": _PTXAS, "--ptxas-options": _PTXAS, "-Xcompiler": _HOST, "--compiler-options": _HOST,
               "-maxrregcount": re.compile(r"\d{1,3}"), "--maxrregcount": re.compile(r"\d{1,3}"), "-std": re.compile(r"c\+\+(17|20)"),
               "-diag-suppress": re.compile(r"[\d,]+")}
_OURS = re.compile(      # targets, include paths and libraries that are always chosen by the judge: dropped without a word
    r"-m(arch|tune)=native|(-gencode=?|--generate-code=?|-arch=?|--gpu-architecture=?)([\w=,\"]*)|-I.*(cuda|cutlass|cute|cccl|tvm|torch).*|-l(cuda|cudart|c10|torch\w*)")
_OURS_WITH_VALUE = ("-gencode", "--generate-code", "-arch", "--gpu-architecture")


class FlagRefused(Exception):
    """The text is a sentence for the contestant."""


def taken(flags: Iterable[str]) -> list[str]:
    """The flags to pass on. Raises FlagRefused for one that is not on the list."""
    return list(_taken(flags))


def _taken(flags: Iterable[str]) -> Iterator[str]:
    left = iter(flags)
    for flag in left:
        if flag in _OURS_WITH_VALUE:
            next(left, None)
        elif flag in _WITH_VALUE:
            value = next(left, "")
            if not _WITH_VALUE[flag].fullmatch(value):
                raise _refused(f"{flag} {value}")
            yield from (flag, value)
        elif any(pattern.fullmatch(flag) for pattern in _TAKEN):
            yield flag
        elif not _OURS.fullmatch(flag):
            raise _refused(flag)


def _refused(flag: str) -> FlagRefused:
    return FlagRefused(f"The compiler flag {flag[:80]!r} is not allowed. Allowed are -O*, -std=c++17 or c++20, -D, -U, -lineinfo, "
                       "--use_fast_math, -Xptxas (-v, -O*, -dlcm), --maxrregcount, --expt-relaxed-constexpr and --expt-extended-lambda; "
                       "the judge chooses the GPU target and the CUDA, CUTLASS and PyTorch headers by itself.")
