"""What entries are compiled with on this machine: the CUDA toolkit, and the headers that installed packages bring along."""

import importlib.metadata
import importlib.util
import shutil
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_USUAL = Path("/usr/local/cuda")
_PACKAGES = ("apache-tvm-ffi", "cutlass_library", "nvidia-cutlass", "torch")
NO_TOOLKIT = ("The judging machine has no CUDA toolkit, so a CUDA source cannot be compiled there. Install NVIDIA's toolkit, 12.8 "
              "or newer (nvcc, in /usr/local/cuda or on PATH).")
NO_COMPILER = "The judging machine has no g++, so C++ sources cannot be compiled there. Install it (apt-get install g++)."


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """Compilers and headers."""

    cuda: Path | None       # the CUDA toolkit's folder
    gxx: Path | None        # the host's C++ compiler

    @property
    def nvcc(self) -> str:
        """The program. Ask only where there is a toolkit."""
        assert self.cuda
        return str(self.cuda / "bin/nvcc")

    @property
    def ffi_includes(self) -> list[str]:
        """For a `.cu`: TVM-FFI with DLPack, CUTLASS and CuTe."""
        return [*_existing(_package("tvm_ffi") / "include"), *self.cutlass_includes]

    @property
    def cutlass_includes(self) -> list[str]:
        """CUTLASS and CuTe; empty where the package is not installed."""
        source = _package("cutlass_library") / "source"
        return _existing(source / "include", source / "tools/util/include")

    @property
    def torch_includes(self) -> list[str]:
        """PyTorch's C++ interface, Python's own, and the CUDA libraries' that PyTorch names and a bare toolkit lacks (cuBLAS, cuSPARSE)."""
        headers = _package("torch") / "include"
        beside = sorted((_package("torch").parent / "nvidia").glob("*/include"))
        return [*_existing(headers, headers / "torch/csrc/api/include"), sysconfig.get_paths()["include"], *map(str, beside)]

    @property
    def torch_libraries(self) -> Path:
        """The folder to link a PyTorch extension with."""
        return _package("torch") / "lib"

    @property
    def shown(self) -> list[Path]:
        """Folders that a compiler's sandbox must see beyond what every box sees."""
        beside = [_package("cutlass_library"), _package("torch").parent / "nvidia"]
        return [*([self.cuda] if self.cuda else []), *(folder for folder in beside if folder.is_dir())]

    @cached_property
    def fingerprint(self) -> list[str]:
        """Changes whenever another compiler or other headers would be used."""
        programs = [self.gxx, *([self.cuda / "bin/nvcc", self.cuda / "bin/ptxas", self.cuda / "bin/cudafe++"] if self.cuda else [])]
        return [*map(_stamp, filter(None, programs)), *_versions()]


def find_toolkit() -> Toolkit:
    """What is installed here."""
    gxx = shutil.which("g++")
    return Toolkit(cuda=next(_toolkits(), None), gxx=Path(gxx).resolve() if gxx else None)


def _toolkits() -> Iterator[Path]:
    on_path = shutil.which("nvcc")
    for folder in (_USUAL, *([Path(on_path).resolve().parent.parent] if on_path else [])):
        if (folder / "bin/nvcc").exists() and (folder / "nvvm").exists():      # a wrapper in /usr/local/bin is no toolkit
            yield folder.resolve()


def _package(name: str) -> Path:
    """A package's folder, without importing it; a path that does not exist when there is none."""
    spec = importlib.util.find_spec(name)
    return Path(next(iter(spec.submodule_search_locations))) if spec and spec.submodule_search_locations else Path("/nonexistent")


def _existing(*folders: Path) -> list[str]:
    return [str(folder) for folder in folders if folder.is_dir()]


def _stamp(program: Path) -> str:
    stat = program.stat()
    return f"{program} {stat.st_size} {stat.st_mtime_ns}"


def _versions(packages: Iterable[str] = _PACKAGES) -> Iterator[str]:
    for package in packages:
        try:
            yield f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            continue
