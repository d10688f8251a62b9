"""Runs inside a box while the sandbox is tried: answers on the wire what it could do. Standard library alone; its text is sent along."""

import json
import os
import signal
import socket
import sys
from contextlib import suppress

TRIES = 64
HOG_BYTES = 256 * 1024 * 1024


def main(planted: str, port: int, name: str, wire: socket.socket) -> None:
    """Answer, then wait for a word before each thing that needs a limit or a freezer; the last one is not survived."""
    tell(wire, reads=can_read(planted), network=reaches(socket.AF_INET, ("127.0.0.1", port)) or reaches(socket.AF_UNIX, "\0" + name))
    wire.recv(1)
    tell(wire, awake=True)
    tell(wire, forks=count_forks())
    wire.recv(1)
    hog = bytearray()
    with suppress(MemoryError):
        while len(hog) < HOG_BYTES:
            hog += b"x" * (4 * 1024 * 1024)
    tell(wire, held=len(hog))


def tell(wire: socket.socket, **answer: object) -> None:
    wire.sendall(json.dumps(answer).encode() + b"\n")


def can_read(path: str) -> bool:
    with suppress(OSError), open(path) as file:
        return bool(file.read())
    return False


def reaches(family: int, address: tuple[str, int] | str) -> bool:
    with suppress(OSError), socket.socket(family) as peer:
        peer.settimeout(0.2)
        peer.connect(address)
        return True
    return False


def count_forks() -> int:
    children: list[int] = []
    with suppress(OSError):
        while len(children) < TRIES:
            pid = os.fork()
            if pid == 0:
                signal.pause()
            children.append(pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return len(children)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], socket.socket(fileno=int(sys.argv[4])))
