"""What the contestant's code did wrong, as a value for the wire: a kind, a sentence, their own line, their own frames."""

import json
import traceback
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

MESSAGE_LIMIT, TRACEBACK_LIMIT = 2000, 8000    # characters
_TEXT_BYTES = 60_000    # both texts as JSON, where one character may take twelve bytes: the rest of a line fits beside them
_GPU_SAYS = ("illegal memory access", "misaligned address", "illegal address", "IllegalAddress", "ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS")
_ALLOCATOR_SAYS = ("can't allocate memory", "CUDA out of memory", "not enough memory")


class Kind(StrEnum):
    """The kinds of fault that the referee knows."""

    SYNTAX = "syntax"
    IMPORT = "import"
    MISSING_ENTRY = "missing_entry"
    SHAPE = "shape"
    DTYPE = "dtype"
    EXCEPTION = "exception"
    MEMORY = "memory"
    UNSUPPORTED = "unsupported"
    ILLEGAL = "illegal"      # on a GPU: memory that is not there
    CAPTURE = "capture"      # on a GPU: the call cannot be captured in a graph


class Unsupported(Exception):
    """This device class cannot run what the kernel asked for; the text says what can."""


class Fault(Exception):
    """The contestant's code failed. `line` is theirs; `trace` shows no frame but theirs."""

    def __init__(self, kind: Kind, message: str, line: int | None = None, trace: str = "") -> None:
        super().__init__(message)
        self.kind, self.message, self.line, self.trace = kind, message, line, trace

    def answer(self) -> dict[str, Any]:
        """The fault as an answer that fits on one line of the wire."""
        message, trace = self.message[:MESSAGE_LIMIT], _tail(self.trace, TRACEBACK_LIMIT)
        while len(json.dumps([message, trace])) > _TEXT_BYTES:
            message, trace = message[: len(message) // 2], _tail(trace, len(trace) // 2)
        return {"op": "error", "kind": self.kind.value, "message": message, "line": self.line, "traceback": trace}


def fault_of(error: BaseException, file_name: str) -> Fault:
    """The fault that `error`, raised under the contestant's file `file_name`, amounts to."""
    if isinstance(error, Fault):
        return error
    chain = list(_unwrapped(error))
    root = chain[-1]
    frames = traceback.StackSummary.extract(
        frame for link in chain for frame in traceback.walk_tb(link.__traceback__) if frame[0].f_code.co_filename == file_name
    )
    said = "".join(_said(root))
    trace = "".join(["Traceback (most recent call last):\n", *frames.format(), said]) if frames else said
    return Fault(_kind(root), _message(root), frames[-1].lineno if frames else None, trace.rstrip("\n"))


def without_frames(error: BaseException) -> str:
    """What Python says of `error` without any frame, as for a file that does not parse."""
    return "".join(_said(error)).rstrip("\n")


def _unwrapped(error: BaseException) -> Iterator[BaseException]:
    """The error, and below it what Triton's interpreter wrapped, outermost first."""
    yield error
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
        yield error


def _kind(error: BaseException) -> Kind:
    if isinstance(error, Unsupported):
        return Kind.UNSUPPORTED
    if isinstance(error, ImportError):
        return Kind.IMPORT
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return Kind.MEMORY
    if isinstance(error, RuntimeError) and any(words in _text(error) for words in _ALLOCATOR_SAYS):
        return Kind.MEMORY
    if any(words in _text(error) for words in _GPU_SAYS):
        return Kind.ILLEGAL
    if type(error).__name__ == "CompilationError":      # Triton's
        return Kind.SYNTAX
    return Kind.EXCEPTION


def _message(error: BaseException) -> str:
    text = _text(error)
    if isinstance(error, Unsupported):
        return text
    if isinstance(error, ModuleNotFoundError):
        return f"{text}: this module is not installed where kernels run; `derby env` lists what is."
    if isinstance(error, SystemExit):
        return f"The code asked Python to exit (status {text or 0}); it must return instead."
    if isinstance(error, KeyboardInterrupt):
        return "The code raised KeyboardInterrupt."
    if isinstance(error, RecursionError):
        return f"RecursionError: {text}; the code calls itself without end."
    if isinstance(error, AttributeError) and (fields := _fields(error.obj)):
        return f"AttributeError: {text}; it has {', '.join(fields)}."
    name = type(error).__name__
    if name == "AcceleratorError":      # what follows tells how to debug
        text = text.partition("\n")[0]
    return f"{name}: {text}" if text else name


def _fields(value: object) -> tuple[str, ...]:
    """The names in a named tuple, such as `data`."""
    return getattr(type(value), "_fields", ()) if issubclass(type(value), tuple) else ()


def _text(error: BaseException) -> str:
    """`str(error)`, which their own class may have broken."""
    try:
        return str(error)
    except Exception:
        return "(its text could not be read)"


def _said(error: BaseException) -> list[str]:
    try:
        return traceback.format_exception_only(error)
    except Exception:
        return [type(error).__name__]


def _tail(text: str, limit: int) -> str:
    """The end of a text: there stand the innermost frames and the error itself."""
    return text if len(text) <= limit else "…" + text[len(text) - limit + 1 :]
