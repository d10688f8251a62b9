"""How boxes start and end, with and without walls."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelderby.core.errors import SandboxUnavailable
from kernelderby.judge.box.wire import Channel, Closed
from kernelderby.judge.sandbox.base import Death
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.freezer import descendants, freezer_from
from kernelderby.judge.sandbox.unsandboxed import Unsandboxed
from tests.judge.sandbox.boxes import LIMITS, hear, launch, own_groups, run
from tests.needs import needs

DEATHS = {
    "leaves": ("os._exit(0)", Death(exit_status=0)),
    "fails": ("os._exit(3)", Death(exit_status=3)),
    "raises": ("raise ValueError", Death(exit_status=1)),
    "segfaults": ("ctypes.string_at(0)", Death(signal=signal.SIGSEGV)),
    "aborts": ("os.abort()", Death(signal=signal.SIGABRT)),
    "kills itself": ("os.kill(os.getpid(), 9)", Death(signal=signal.SIGKILL)),
    "stays": ("tell(1)\nsignal.pause()", Death(signal=signal.SIGKILL, by_us=True)),
    "hangs up and stays": ("wire.close()\ntime.sleep(60)", Death(signal=signal.SIGKILL, by_us=True)),
}


@pytest.mark.parametrize("how", DEATHS)
def test_a_death_says_how(sandbox: Bubblewrap, how: str) -> None:
    code, expected = DEATHS[how]

    assert run(sandbox, code, limits=None).death == expected


@pytest.mark.parametrize("how", DEATHS)
def test_a_death_without_walls_says_how(how: str) -> None:
    code, expected = DEATHS[how]

    assert run(Unsandboxed(), code, limits=None).death == expected


@pytest.mark.parametrize("make", [Bubblewrap, Unsandboxed])
def test_the_harness_says_ready_and_leaves_when_asked(make: type[Bubblewrap] | type[Unsandboxed]) -> None:
    box = make().start("cpu")
    channel = Channel(box.wire)
    ready, _ = channel.receive(60)
    channel.send({"op": "end", "nonce": 1})
    with pytest.raises(Closed):
        channel.receive(30)

    assert ready["op"] == "ready" and set(ready["versions"]) == {"python", "torch", "triton"}
    assert box.end() == Death(exit_status=0)
    assert list(own_groups()) == []


def test_nothing_of_ours_but_the_harness_lies_in_a_box(best: Bubblewrap) -> None:
    code = f"""
sys.path[:0] = ["/derby", {str(Path(os.__file__).parent / "site-packages")!r}, *{[p for p in sys.path if "site-packages" in p]!r}]
import importlib
def found(name):
    try: return bool(importlib.import_module(name))
    except ImportError: return False
tell([name for name in ("judge.box.wire", "judge.sandbox", "judge.referee", "core", "storage", "cli") if found("kernelderby." + name)])"""

    assert run(best, code).answer == ["judge.box.wire"]


def test_a_box_that_died_and_was_frozen_after_still_says_how(sandbox: Bubblewrap) -> None:
    box = launch(sandbox, "ctypes.string_at(0)")
    assert hear(box) is None
    freezer = freezer_from(box.freezer())
    freezer.freeze()

    assert box.end() == Death(signal=signal.SIGSEGV)


def test_ending_twice_gives_the_same_death(best: Bubblewrap) -> None:
    box = launch(best, "signal.pause()")

    assert box.end() == box.end() == Death(signal=signal.SIGKILL, by_us=True)


def test_an_ended_box_leaves_no_descriptor_here(best: Bubblewrap) -> None:
    run(best, "tell(1)")
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run(best, "tell(1)")

    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_box_dies_with_its_maker() -> None:
    code = f"""
import sys, time
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from tests.judge.sandbox.boxes import hear, launch
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
box = launch(Bubblewrap(lambda: None), "tell(1)\\nsignal.pause()")
hear(box)
print(box.pid, flush=True)
time.sleep(60)"""
    maker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert maker.stdout
    outermost = int(maker.stdout.readline())
    family = [outermost, *descendants(outermost)]

    maker.kill()
    maker.wait()
    maker.stdout.close()
    deadline = time.monotonic() + 5
    while any(map(_runs, family)) and time.monotonic() < deadline:
        time.sleep(0.01)

    assert len(family) == 3 and not any(map(_runs, family))


def test_descriptors_travel_over_the_wire(best: Bubblewrap) -> None:
    code = """
data, fds, _, _ = socket.recv_fds(wire, 100, 1)
tell([data.decode(), os.pread(fds[0], 100, 0).decode()])"""
    box = launch(best, code)
    memory = os.memfd_create("source")
    os.write(memory, b"kernel")
    socket.send_fds(box.wire, [b"here"], [memory])
    os.close(memory)

    assert hear(box) == ["here", "kernel"]
    box.end()


def test_a_program_without_walls_is_frozen_limited_and_ended() -> None:
    needs("root")
    sandbox = Unsandboxed()
    box = launch(sandbox, "if os.fork() == 0:\n    os.setsid()\n    time.sleep(60)\ntell(1)\ntime.sleep(60)")
    assert hear(box) == 1
    box.limit(LIMITS)
    freezer = freezer_from(box.freezer())
    freezer.freeze()
    groups = list(own_groups())

    assert box.end().by_us
    assert groups and list(own_groups()) == []


def test_a_broken_bubblewrap_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelderby.judge.sandbox.bubblewrap._WALLS", ("--no-such-wall",))

    with pytest.raises(SandboxUnavailable, match="no-such-wall"):
        Bubblewrap().start("cpu")

    assert list(own_groups()) == []


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


