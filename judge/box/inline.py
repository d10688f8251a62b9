"""`load_inline` in two stages: first its arguments are written down as data, later it finds the library that was made of them.

Importing this needs no torch: the trusted side makes the same keys.
"""

import hashlib
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelderby.judge.box.fault import Fault, Kind

CU_KEY = "cu"      # under which a box finds the library of a `.cu`; those of `load_inline` have a key of their source each
_MODULE = "torch.utils.cpp_extension"
NO_LOAD = "torch.utils.cpp_extension.load reads files, and a submission is one file: give the sources to load_inline as text."
NOT_SEEN = ("This load_inline call was not seen when the file was loaded without a GPU, so nothing was compiled for it. Call load_inline "
            "at module level, before anything that needs the GPU, with sources that do not depend on it.")
NOT_YET = "An extension of load_inline is used while the file is loaded. Use it inside custom_kernel or plan."


@dataclass(frozen=True, kw_only=True)
class InlineSource:
    """The arguments of one call: all that its library depends on."""

    name: str
    cpp_sources: tuple[str, ...]
    cuda_sources: tuple[str, ...] = ()
    functions: tuple[tuple[str, str], ...] | None = None      # names and docstrings; None: the sources bind by themselves
    extra_cflags: tuple[str, ...] = ()
    extra_cuda_cflags: tuple[str, ...] = ()
    extra_ldflags: tuple[str, ...] = ()
    extra_include_paths: tuple[str, ...] = ()
    no_implicit_headers: bool = False

    def key(self) -> str:
        """The same on both sides of the wire."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


class Recorder:
    """Takes the place of `load_inline` where no GPU is and nothing is compiled."""

    def __init__(self) -> None:
        self.seen: list[InlineSource] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.append(source_of(*args, **kwargs))
        return _Stub(self.seen[-1].name)


class Finder:
    """Takes its place in the box that runs the entry."""

    def __init__(self, libraries: Mapping[str, Path]) -> None:
        self._libraries = libraries

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        source = source_of(*args, **kwargs)
        path = self._libraries.get(source.key())
        if path is None:
            raise Fault(Kind.EXCEPTION, NOT_SEEN)
        return _imported(source.name, path)


def take_the_place_of_load_inline(substitute: Any) -> None:
    """From now on `load_inline` is `substitute`; `load` says why it cannot be had."""
    try:
        module = importlib.import_module(_MODULE)
    except ImportError:      # without setuptools, say
        module = sys.modules[_MODULE] = ModuleType(_MODULE)
    vars(module).update(load_inline=substitute, load=_no_load)


def source_of(name: Any, cpp_sources: Any, cuda_sources: Any = None, sycl_sources: Any = None, functions: Any = None,
              extra_cflags: Any = None, extra_cuda_cflags: Any = None, extra_sycl_cflags: Any = None, extra_ldflags: Any = None,
              extra_include_paths: Any = None, build_directory: Any = None, verbose: Any = False, with_cuda: Any = None,
              with_sycl: Any = None, is_python_module: Any = True, with_pytorch_error_handling: Any = True,
              keep_intermediates: Any = True, use_pch: Any = False, no_implicit_headers: Any = False) -> InlineSource:
    """The arguments of `torch.utils.cpp_extension.load_inline`, as data. Raises Fault for what cannot be had."""
    if sycl_sources or not is_python_module:
        raise Fault(Kind.EXCEPTION, "load_inline takes C++ and CUDA sources of a Python module here, nothing else.")
    return InlineSource(
        name=str(name), cpp_sources=_texts(cpp_sources), cuda_sources=_texts(cuda_sources), functions=_functions(functions),
        extra_cflags=_texts(extra_cflags), extra_cuda_cflags=_texts(extra_cuda_cflags), extra_ldflags=_texts(extra_ldflags),
        extra_include_paths=_texts(extra_include_paths), no_implicit_headers=bool(no_implicit_headers))


class _Stub:
    """An extension that cannot be called yet."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _not_yet


def _not_yet(*_: Any, **__: Any) -> Any:
    raise RuntimeError(NOT_YET)


def _no_load(*_: Any, **__: Any) -> Any:
    raise Fault(Kind.EXCEPTION, NO_LOAD)


def _texts(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (str(value),)
    return tuple(map(str, value))


def _functions(value: Any) -> tuple[tuple[str, str], ...] | None:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return tuple((str(name), str(text)) for name, text in value.items())
    return tuple((name, name) for name in _texts(value))


def _imported(name: str, path: Path) -> ModuleType:
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
