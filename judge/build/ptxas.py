"""What the compilers say of each kernel, as rows of the verdict."""

import re

from kernelderby.core.text import clean_text, one_line
from kernelderby.core.verdict import CompileReport

SHARED_LIMIT = 227 * 1024     # bytes a block can have on sm_90 and sm_100 (CUDA C++ programming guide, technical specifications)
MOST_ROWS = 32
_NAME_CHARACTERS = 80
_TENSOR_CORES = (("wgmma", "wgmma.mma_async"), ("tcgen05", "tcgen05.mma"), ("mma", "mma.sync"))
_ENTRY = re.compile(r"Compiling entry function 'Q(\w+)' '([^\n]*)' for '(?:sm_\w+)'")      # the name twice: box/compiling.py
_BODY = re.compile(r"\.entry\s+([\w$]+)\s*\(")
_LARGEST = 2**31 - 1


def reports(log: str, arch: str, ptx: str) -> list[CompileReport]:
    """One row for each kernel that `ptxas -v` tells of in `log`, in its order. `ptx`: the text that it assembled.

    Kernels whose rows are the same to the letter share one: long names of templates are cut before they differ.
    """
    parts = _ENTRY.split(log)[1:]
    named = _BODY.split(ptx)[1:]
    bodies, rows = dict(zip(named[0::2], named[1::2], strict=True)), []
    for symbol, name, text in zip(parts[0::3], parts[1::3], parts[2::3], strict=True):
        shared = _number(r"(?<!\d)(\d{1,12})(?:\+\d{1,12})? bytes smem", text) or 0
        rows.append(CompileReport(
            kernel=_shown(name), arch=arch, registers=_number(r"Used (\d{1,12}) registers", text), shared_bytes=shared,
            spills=(_number(r"(?<!\d)(\d{1,12}) bytes spill stores", text) or 0) // 4, tensor_core=_tensor_core(bodies.get(symbol, ptx)),
            would_launch=shared <= SHARED_LIMIT))
    return list({row.model_dump_json(): row for row in rows}.values())[:MOST_ROWS]


def failed(arch: str, message: str) -> CompileReport:
    """The row of a target that the source did not compile for."""
    return CompileReport(kernel="custom_kernel", arch=arch, would_launch=False, message=clean_text(message, 500))


def _tensor_core(text: str) -> str | None:
    return next((name for name, instruction in _TENSOR_CORES if instruction in text), None)


def _number(pattern: str, text: str) -> int | None:
    found = re.search(pattern, text)
    return min(int(found[1]), _LARGEST) if found else None


def _shown(name: str) -> str:
    """The name without the return type and the namespaces that only a compiler needs."""
    return one_line(re.sub(r"^void |\(anonymous namespace\)::", "", name), _NAME_CHARACTERS)
