"""The wire between two processes: JSON lines over a Unix stream socket, with descriptors beside a line where needed.

Used on both sides of the trust line, so the reader trusts nothing: lines have a size limit, numbers are finite, and whatever
cannot be read is a `Breach`, which the caller turns into an outcome.
"""

import fcntl
import json
import os
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

LIMIT_BYTES = 64 * 1024
TRUSTED_LIMIT_BYTES = 8 * 1024 * 1024     # between worker and referee: a verdict holds every block's times
_MOST_FDS = 8             # beside one line; a peer may not fill our table of descriptors
_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Breach(Exception):
    """The peer said something the wire does not allow."""


class Closed(Exception):
    """The peer is gone."""


class Late(Exception):
    """The peer did not answer by the deadline."""


class Channel:
    """One end of the wire. Not thread-safe; owns its socket."""

    def __init__(self, sock: socket.socket, limit_bytes: int = LIMIT_BYTES) -> None:
        self._sock = sock
        self._limit = limit_bytes
        self._buffer = bytearray()
        self._fds: list[tuple[int, int]] = []      # how many lines come before the one a descriptor belongs to, and the descriptor
        sock.setblocking(False)

    def fileno(self) -> int:
        """The socket's descriptor, for polling."""
        return self._sock.fileno()

    def send(self, message: Mapping[str, Any], fds: Sequence[int] = (), timeout_s: float = 30.0) -> None:
        """One line, with `fds` beside its first byte. Raises Closed; Late when the peer does not read."""
        data = json.dumps(message, allow_nan=False).encode() + b"\n"
        deadline = time.monotonic() + timeout_s
        pending = list(fds)
        while data:
            if not _ready(self._sock, select.POLLOUT, deadline):
                raise Late
            try:
                sent = socket.send_fds(self._sock, [data], pending) if pending else self._sock.send(data)
            except BlockingIOError:
                continue
            except OSError:
                raise Closed from None
            data, pending = data[sent:], []

    def receive(self, timeout_s: float) -> tuple[dict[str, Any], list[int]]:
        """The next line and the descriptors that came with it (the caller closes them). Raises Breach, Closed, Late."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            if len(self._buffer) > self._limit:
                raise Breach("a line on the wire was too long")
            if not _ready(self._sock, select.POLLIN, deadline):
                raise Late
            self._read()
        line, _, rest = self._buffer.partition(b"\n")
        if len(line) > self._limit:
            raise Breach("a line on the wire was too long")
        self._buffer = bytearray(rest)
        fds = [fd for before, fd in self._fds if before == 0]
        self._fds = [(before - 1, fd) for before, fd in self._fds if before > 0]
        return parse(bytes(line)), fds

    def pending(self) -> bool:
        """Whether something was received and not asked for, or the peer is gone: both end a quiet wait."""
        return bool(self._buffer) or bool(_ready(self._sock, select.POLLIN, 0.0))

    def close(self) -> None:
        """Close the socket and any descriptors nobody took."""
        for _, fd in self._fds:
            os.close(fd)
        self._fds = []
        self._sock.close()

    def _read(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._sock, self._limit + 1, _MOST_FDS)
        except BlockingIOError:
            return
        except OSError:
            raise Closed from None
        self._buffer += data
        # One read may bring a whole line without descriptors and then the start of one with them, where it stops.
        before = self._buffer[:-1].count(b"\n")
        self._fds += [(before, fd) for fd in fds]
        if len(self._fds) > _MOST_FDS:
            raise Breach("too many descriptors came on the wire")
        if not data:
            raise Closed


def parse(line: bytes) -> dict[str, Any]:
    """The object on one line. Raises Breach for anything but a flat-enough object of finite numbers and text."""
    try:
        message = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Breach("a line on the wire was not JSON") from error
    if not isinstance(message, dict):
        raise Breach("a line on the wire was not an object")
    return message


def sealed_file(data: bytes) -> int:
    """A file in memory that holds `data` and never changes, to send beside a line. The caller closes it."""
    fd = os.memfd_create("data", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    return fd


@contextmanager
def sealed_files(*contents: bytes) -> Iterator[list[int]]:
    """Such a file for each of these, for as long as the block runs."""
    with ExitStack() as stack:
        fds = []
        for content in contents:
            fds.append(sealed_file(content))
            stack.callback(os.close, fds[-1])
        yield fds


def number(message: Mapping[str, Any], key: str, low: float, high: float) -> float:
    """A finite number of `message` in [low, high]. Raises Breach."""
    value = message.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:     # false of NaN as well
        raise Breach(f"{key} was not a number from {low} to {high}")
    return float(value)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a finite number")


def _ready(sock: socket.socket, event: int, deadline: float) -> bool:
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(max(0.0, (deadline - time.monotonic()) * 1000)))
