"""Becomes another program after changing what only a process itself can change. Standard library alone; run by path.

`python -I -S enter.py [group=PROCS_FILE] [limit=NAME:VALUE] [keep=FD] [uid=N] [parent_death=SIGNAL] -- PROGRAM ARGUMENT…`
Used twice for a box: outside the sandbox to join its cgroups and take its limits, inside to drop to its uid and shed descriptors.
"""

import ctypes
import os
import resource
import sys
from collections.abc import Callable
from contextlib import suppress

_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP = 1, 24
_LAST_CAPABILITY = 63      # dropping one the kernel does not know fails and harms nothing


def main(arguments: list[str]) -> None:
    """Take the steps in the order given, then exec. Raises OSError when a step is refused."""
    end = arguments.index("--")
    steps = [step.partition("=") for step in arguments[:end]]
    for name, _, value in steps:
        if name != "keep":
            STEPS[name](value)
    if kept := [int(value) for name, _, value in steps if name == "keep"]:
        _close_all_but(kept)
    os.execv(arguments[end + 1], arguments[end + 1 :])


def _join_group(procs_file: str) -> None:
    with open(procs_file, "w") as file:
        file.write("0")


def _limit(text: str) -> None:
    name, _, value = text.partition(":")
    resource.setrlimit(getattr(resource, name), (int(value), int(value)))


def _become(uid: str) -> None:
    prctl = ctypes.CDLL(None).prctl
    for capability in range(_LAST_CAPABILITY + 1):
        prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(int(uid), int(uid), int(uid))
    os.setresuid(int(uid), int(uid), int(uid))


def _die_with_parent(signal: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal), 0, 0, 0)


def _close_all_but(kept: list[int]) -> None:
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd not in kept:
            with suppress(OSError):      # the listing's own descriptor is closed by now
                os.close(fd)


STEPS: dict[str, Callable[[str], None]] = {
    "group": _join_group, "limit": _limit, "uid": _become, "parent_death": _die_with_parent,
}

if __name__ == "__main__":
    main(sys.argv[1:])
