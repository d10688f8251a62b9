"""Plays the referee against one harness, as a plain subprocess: honest sources only."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from kernelderby.judge.box import pages
from kernelderby.judge.box.pages import Page
from kernelderby.judge.box.wire import Channel, sealed_file

ALIGN = 512
ANSWER_S = 60.0


class Driver:
    """One harness and the referee's end of everything it shares with it. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        """Start it with nothing of ours but its own folder, as in a sandbox, and wait until it is ready."""
        shutil.copytree(Path(pages.__file__).parent, folder / "derby/kernelderby/judge/box", ignore=shutil.ignore_patterns("__pycache__"))
        ours, theirs = socket.socketpair()
        self.started = time.monotonic()
        self.channel = Channel(ours)
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder / "derby"), "HOME": str(folder), "TMPDIR": str(folder),
                       "TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(folder / "triton"), "OMP_NUM_THREADS": "1"}
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-s", "-P", "-m", "kernelderby.judge.box", str(theirs.fileno())],
                env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[theirs.fileno()])
        theirs.close()
        self.log_path = folder / "log"
        self.nonce = 0
        self.ready = self.channel.receive(ANSWER_S)[0]
        self.ready_s = time.monotonic() - self.started

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()
        self.process.wait(10)

    def ask(self, op: str, fds: Sequence[int] = (), **rest: Any) -> dict[str, Any]:
        """The answer to one question, whose nonce must come back."""
        self.nonce += 1
        self.channel.send({"op": op, "nonce": self.nonce, **rest}, fds)
        for fd in fds:
            os.close(fd)
        answer, _ = self.channel.receive(ANSWER_S)
        assert answer.pop("nonce") == self.nonce
        return answer

    def load(self, source: str | bytes, file_name: str = "submission.py", **rest: Any) -> dict[str, Any]:
        """Send a source in a sealed memfd."""
        content = source if isinstance(source, bytes) else source.encode()
        return self.ask("load", [sealed_file(content)], file_name=file_name, **rest)

    def bind(self, inputs: Mapping[str, torch.Tensor | float], outputs: Mapping[str, torch.Tensor], **rest: Any) -> dict[str, Any]:
        """Lay out a fresh arena, copy everything into it, and bind: `self.tensors` are then our views of it."""
        specs, size = {}, ALIGN
        for name, value in [*inputs.items(), *outputs.items()]:
            if not isinstance(value, torch.Tensor):
                specs[name] = {"name": name, "value": value}
                continue
            specs[name] = {"name": name, "shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch."), "offset": size}
            size += -(-value.nbytes // ALIGN) * ALIGN + ALIGN
        self._share(size)
        self.tensors = {name: self._view(spec) for name, spec in specs.items() if "value" not in spec}
        for name, tensor in self.tensors.items():
            tensor.copy_(outputs[name] if name in outputs else inputs[name])
        return self.ask("bind", inputs=[specs[name] for name in inputs], outputs=[specs[name] for name in outputs], **rest)

    def call(self, number: int, timeout_s: float = 30.0) -> int:
        """Let call `number` start and wait for its end; the status word."""
        self.go.write(pages.CALL, number)
        self.go.wake(pages.CALL)
        deadline = time.monotonic() + timeout_s
        while (seen := self.done.read(pages.CALL)) != number:
            assert time.monotonic() < deadline, f"call {number} did not end"
            self.done.wait(pages.CALL, seen, 0.02)
        return self.done.read(pages.STATUS)

    def stop(self) -> None:
        """No more calls come."""
        self.go.write(pages.STOP, 1)
        self.go.wake(pages.CALL)

    def _share(self, size: int) -> None:
        fds = [os.memfd_create(name) for name in ("arena", "go", "done")]
        for fd, length in zip(fds, (size, pages.BYTES, pages.BYTES), strict=True):
            os.ftruncate(fd, length)
        self._memory = torch.from_file(f"/proc/self/fd/{fds[0]}", shared=True, size=size, dtype=torch.uint8)
        self.go, self.done = Page(fds[1], writable=True), Page(fds[2], writable=False)
        answer = self.ask("arena", fds, bytes=size)
        assert answer == {"op": "ready"}

    def _view(self, spec: Mapping[str, Any]) -> torch.Tensor:
        dtype = getattr(torch, spec["dtype"])
        size = torch.Size(spec["shape"]).numel() * dtype.itemsize
        return self._memory[spec["offset"] : spec["offset"] + size].view(dtype).view(spec["shape"])
