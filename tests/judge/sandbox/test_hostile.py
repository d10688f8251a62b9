"""What hostile programs try, and what they get. A case is a line of data; every one runs in a real box."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelderby.judge.sandbox import harness
from kernelderby.judge.sandbox.bubblewrap import Bubblewrap
from tests.judge.sandbox.boxes import hear, launch, living_in, own_groups, process_namespace, run

SYSTEM_CALLS = {      # what is tried: number and arguments, what it must get
    "ptrace": ((101, 16, 1, 0, 0), "EPERM"),
    "process_vm_readv": ((310, 1, 0, 0, 0, 0, 0), "EPERM"),
    "pidfd_getfd": ((438, 0, 0, 0), "EPERM"),
    "unshare a user namespace": ((272, 0x10000000), "EPERM"),
    "unshare a mount namespace": ((272, 0x00020000), "EPERM"),
    "clone a user namespace": ((56, 0x10000000 | 17, 0, 0, 0, 0), "EPERM"),
    "clone3": ((435, 0, 0), "ENOSYS"),
    "setns": ((308, 0, 0), "EPERM"),
    "mount": ((165, 0, 0, 0, 0, 0), "EPERM"),
    "umount2": ((166, 0, 2), "EPERM"),
    "fsopen": ((430, 0, 0), "EPERM"),
    "pivot_root": ((155, 0, 0), "EPERM"),
    "chroot": ((161, 0), "EPERM"),
    "bpf": ((321, 0, 0, 0), "EPERM"),
    "io_uring_setup": ((425, 8, 0), "EPERM"),
    "keyctl": ((250, 0, 0, 0), "EPERM"),
    "add_key": ((248, 0, 0, 0, 0, 0), "EPERM"),
    "perf_event_open": ((298, 0, 0, 0, 0, 0), "EPERM"),
    "userfaultfd": ((323, 0), "EPERM"),
    "kexec_load": ((246, 0, 0, 0, 0), "EPERM"),
    "init_module": ((175, 0, 0, 0), "EPERM"),
    "reboot": ((169, 0, 0, 0, 0), "EPERM"),
    "clock_settime": ((227, 0, 0), "EPERM"),
    "open_by_handle_at": ((304, 0, 0, 0), "EPERM"),
    "mknod": ((133, 0, 0o600, 0), "EPERM"),
    "type into the terminal": ((16, 0, 0x5412, 0), "EPERM"),
    "an x32 call": ((0x40000000 + 39,), "ENOSYS"),
    "an internet socket": ((41, 2, 1, 0), "EACCES"),
    "a netlink socket": ((41, 16, 3, 0), "EACCES"),
    "a packet socket": ((41, 17, 3, 0), "EACCES"),
}
REFUSED_TO_WRITE = [
    "/x", "/usr/x", "/usr/bin/x", "/etc/x", "/etc/passwd", "/derby/x", "/derby/enter.py", "/derby/kernelderby/judge/box/wire.py", "/root/x",
    "/dev/x", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches",
    "/proc/sys/fs/suid_dumpable", "/proc/irq/default_smp_affinity", "/sys/devices/system/cpu/cpu0/online",
    f"{sys.prefix}/x", f"{sys.base_prefix}/x", os.__file__,
]
REFUSED_TO_READ = [
    "/etc/shadow", "/etc/hostname", "/etc/hosts", "/home", "/var", "/run", "/boot", "/mnt", "/sys/fs/cgroup", "/proc/kcore",
    "/proc/kmsg", "/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/disk",
]


@pytest.fixture
def witness() -> Iterator[int]:
    """A process outside that must survive."""
    process = subprocess.Popen(["sleep", "60"])
    yield process.pid
    assert process.poll() is None, "a box reached a process outside"
    process.kill()
    process.wait()


def test_forbidden_system_calls_are_refused(sandbox: Bubblewrap) -> None:
    tried = {name: arguments for name, (arguments, _) in SYSTEM_CALLS.items()}

    answer = run(sandbox, f"tell({{name: refusal(call, *arguments) for name, arguments in {tried!r}.items()}})").answer

    assert answer == {name: expected for name, (_, expected) in SYSTEM_CALLS.items()}


def test_nothing_outside_tmp_can_be_written(sandbox: Bubblewrap) -> None:
    code = f"""
def attempt(path): os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
tell({{path: refusal(attempt, path) for path in {[*REFUSED_TO_WRITE, "/tmp/x", "/dev/shm/x"]!r}}})"""

    answer = run(sandbox, code).answer

    assert {path for path, refusal in answer.items() if refusal is None} == {"/tmp/x", "/dev/shm/x"}
    assert set(answer.values()) <= {None, "EROFS", "EACCES", "ENOENT", "EPERM"}


def test_nothing_of_the_host_can_be_read(sandbox: Bubblewrap) -> None:
    code = f"""
def attempt(path): os.listdir(path) if os.path.isdir(path) else os.open(path, os.O_RDONLY)
tell({{path: refusal(attempt, path) for path in {REFUSED_TO_READ!r}}})"""

    answer = run(sandbox, code).answer

    assert [path for path, refusal in answer.items() if refusal is None] == []


def test_a_planted_secret_stays_secret(sandbox: Bubblewrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = tmp_path / "secret"
    planted.write_text("topsecret")
    planted.chmod(0o600)
    monkeypatch.setenv("DERBY_SECRET", "topsecret")
    code = """
import glob
def reads(path):
    try: return b"top" + b"secret" in open(path, "rb").read()      # in two, since this code stands in a command line itself
    except OSError: return False
tell(list(filter(reads, [sys.argv[1], *glob.glob("/proc/[0-9]*/environ"), *glob.glob("/proc/[0-9]*/cmdline")])))"""

    assert run(sandbox, code, str(planted)).answer == []


def test_a_private_file_among_the_libraries_needs_the_right_uid(best: Bubblewrap) -> None:
    planted = Path(sys.prefix) / f"derby-test-{os.getpid()}"
    planted.touch(0o600)
    try:
        assert run(best, "tell(refusal(open, sys.argv[1]))", str(planted)).answer == "EACCES"
    finally:
        planted.unlink()


def test_the_first_process_of_a_box_is_closed_to_it(best: Bubblewrap) -> None:
    answer = run(best, "tell([refusal(open, '/proc/1/' + name) for name in ('mem', 'environ', 'maps')])").answer

    assert answer == ["EACCES"] * 3


def test_the_network_cannot_be_reached(sandbox: Bubblewrap) -> None:
    name = f"derby-test-{os.getpid()}"
    code = """
def connect(family, address): socket.socket(family).connect(address)
tell([refusal(connect, socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))), refusal(connect, socket.AF_UNIX, "\\0" + sys.argv[2])])"""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        local.bind("\0" + name)
        local.listen()

        answer = run(sandbox, code, str(tcp.getsockname()[1]), name).answer

    assert answer == ["EACCES", "ECONNREFUSED"]


def test_processes_outside_cannot_be_reached(sandbox: Bubblewrap, witness: int) -> None:
    code = f"""
answer = [refusal(os.kill, {witness}, 9), refusal(os.kill, 1, 9)]
refusal(os.kill, -1, 9)
time.sleep(0.05)
tell([*answer, len([name for name in os.listdir("/proc") if name.isdigit()])])"""

    outside, first, living = run(sandbox, code).answer

    assert outside == "ESRCH"
    assert first in ("EPERM", None)      # PID 1 ignores signals from inside its namespace
    assert living == 2


def test_a_box_inherits_its_wire_and_log_alone(sandbox: Bubblewrap) -> None:
    code = """
fds = {}
for fd in os.listdir("/proc/self/fd"):
    try: fds[fd] = os.readlink("/proc/self/fd/" + fd).partition(":")[0]
    except OSError: pass
tell([sorted(fds.values()), fds[sys.argv[-1]]])"""
    leak = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(leak, True)

    kinds, wire = run(sandbox, code).answer

    os.close(leak)
    assert kinds == ["/dev/null", "pipe", "pipe", "socket"]
    assert wire == "socket"


def test_the_environment_holds_what_we_put_there(sandbox: Bubblewrap) -> None:
    given = harness.environment("cpu", home="/tmp", python_path=["/derby"])

    answer = run(sandbox, "tell(dict(os.environ))", environment=given).answer

    assert answer == {**given, "PWD": "/tmp"}


def test_devices_are_the_harmless_ones(sandbox: Bubblewrap) -> None:
    answer = run(sandbox, "tell(sorted(os.listdir('/dev')))").answer

    assert answer == ["core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"]


def test_privileges_are_gone(sandbox: Bubblewrap) -> None:
    code = """
lines = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
tell({key: lines[key].split()[0] for key in ("Uid", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")})"""

    answer = run(sandbox, code).answer

    none = "0" * 16
    assert answer == {"Uid": "65534", "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none, "NoNewPrivs": "1", "Seccomp": "2"}


def test_set_uid_programs_give_nothing(sandbox: Bubblewrap) -> None:
    programs = [str(path) for path in Path("/usr/bin").iterdir() if path.is_file() and path.stat().st_mode & stat.S_ISUID]

    options = run(sandbox, "tell([line.split()[5] for line in open('/proc/self/mountinfo') if line.split()[4] == '/usr/bin'])").answer

    assert programs and "nosuid" in options[0]


def test_programs_in_tmp_can_run(sandbox: Bubblewrap) -> None:
    code = """
import shutil
shutil.copy("/usr/bin/true", "/tmp/true")
tell(os.spawnv(os.P_WAIT, "/tmp/true", ["true"]))"""

    assert run(sandbox, code).answer == 0


def test_endless_output_ends_with_the_box(sandbox: Bubblewrap) -> None:
    outcome = run(sandbox, "tell('started')\nwhile True: os.write(1, b'x' * 65536)")

    assert outcome.answer == "started"
    assert outcome.death.by_us


STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True: time.sleep(0.01)
        {parent}
time.sleep(0.05)
tell("started")
{last}"""


@pytest.mark.parametrize(("parent", "last"), [
    ("signal.pause()", "signal.pause()"),      # whole families in sessions of their own
    ("os._exit(0)", "signal.pause()"),         # daemons, whose parents are gone
    ("os._exit(0)", "os._exit(0)"),            # daemons that outlive the program
], ids=["sessions", "daemons", "left behind"])
def test_no_child_outlives_its_box(sandbox: Bubblewrap, parent: str, last: str) -> None:
    box = launch(sandbox, STUBBORN.format(parent=parent, last=last))
    namespace = process_namespace(box)
    assert hear(box) == "started"

    box.end()

    assert living_in(namespace) == []
    assert list(own_groups()) == []
