"""The contestant's file as a module, and the functions in it that the judge calls."""

import difflib
import inspect
import linecache
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any

from kernelderby.judge.box.fault import Fault, Kind, fault_of, without_frames

MODULE = "submission"
KERNEL, PLAN = "custom_kernel", "plan"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A loaded submission."""

    file_name: str                       # as their frames name it
    custom_kernel: Callable[[Any], Any]
    plan: Callable[[Any], Any] | None


def load_entry(source: bytes, file_name: str) -> Entry:
    """Run the file as module `submission` and find its functions. Raises Fault."""
    code = _compiled(source, file_name)
    module = _module(source, file_name)
    try:
        exec(code, module.__dict__)
    except BaseException as error:    # sys.exit and Ctrl-C of their making are theirs as well
        raise fault_of(error, file_name) from None
    return Entry(file_name=file_name, custom_kernel=_kernel(module), plan=_plan(module))


def _compiled(source: bytes, file_name: str) -> CodeType:
    try:
        return compile(source, file_name, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise Fault(Kind.SYNTAX, f"{type(error).__name__}: {error.msg}", error.lineno or None, without_frames(error)) from None
    except ValueError as error:       # a NUL byte
        raise Fault(Kind.SYNTAX, f"This is not Python source: {error}.") from None
    except (RecursionError, MemoryError, OverflowError):
        raise Fault(Kind.SYNTAX, "The file is nested too deeply for Python to parse.") from None


def _module(source: bytes, file_name: str) -> ModuleType:
    """An empty module whose source `inspect`, Triton and tracebacks can read, though no such file exists."""
    lines = source.decode("utf-8", errors="replace").splitlines(keepends=True)
    linecache.cache[file_name] = (len(source), None, lines, file_name)
    module = ModuleType(MODULE)
    module.__file__ = file_name
    sys.modules[MODULE] = module
    return module


def _kernel(module: ModuleType) -> Callable[[Any], Any]:
    kernel = getattr(module, KERNEL, None)
    if not callable(kernel):
        near = difflib.get_close_matches(KERNEL, [name for name, value in vars(module).items() if inspect.isfunction(value)], 1, 0.5)
        hint = f" (there is {near[0]}: was it meant?)" if near else ""
        raise Fault(Kind.MISSING_ENTRY, f"The file defines no function {KERNEL}(data){hint}; add it, the judge calls it.")
    if not _takes_one(kernel):
        line = getattr(getattr(kernel, "__code__", None), "co_firstlineno", None)
        raise Fault(Kind.MISSING_ENTRY, f"{KERNEL} must take one argument: def {KERNEL}(data).", line)
    return kernel    # type: ignore[no-any-return]


def _plan(module: ModuleType) -> Callable[[Any], Any] | None:
    plan = getattr(module, PLAN, None)
    return plan if callable(plan) else None


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:    # a builtin without a signature: the call will tell
        return True
    return True
