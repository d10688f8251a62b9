"""Runs compilers inside a sandbox: `python -s -P -m kernelderby.judge.box.compiling FD`. Standard library alone; runs nothing it builds.

One question comes with the sources as descriptors: stages of commands. Those of a stage run side by side; the next stage starts
when all of them have succeeded. The answer tells how each command ended and brings the wanted files as descriptors.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernelderby.judge.box.wire import TRUSTED_LIMIT_BYTES, Channel, Closed

KEPT_BYTES = 24 * 1024             # of a command's output
FLOOD_BYTES = 4 * 1024 * 1024      # a compiler that prints more is stopped
_NAMES_WITHIN_S = 5.0

Message = dict[str, Any]


def main() -> None:
    """Answer one question, then leave."""
    channel = Channel(socket.socket(fileno=int(sys.argv[1])), TRUSTED_LIMIT_BYTES)
    folder = Path(tempfile.mkdtemp(prefix="derby-build-"))
    try:
        channel.send({"op": "ready"})
        question, fds = channel.receive(60.0)
        _write_sources(folder, question["files"], fds)
        ended = _run_stages(folder, question["stages"])
        names = [name for name in question["wanted"] if (folder / name).is_file()]
        outputs = [os.open(folder / name, os.O_RDONLY) for name in names]
        channel.send({"op": "compiled", "ended": ended, "outputs": names}, outputs)
        channel.receive(60.0)      # until they were read
    except Closed:
        return
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _write_sources(folder: Path, names: Sequence[str], fds: Sequence[int]) -> None:
    for name, fd in zip(names, fds, strict=True):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.pread(fd, os.fstat(fd).st_size, 0))
        os.close(fd)


def _run_stages(folder: Path, stages: Sequence[Sequence[Message]]) -> list[Message]:
    ended: list[Message] = []
    for stage in stages:
        found: list[Message] = [{}] * len(stage)
        threads = [threading.Thread(target=_run_into, args=(found, index, folder, command)) for index, command in enumerate(stage)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended += found
        if any(one["status"] for one in found):
            break
    return ended


def _run_into(found: list[Message], index: int, folder: Path, command: Message) -> None:
    """The command; where it fails with words that `again_if` finds, its other form instead."""
    found[index] = _run(folder, command["name"], command["argv"])
    pattern = command.get("again_if")
    if found[index]["status"] and pattern and re.search(pattern, found[index]["log"]):
        found[index] = _run(folder, command["name"], command["instead"])


def _run(folder: Path, name: str, argv: Sequence[str]) -> Message:
    started = time.monotonic()
    for output in argv[argv.index("--keep-dir") + 1 :][:1] if "--keep-dir" in argv else []:
        (folder / output).mkdir(exist_ok=True)
    process = subprocess.Popen(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    text, is_flooded = _read(process)
    return {"name": name, "status": process.wait() or int(is_flooded), "flooded": is_flooded, "log": _readable(text),
            "seconds": round(time.monotonic() - started, 3)}


def _read(process: "subprocess.Popen[bytes]") -> tuple[bytes, bool]:
    assert process.stdout
    kept, seen = bytearray(), 0
    while data := os.read(process.stdout.fileno(), 65536):
        seen += len(data)
        kept += data[: KEPT_BYTES - len(kept)]
        if seen > FLOOD_BYTES:
            os.killpg(process.pid, 9)
            return bytes(kept), True
    return bytes(kept), False


def _readable(text: bytes) -> str:
    """The output with C++ names as they were written, where binutils can tell; a kernel's own name stays beside it, marked by a Q."""
    text = re.sub(rb"(Compiling entry function )'(\w+)'", rb"\1'Q\2' '\2'", text)
    program = shutil.which("c++filt")
    if program and b"_Z" in text:
        with suppress(subprocess.SubprocessError, OSError):
            text = subprocess.run([program, "-p"], input=text, capture_output=True, timeout=_NAMES_WITHIN_S).stdout or text
    return text[: 2 * KEPT_BYTES].decode("utf-8", "replace")


if __name__ == "__main__":
    main()
