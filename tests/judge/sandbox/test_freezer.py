"""Frozen means that no thread of a box uses the processor, whichever way it is done."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from kernelderby.judge.sandbox.cgroup_v2 import HierarchyV2
from kernelderby.judge.sandbox.freezer import FreezeFailed, Freezer, descendants, freezer_from
from kernelderby.judge.sandbox.process import ProcessBox
from tests.judge.sandbox.boxes import hear, launch
from tests.needs import needs

BUSY = """
import subprocess, threading
def spin():
    while True: pass
for child in range(2):
    if os.fork() == 0:
        os.setsid()
        threading.Thread(target=spin).start()
        spin()
tell("busy")
while True: subprocess.run(["/usr/bin/true"])"""
DODGING = """
import threading
signal.signal(signal.SIGCONT, signal.SIG_IGN)
tell("busy")
while True:
    if os.fork(): os._exit(0)      # never the same process twice"""
RELAYING = """
pids = []
for child in range(3):
    pids.append(os.fork())
    if pids[-1] == 0: break
else:
    tell("busy")
    while True: time.sleep(1)
time.sleep(0.2)
others = [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) > 2 and int(p) != os.getpid()]
kill, me = ctypes.CDLL(None).kill, os.getpid()
while True:
    for pid in others: kill(pid, signal.SIGCONT)      # each wakes the others before it lies down itself
    kill(me, signal.SIGSTOP)"""
LEAVE_NS = 200_000      # a process counts as frozen when it can run none of its own code, a moment before the scheduler lets it go
UNIFIED = next((path for path in map(Path, ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")) if (path / "cgroup.procs").exists()), None)


SANDBOXES: dict[str, Callable[[], Bubblewrap]] = {
    "group": Bubblewrap,
    "unified": lambda: Bubblewrap(lambda: HierarchyV2(UNIFIED, UNIFIED) if UNIFIED else None),
    "signals": lambda: Bubblewrap(lambda: None),
}


@pytest.fixture(params=SANDBOXES)
def sandbox(request: pytest.FixtureRequest) -> Bubblewrap:
    """One for each way of freezing."""
    if request.param != "signals":
        needs("root")
    return SANDBOXES[request.param]()


@pytest.fixture
def busy(sandbox: Bubblewrap) -> Iterator[ProcessBox]:
    """A box whose processes work as hard as they can."""
    box = launch(sandbox, BUSY)
    assert hear(box) == "busy"
    yield box
    box.end()


def test_each_way_of_freezing_is_what_it_says() -> None:
    needs("root")
    kinds = {}
    for name, make in SANDBOXES.items():
        box = launch(make(), "signal.pause()")
        kinds[name] = box.freezer()["kind"]
        box.end()

    assert kinds["group"] in ("cgroup_v1", "cgroup_v2")
    assert (kinds["unified"], kinds["signals"]) == ("cgroup_v2", "sigstop")


def test_a_frozen_box_uses_no_processor_time_until_it_is_thawed(busy: ProcessBox) -> None:
    freezer = freezer_from(busy.freezer())
    for _ in range(5):
        freezer.freeze()
        before = _processor_ns(busy)
        time.sleep(0.1)
        assert _processor_ns(busy) - before < LEAVE_NS
        freezer.thaw()
    time.sleep(0.1)

    assert _processor_ns(busy) > before
    freezer.close()


def test_a_frozen_box_can_be_ended(busy: ProcessBox) -> None:
    freezer_from(busy.freezer()).freeze()
    started = time.monotonic()

    death = busy.end()

    assert death.by_us
    assert time.monotonic() - started < 1.0


def test_a_freezer_outlives_its_box(busy: ProcessBox) -> None:
    freezer = freezer_from(busy.freezer())
    busy.end()

    freezer.freeze()
    freezer.thaw()
    freezer.close()


@pytest.mark.parametrize(("program", "times"), [(DODGING, 3), (RELAYING, 40)], ids=["into new processes", "by waking each other"])
def test_a_box_that_flees_is_stopped_or_reported(sandbox: Bubblewrap, program: str, times: int) -> None:
    box = launch(sandbox, program)
    assert hear(box) == "busy"
    time.sleep(0.3)
    data = box.freezer()
    freezer = freezer_from(data)
    try:
        for _ in range(times):
            _freeze_and_look(freezer, box)
    except FreezeFailed:
        assert data["kind"] == "sigstop"      # a group cannot be fled
    finally:
        box.end()


def _freeze_and_look(freezer: Freezer, box: ProcessBox) -> None:
    freezer.freeze()
    family, before = list(descendants(box.pid)), _processor_ns(box)
    time.sleep(0.05)
    assert list(descendants(box.pid)) == family
    assert _processor_ns(box) - before < LEAVE_NS
    freezer.thaw()


def _processor_ns(box: ProcessBox) -> int:
    """User and system time of every thread in the box."""
    total = 0
    for pid in descendants(box.pid):
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with suppress(OSError):
                total += int(thread.read_text().split()[0])
    return total
