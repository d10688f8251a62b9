"""What a box may use, and what ends it when it wants more."""

import pytest

from kernelderby.judge.sandbox.base import BoxLimits
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from tests.judge.sandbox.boxes import LIMITS, MIB, hear, launch, living_in, own_groups, process_namespace, run


def test_limits_cannot_be_raised(sandbox: Bubblewrap) -> None:
    code = """
import resource as r
tell([refusal(r.setrlimit, limit, (1 << 40, 1 << 40)) for limit in (r.RLIMIT_CORE, r.RLIMIT_NOFILE, r.RLIMIT_FSIZE)])"""

    assert None not in run(sandbox, code).answer


def test_a_fork_bomb_is_stopped(best: Bubblewrap) -> None:
    code = """
tell("started")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try: os.fork()
    except OSError: pass"""
    box = launch(best, "wire.recv(1)\n" + code)
    box.limit(LIMITS)
    namespace = process_namespace(box)
    box.wire.send(b"1")
    hear(box)

    assert len(living_in(namespace)) <= LIMITS.processes
    box.end()

    assert living_in(namespace) == []
    assert list(own_groups()) == []


def test_forks_are_counted_without_a_group() -> None:
    code = """
children = 0
try:
    while children < 200:
        if os.fork() == 0: signal.pause()
        children += 1
except OSError:
    pass
tell(children)"""

    assert run(Bubblewrap(lambda: None), code).answer < LIMITS.processes


@pytest.mark.parametrize("hog", [
    "held = []\nwhile True: held.append(b'x' * (1 << 22))",
    "import mmap\nheld = [mmap.mmap(-1, 1 << 30)]\nfor i in range(0, 1 << 30, 4096): held[0][i] = 1",
    "fd = os.memfd_create('x')\nwhile True: os.write(fd, b'x' * (1 << 22))",
], ids=["heap", "mmap", "memfd"])
def test_a_memory_hog_is_killed_and_told_apart(best: Bubblewrap, hog: str) -> None:
    death = run(best, f"{hog}\ntell('survived')", limits=BoxLimits(memory_bytes=64 * MIB)).death

    assert death.oom_killed
    assert death.signal == 9


def test_address_space_is_limited_without_a_group() -> None:
    code = """
held = 0
try:
    block = []
    while True: block.append(b"x" * (1 << 22)); held += 1 << 22
except MemoryError:
    del block
    tell(held)"""

    assert run(Bubblewrap(lambda: None), code).answer <= LIMITS.memory_bytes


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_files_cannot_fill_the_machine(sandbox: Bubblewrap, folder: str) -> None:
    code = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
written, block = 0, b"x" * (1 << 22)
try:
    for name in range(8):
        with open(f"{sys.argv[1]}/{name}", "wb", buffering=0) as file:
            for _ in range(40): written += file.write(block)
except OSError as error:
    tell([errno.errorcode[error.errno], written])"""

    reason, written = run(sandbox, code, folder, limits=BoxLimits(memory_bytes=2048 * MIB)).answer

    assert reason in ("ENOSPC", "EFBIG")
    assert written <= BoxLimits.file_bytes
