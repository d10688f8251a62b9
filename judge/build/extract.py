"""Stage one of `load_inline`: a box without a GPU runs the file's own statements, and its calls are written down as data.

The box is the contestant's: what it says are sources and flags of their own choosing, bounded, and nothing else of it counts.
"""

import os
import re
import secrets
import time
from collections.abc import Callable
from typing import Any

from kernelderby.judge.box.inline import InlineSource
from kernelderby.judge.box.wire import Breach, Channel, Closed, Late, sealed_files
from kernelderby.judge.sandbox.base import Box, BoxLimits
from kernelderby.judge.sandbox.pool import Pool
from kernelderby.judge.sandbox.process import drop_words

MOST = 8                      # extensions of one file
MOST_BYTES = 1 << 20          # of all their texts, docstrings of functions too: what a file calls is kept in the cache
_LINE_BYTES = 8 << 20         # a character may take twelve bytes as JSON
_WITHIN_S = 30.0
_MEMORY_BYTES = 4 << 30
_LOOK_S = 0.05
_NAME = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
_TEXTS = ("cpp_sources", "cuda_sources", "extra_cflags", "extra_cuda_cflags", "extra_ldflags", "extra_include_paths")


class NotTaken(Exception):
    """The text is a sentence for the contestant."""


def extract(pool: Pool, source: bytes, cancelled: Callable[[], bool]) -> list[InlineSource]:
    """The calls of `load_inline` that loading the file makes; those before it failed count. Raises NotTaken, SandboxUnavailable."""
    box = pool.take()
    try:
        box.limit(BoxLimits(memory_bytes=_MEMORY_BYTES))
        return parse(_asked(box, source, cancelled))
    finally:
        box.end()


def parse(answer: Any) -> list[InlineSource]:
    """What a box said, as sources. Raises NotTaken where it is not in the form or too much."""
    if not isinstance(answer, list) or len(answer) > MOST:
        raise NotTaken(f"A file may call load_inline {MOST} times.")
    found = [_source(item) for item in answer]
    if sum(map(_bytes, found)) > MOST_BYTES:
        raise NotTaken("The sources, flags and docstrings of all load_inline calls together may have 1 MiB.")
    return list(dict.fromkeys(found))


def _asked(box: Box, source: bytes, cancelled: Callable[[], bool]) -> Any:
    """The box's answer; an empty list where it has none, since the box that runs the entry will say why."""
    channel, nonce = Channel(box.wire, _LINE_BYTES), secrets.randbelow(2**53)
    deadline = time.monotonic() + _WITHIN_S
    try:
        with sealed_files(source) as fds:
            channel.send({"op": "load", "nonce": nonce, "file_name": "submission.py", "extract": True}, fds)
        while time.monotonic() < deadline and not cancelled():
            drop_words(box.log_fd)      # the file's words are heard in the box that runs it
            try:
                answer, sent = channel.receive(_LOOK_S)
            except Late:
                continue
            for number in sent:
                os.close(number)
            return answer.get("inline", []) if answer.get("nonce") == nonce else []
    except (Breach, Closed, Late):
        return []
    return []


def _source(item: Any) -> InlineSource:
    if not isinstance(item, dict):
        raise NotTaken("load_inline was called in a way that cannot be read.")
    name = item.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise NotTaken("The name of a load_inline extension must be a plain word of at most 64 letters, digits and underscores.")
    functions = item.get("functions")
    return InlineSource(name=name, functions=None if functions is None else _functions(functions),
                        no_implicit_headers=item.get("no_implicit_headers") is True, **{key: _texts(item.get(key)) for key in _TEXTS})


def _bytes(source: InlineSource) -> int:
    docstrings = [text for _, text in source.functions or ()]
    texts = [text for name in _TEXTS for text in getattr(source, name)]
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in [*texts, *docstrings])


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > 64 or not all(isinstance(text, str) for text in value):
        raise NotTaken("load_inline takes texts, and at most 64 of a kind.")
    return tuple(value)


def _functions(value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list) or len(value) > 64:
        raise NotTaken("load_inline takes at most 64 functions.")
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair) or not _NAME.fullmatch(pair[0]):
            raise NotTaken("The functions of load_inline must be names of C++ functions.")
    return tuple((pair[0], pair[1]) for pair in value)
