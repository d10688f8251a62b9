"""How a source becomes a library: the compilers' command lines. A change here changes every cache key (`VERSION`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelderby.judge.box.inline import InlineSource
from kernelderby.judge.build.complaints import Place
from kernelderby.judge.build.flags import taken
from kernelderby.judge.build.toolkit import Toolkit
from kernelderby.judge.build.workshop import Command

VERSION = 1
LIBRARY = "library.so"
_CU = "submission.cu"
_HEADERS = Path(__file__).parent / "headers"
_TRIMMED = "trimmed"
_TRIMMED_HEADERS = ("torch/types.h", "torch/extension.h", "torch/torch.h", "torch/all.h", "ATen/ATen.h")
_PTX = "kept/cuda.ptx"
# What PyTorch gives nvcc for its extensions (torch.utils.cpp_extension.COMMON_NVCC_FLAGS).
_TORCH_NVCC = ("-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
               "-D__CUDA_NO_HALF2_OPERATORS__", "--expt-relaxed-constexpr")
_TORCH_STD = "-std=c++20"        # what PyTorch's headers have asked for since 2.12
# Words of a failure that PyTorch's own headers, in place of the trimmed ones, might mend.
_WANTS_MORE = r"torch|at::|c10|pybind|PYBIND|py::|AT_|fatal error|No such file|could not open|namespace|redefin|already"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One build: texts, commands, and what to bring back."""

    sources: dict[str, bytes]
    stages: Sequence[Sequence[Command]]
    places: dict[str, Place]      # where each text of the contestant's stands in their file
    target: str | None            # the CUDA target; None: no CUDA in it
    report: str | None            # the command that the kernels' report comes from
    ptx: str | None
    wants_library: bool = True

    @property
    def wanted(self) -> list[str]:
        """The files to bring back."""
        return [*([LIBRARY] if self.wants_library else []), *([self.ptx] if self.ptx else [])]


def cu_recipe(source: bytes, file_name: str, target: str, toolkit: Toolkit) -> Recipe:
    """A `.cu` that exports its function by TVM-FFI."""
    argv = [toolkit.nvcc, *_target(target), "-std=c++17", "-O2", "--expt-relaxed-constexpr", "--expt-extended-lambda", "-Xptxas", "-v",
            "-Xcompiler", "-fPIC,-O1", *(f"-I{folder}" for folder in toolkit.ffi_includes), "--keep", "--keep-dir", "kept", "-shared",
            "-o", LIBRARY, _CU]
    return Recipe(sources={_CU: source}, stages=[[Command(name=target, argv=argv)]], places={_CU: Place(file=file_name, first_line=1)},
                  target=target, report=target, ptx="kept/submission.ptx")


def inline_recipe(inline: InlineSource, text: str, file_name: str, target: str, toolkit: Toolkit) -> Recipe:
    """A PyTorch extension from the arguments of `load_inline`. `text`: the contestant's file, where its lines stand. Raises FlagRefused."""
    _check_rest(inline)
    sources = {**_headers(), "main.cpp": _main_text(inline).encode("utf-8", "replace")}
    places, compiles = _places(inline, text, file_name), [_gxx(inline, toolkit)]
    if not inline.cuda_sources:
        return Recipe(sources=sources, stages=[compiles, [_link(inline, toolkit)]], places=places, target=None, report=None, ptx=None)
    sources["cuda.cu"] = _cuda_text(inline).encode("utf-8", "replace")
    return Recipe(sources=sources, stages=[[*compiles, _nvcc(inline, target, toolkit)], [_link(inline, toolkit)]], places=places,
                  target=target, report="cuda", ptx=_PTX)


def cuda_recipe(inline: InlineSource, text: str, file_name: str, target: str, toolkit: Toolkit) -> Recipe:
    """The CUDA part of an extension alone, for its report. Raises FlagRefused."""
    _check_rest(inline)
    sources = {**_headers(), "cuda.cu": _cuda_text(inline).encode("utf-8", "replace")}
    return Recipe(sources=sources, stages=[[_nvcc(inline, target, toolkit)]], places=_places(inline, text, file_name), target=target,
                  report="cuda", ptx=_PTX, wants_library=False)


def _check_rest(inline: InlineSource) -> None:
    """Libraries and include paths are never passed on: those that may be named are there anyway."""
    taken([*inline.extra_ldflags, *(f"-I{path}" for path in inline.extra_include_paths)])


def _headers() -> dict[str, bytes]:
    return {f"{_TRIMMED}/{name}": (_HEADERS / name).read_bytes() for name in _TRIMMED_HEADERS}


def _target(target: str) -> list[str]:
    return ["-gencode", f"arch={target.replace('sm_', 'compute_')},code={target}"]


def _nvcc(inline: InlineSource, target: str, toolkit: Toolkit) -> Command:
    argv = [toolkit.nvcc, *_target(target), _TORCH_STD, "-O2", "-w", *_TORCH_NVCC, "-Xptxas", "-v", "-Xcompiler", "-fPIC,-O1",
            *_names(inline), "--keep", "--keep-dir", "kept", *taken(inline.extra_cuda_cflags), "-c", "-o", "cuda.o", "cuda.cu",
            *(f"-I{folder}" for folder in toolkit.cutlass_includes)]
    return _with_trimmed("cuda", argv, toolkit)


def _gxx(inline: InlineSource, toolkit: Toolkit) -> Command:
    argv = [str(toolkit.gxx), _TORCH_STD, "-w", "-O1", "-fPIC", *_names(inline), *taken(inline.extra_cflags), "-c", "-o", "main.o",
            "main.cpp"]
    if inline.cuda_sources and toolkit.cuda:
        argv.append(f"-I{toolkit.cuda / 'include'}")
    return _with_trimmed("cpp", argv, toolkit)


def _with_trimmed(name: str, argv: list[str], toolkit: Toolkit) -> Command:
    full = [*argv, *(word for folder in toolkit.torch_includes for word in ("-isystem", folder))]
    return Command(name=name, argv=[*full, f"-I{_TRIMMED}"], again_if=_WANTS_MORE, instead=full)


def _link(inline: InlineSource, toolkit: Toolkit) -> Command:
    objects = ["main.o", *(["cuda.o"] if inline.cuda_sources else [])]
    argv = [str(toolkit.gxx), "-shared", "-o", LIBRARY, *objects, f"-L{toolkit.torch_libraries}", "-lc10", "-ltorch_cpu", "-ltorch",
            "-ltorch_python"]
    if inline.cuda_sources and toolkit.cuda:
        argv += [*(f"-l{name}" for name in ("c10_cuda", "torch_cuda") if (toolkit.torch_libraries / f"lib{name}.so").exists()),
                 f"-L{toolkit.cuda / 'lib64'}", "-lcudart_static", "-ldl", "-lrt", "-lpthread"]
    return Command(name="link", argv=argv)


def _names(inline: InlineSource) -> list[str]:
    return [f"-DTORCH_EXTENSION_NAME={inline.name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]


def _main_text(inline: InlineSource) -> str:
    head = [] if inline.no_implicit_headers else ["#include <torch/extension.h>"]
    return "\n".join([*head, *_marked("cpp_sources", inline.cpp_sources), *_bindings(inline)]) + "\n"


def _cuda_text(inline: InlineSource) -> str:
    head = [] if inline.no_implicit_headers else ["#include <torch/types.h>", "#include <cuda.h>", "#include <cuda_runtime.h>"]
    return "\n".join([*head, *_marked("cuda_sources", inline.cuda_sources)]) + "\n"


def _bindings(inline: InlineSource) -> list[str]:
    """As PyTorch generates them, in lines that belong to no text of the contestant's."""
    if inline.functions is None:
        return []
    made = (f'm.def("{name}", torch::wrap_pybind_function({name}));' for name, _ in inline.functions)
    return ['#line 1 "functions"', "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {", *made, "}"]


def _marked(kind: str, texts: Sequence[str]) -> list[str]:
    return [line for index, text in enumerate(texts) for line in (f'#line 1 "{kind}[{index}]"', text)]


def _places(inline: InlineSource, text: str, file_name: str) -> dict[str, Place]:
    """Where a source stands word for word in the file its own lines are told, else its number among the arguments."""
    places = {}
    for kind, sources in (("cpp_sources", inline.cpp_sources), ("cuda_sources", inline.cuda_sources)):
        for index, source in enumerate(sources):
            name, at = f"{kind}[{index}]", text.find(source) if source.strip() else -1
            places[name] = Place(file=file_name, first_line=text.count("\n", 0, at) + 1) if at >= 0 else Place(file=name, first_line=1)
    return places
