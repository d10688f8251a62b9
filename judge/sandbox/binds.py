"""What of the host a box can see: an explicit list, read-only, never `/`.

Started by root, a box without a uid of its own could read everything bound, also files of mode 0600. So only programs and
libraries are bound, and the box's own few files.
"""

import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from kernelderby.judge.sandbox.devices import driver_folders

BOX_ROOT = "/derby"                                   # on the box's PYTHONPATH
_SYSTEM = ("bin", "lib", "lib32", "lib64", "libexec", "include")     # of /usr: libraries, and a compiler for Triton's launchers
_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/sys/devices/system/cpu")      # alternatives: what `cc` means; cpu: OpenMP reads it
_TOP_LEVEL = tuple(Path("/", name) for name in ("bin", "sbin", "lib", "lib32", "lib64"))      # links into /usr, or folders of old
_LIBRARIES = ("torch", "triton", "numpy", "tvm_ffi")


def bind_arguments(harness: Path, enter: Path, shown: Iterable[Path] = ()) -> list[str]:
    """bubblewrap's arguments for the files of a box: `harness`, the package it runs, `enter`, the program that starts it, and what else is
    `shown`."""
    inside = f"{BOX_ROOT}/kernelderby/judge"
    binds = {str(path): path for path in _without_nested([*_bound(), *shown])}
    binds |= {f"{inside}/box": harness, f"{inside}/__init__.py": harness.parent / "__init__.py", f"{BOX_ROOT}/enter.py": enter}
    links = {str(path): path.readlink() for path in _TOP_LEVEL if path.is_symlink()}
    arguments = [word for folder in _parents([*binds, *links, "/etc/passwd"]) for word in ("--perms", "0755", "--dir", folder)]
    arguments += [word for target, source in binds.items() for word in ("--ro-bind", str(source), target)]
    arguments += [word for target, link in links.items() for word in ("--symlink", str(link), target)]
    return arguments + [word for folder in _installed_copies() for word in ("--tmpfs", str(folder))]


def library_path() -> list[str]:
    """Folders with libraries that Python inside would not look into by itself (a user's site, `pip install --target`)."""
    usual = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix)]
    return [str(folder) for folder in _library_folders() if not any(folder.is_relative_to(prefix) for prefix in usual)]


def needed_files() -> list[Path]:
    """One file of each part that a box cannot do without."""
    return [Path(sys.executable), Path(sys.prefix), Path(sys.base_prefix), *(Path(package, "__init__.py") for package in _packages())]


def _bound() -> Iterator[Path]:
    for top in ("/usr", "/usr/local"):
        yield from (Path(top, name) for name in _SYSTEM)
    yield from (path for path in _TOP_LEVEL if not path.is_symlink())
    yield from map(Path, _FILES)
    yield from driver_folders()
    for prefix in {sys.prefix, sys.base_prefix}:
        yield from _prefix(Path(prefix))
    yield from _links(Path(sys.executable))
    yield from _library_folders()


def _prefix(prefix: Path) -> Iterator[Path]:
    """An environment as it is named and as it is; of the system's own only the parts with programs and libraries."""
    for path in {prefix, prefix.resolve()}:
        if path in (Path("/"), Path("/usr"), Path("/usr/local")):
            yield from (path / name for name in _SYSTEM if path != Path("/"))
        else:
            yield path


def _links(path: Path) -> Iterator[Path]:
    """Every step from a link to the file it names."""
    while path.is_symlink():
        yield path
        path = Path(os.path.normpath(path.parent / path.readlink()))
    yield path


def _library_folders() -> Iterator[Path]:
    return (package.parent for package in _packages())


def _packages() -> Iterator[Path]:
    for name in _LIBRARIES:
        spec = importlib.util.find_spec(name)
        if spec and spec.submodule_search_locations:
            yield Path(next(iter(spec.submodule_search_locations)))


def _without_nested(paths: Iterable[Path]) -> list[Path]:
    """Those that exist, without those that lie in another."""
    kept: list[Path] = []
    for path in sorted({path for path in paths if path.exists()}, key=lambda path: (len(path.parts), path)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _parents(paths: Iterable[str]) -> list[str]:
    """The folders above, outermost first. bubblewrap would make them unreadable for a box with a uid of its own."""
    return sorted({str(parent) for path in paths for parent in Path(path).parents} - {"/"}, key=lambda path: path.count("/"))


def _installed_copies() -> Iterator[Path]:
    """A plain install lays all of us beside the libraries; inside there is nothing of ours but the harness."""
    for folder in _library_folders():
        if (folder / "kernelderby").is_dir():
            yield folder / "kernelderby"
