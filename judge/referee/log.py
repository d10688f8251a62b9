"""A box's stdout and stderr: read away as fast as it comes, so that no pipe fills, and only the beginning kept."""

import os
import threading

from kernelderby.core.text import clean_text

KEPT_BYTES = 64 * 1024
LIMIT_BYTES = 1024 * 1024     # more than this is the outcome output_limit


class BoxLog:
    """Drains the pipe in a thread until it ends. Owns the descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._kept = bytearray()
        self._seen = 0
        os.set_blocking(fd, True)
        self._thread = threading.Thread(target=self._drain, name="box log", daemon=True)
        self._thread.start()

    @property
    def is_flooded(self) -> bool:
        """Whether the program wrote more than it may."""
        return self._seen > LIMIT_BYTES

    def text(self) -> str:
        """What was kept, made safe to show."""
        return clean_text(bytes(self._kept).decode("utf-8", "replace"), KEPT_BYTES)

    def finish(self, timeout_s: float = 1.0) -> None:
        """Wait for the pipe's end, which comes when the box is dead."""
        self._thread.join(timeout_s)

    def _drain(self) -> None:
        while data := os.read(self._fd, 65536):
            self._seen += len(data)
            self._kept += data[: KEPT_BYTES - len(self._kept)]
        os.close(self._fd)
