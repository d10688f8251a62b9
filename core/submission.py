"""What a contestant sends, and what its header lines say."""

import hashlib
import re
from dataclasses import dataclass

from kernelderby.core.errors import BadSource, ConflictingDirectives, SourceTooLarge
from kernelderby.core.verdict import Mode

LIMIT_BYTES = 1024 * 1024
SUFFIXES = (".py", ".cu")
_DIRECTIVE = re.compile(r"^\s*(?:#!|//!)POPCORN\s+(\w+)\s*(.*?)\s*$", re.IGNORECASE)


def is_cuda(file_name: str) -> bool:
    """Whether a file is CUDA C++ by its name; else it is Python."""
    return file_name.lower().endswith(".cu")


@dataclass(frozen=True, kw_only=True)
class Directives:
    """Header lines `#!POPCORN leaderboard NAME` and `#!POPCORN gpu H100`, as GPU MODE contestants write them."""

    problem: str | None = None
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SubmitRequest:
    """All that a door hands to `judge.intake.submit`."""

    person_id: int
    file_name: str
    source: bytes
    problem: str | None = None          # None: the header says it
    device: str | None = None           # None: the header's, else the problem's only open class
    mode: Mode = Mode.TEST
    licence: str = ""                   # an SPDX name the author grants; needed for ranked
    ai_use: str = ""                    # none, assisted or agent; with free text after a colon
    contest: str | None = None          # its name; None: the practice board
    idempotency_key: str | None = None
    token_id: int | None = None         # it came by; None: a login
    door: str = "api"                   # api, web, cli, bot: for the audit


def read_source(file_name: str, source: bytes) -> str:
    """The file as text. Raises SourceTooLarge or BadSource with what to do."""
    if len(source) > LIMIT_BYTES:
        raise SourceTooLarge
    if not file_name.lower().endswith(SUFFIXES):
        raise BadSource(f"The file's name must end in {' or '.join(SUFFIXES)}; this one is {file_name[-40:]!r}.")
    if not source.strip():
        raise BadSource("The file is empty. Send the source of a kernel: a problem's starters show what it holds.")
    if b"\0" in source:
        raise BadSource("The file holds NUL bytes, so it is not a text file. Send the kernel's source.")
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadSource(f"The file is not UTF-8 text (byte {error.start}). Save it as UTF-8 and send it again.") from None


def read_directives(text: str) -> Directives:
    """The directives of a whole file. Raises ConflictingDirectives where one says two things."""
    problems: list[str] = []
    devices: list[str] = []
    for line in text.splitlines():
        if not (match := _DIRECTIVE.match(line)):
            continue
        key, value = match[1].lower(), match[2]
        if key == "leaderboard" and value:
            problems.append(value)
        elif key in ("gpu", "gpus"):
            devices += [d.lower() for d in re.split(r"[\s,]+", value) if d]
    if len(set(problems)) > 1:
        raise ConflictingDirectives(f"The header names two problems, {problems[0]!r} and {problems[1]!r}. Keep one.")
    return Directives(problem=problems[0] if problems else None, devices=tuple(dict.fromkeys(devices)))


def source_sha(source: bytes) -> str:
    """SHA-256 of the bytes as sent, in hex: the key of the artifact store."""
    return hashlib.sha256(source).hexdigest()


def entry_sha(source: bytes) -> str:
    """SHA-256, in hex, of what makes two files one entry: the lines without trailing blanks, whatever ends them."""
    lines = [line.rstrip() for line in source.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")]
    return hashlib.sha256(b"\n".join(lines).strip(b"\n")).hexdigest()
