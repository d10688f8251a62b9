"""What a sandbox can do here, found by trying: one small box attempts what it must not be able to do."""

import os
import select
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from kernelderby.core.errors import SandboxUnavailable
from kernelderby.judge.box.wire import Breach, Channel, Closed, Late
from kernelderby.judge.sandbox import probe_inside
from kernelderby.judge.sandbox.base import BoxLimits, Capabilities
from kernelderby.judge.sandbox.freezer import FreezeFailed, freezer_from
from kernelderby.judge.sandbox.process import ProcessBox, last_words

_LIMITS = BoxLimits(memory_bytes=64 * 1024 * 1024, processes=16)
_ANSWERS_WITHIN_S = 5.0
_STILL_S = 0.03
_INSTEAD = ", or use `--sandbox none` for your own file."
_FORBIDDEN = (      # a word of /proc/sys, the value that forbids user namespaces, whether root is meant too, what to do
    ("user/max_user_namespaces", "0", True, "This kernel allows no user namespaces: `sysctl user.max_user_namespaces=10000`"),
    ("kernel/unprivileged_userns_clone", "0", False, "User namespaces are for root alone: `sysctl kernel.unprivileged_userns_clone=1`"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", False,
     "AppArmor forbids user namespaces: `sysctl kernel.apparmor_restrict_unprivileged_userns=0`"),
)


class Probed(Protocol):
    """What the probe needs of a sandbox."""

    name: str
    has_walls: bool

    @property
    def own_uid(self) -> bool: ...

    def launch(self, program: Sequence[str], variables: Mapping[str, str]) -> ProcessBox: ...


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What the box could do."""

    reads: bool          # a file outside, of mode 0600
    network: bool
    freezes: bool
    forks: int
    held: int | None     # bytes it got; None: killed for asking


def probe(sandbox: Probed) -> Capabilities:
    """Start a box, let it try, and say what holds; takes well under 2 s."""
    try:
        with _bait() as bait:
            program = [sys.executable, "-I", "-S", "-c", Path(probe_inside.__file__).read_text(), *bait]
            box = sandbox.launch(program, {})
            try:
                found = _ask(box)
                return _judge(sandbox, box, found)
            finally:
                box.end()
    except SandboxUnavailable as error:
        return Capabilities(name=sandbox.name, works=False, missing=[f"{error.message} {_advice(error.message)}".strip()])


@contextmanager
def _bait() -> Iterator[list[str]]:
    """A file, a TCP listener and an abstract socket that a box must not reach: the probe's arguments."""
    name = f"derby-probe-{os.getpid()}"
    with tempfile.NamedTemporaryFile(prefix="derby-probe-") as file, socket.create_server(("127.0.0.1", 0)) as tcp, \
            socket.socket(socket.AF_UNIX) as local:
        file.write(b"secret")
        file.flush()
        local.bind(f"\0{name}")
        local.listen()
        yield [file.name, str(tcp.getsockname()[1]), name]


def _ask(box: ProcessBox) -> _Found:
    """Raises SandboxUnavailable when the box does not get to its first answer."""
    channel = Channel(box.wire)
    try:
        first, _ = channel.receive(_ANSWERS_WITHIN_S)
    except (Breach, Closed, Late):
        raise SandboxUnavailable(f"A box could not be started: {last_words(box)}") from None
    box.limit(_LIMITS)
    stays = _stays_frozen(box)
    wakes = "awake" in _answer(channel)
    forks = _answer(channel).get("forks", probe_inside.TRIES)
    box.wire.send(b"1")
    held = _answer(channel).get("held")
    return _Found(reads=first["reads"], network=first["network"], freezes=stays and wakes, forks=forks, held=held)


def _stays_frozen(box: ProcessBox) -> bool:
    """Frozen, it leaves the word that lets it go on unread."""
    freezer = freezer_from(box.freezer())
    try:
        freezer.freeze()
        box.wire.send(b"1")      # ask it to wake up
        return not select.select([box.wire], [], [], _STILL_S)[0]
    except FreezeFailed:
        return False
    finally:
        freezer.thaw()
        freezer.close()


def _answer(channel: Channel) -> dict[str, Any]:
    with suppress(Breach, Closed, Late):
        return channel.receive(_ANSWERS_WITHIN_S)[0]
    return {}


def _judge(sandbox: Probed, box: ProcessBox, found: _Found) -> Capabilities:
    memory, processes = box.limited_by()
    holds = not (found.network or found.reads)
    capabilities = Capabilities(
        name=sandbox.name, works=holds or not sandbox.has_walls, network=found.network, own_uid=sandbox.own_uid,
        memory_limit=memory if found.held is None or found.held < probe_inside.HOG_BYTES else "none",
        process_limit=processes if found.forks < probe_inside.TRIES else "none",
        freeze=box.freezer()["kind"] if found.freezes else "none",
    )
    return replace(capabilities, missing=list(_missing(sandbox, capabilities)))


def _missing(sandbox: Probed, can: Capabilities) -> Iterator[str]:
    if not can.works:
        yield "The walls do not hold: a box could read a file outside or reach the network. Judge on another machine."
    if not sandbox.has_walls:
        yield "A box has the rights of whoever starts it: network, files, other processes. Judge nobody's file but your own this way."
    if can.memory_limit in ("rlimit", "none"):
        limited = "limited by address space, not by use" if can.memory_limit == "rlimit" else "not limited"
        yield (f"Memory is {limited}, for no control group can be made here. "
               "Run as root, or under `systemd-run --user --scope -p Delegate=yes`.")
    if can.process_limit == "none":
        yield "Processes are not counted: a fork bomb slows the whole machine. Run as root with cgroups mounted, or as another user."
    if can.freeze == "sigstop":
        yield "There is no freezer cgroup: boxes are stopped by signals, which is slower."
    if can.freeze == "none":
        yield "Boxes cannot be stopped between calls, so times are not to be trusted. Mount a freezer cgroup."
    if os.geteuid() == 0 and sandbox.has_walls and not can.own_uid:
        yield (f"Boxes run as root's own uid, since other users may not read {sys.prefix} or {sys.base_prefix}, or do not exist here. "
               "Make them readable: `chmod -R o+rX`.")


def _advice(message: str) -> str:
    """What to do, from what the kernel says of itself."""
    for name, value, for_root, advice in _FORBIDDEN:
        if _kernel(name) == value and (for_root or os.geteuid()):
            return advice + _INSTEAD
    if any(word in message for word in ("namespace", "pivot_root", "mount")):
        return ("In a container: start it with `--security-opt seccomp=unconfined --security-opt systempaths=unconfined` as a user that is "
                "not root" + _INSTEAD)
    return ""


def _kernel(name: str) -> str:
    with suppress(OSError):
        return Path("/proc/sys", name).read_text().strip()
    return ""
