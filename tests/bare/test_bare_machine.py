"""The two commands of the README in a Debian 12 that has nothing but python3: no pip, no venv, no git."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import needs

ROOT = Path(__file__).resolve().parent.parent.parent
CACHE = Path("/var/cache/kernelderby")
HOST_FILES = (   # how this machine reaches the network and its package index; nothing else of it is seen inside
    "/etc/pip.conf", "/etc/xdg/pip", "/root/.config/pip", "/etc/ssl/certs", "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates", "/etc/resolv.conf", "/etc/hosts",
)
PASSED_ON = ("PIP_", "SSL_", "REQUESTS_CA", "CURL_CA", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy",
             "no_proxy")
ENTER = """
set -e
root=$1; cache=$2; shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/root/.cache/pip" "$cache"
mount --bind "$cache" "$root/root/.cache/pip"
for path in $HOST_FILES; do
    [ -e "$path" ] || continue
    if [ -d "$path" ]; then mkdir -p "$root$path"; else mkdir -p "$root${path%/*}"; touch "$root$path"; fi
    mount --bind "$path" "$root$path"
done
cd "$root"
mkdir -p mnt/host
pivot_root . mnt/host      # not chroot: the kernel gives no user namespaces inside one, and the sandbox needs them
umount -l /mnt/host
exec "$@"
"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class BareMachine:
    """A Debian root with a copy of the checkout in /srv/derby."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *command: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        """Run a command there. Its mounts and whatever it leaves behind end with it: the first process of a namespace takes all along."""
        environment = [f"{k}={v}" for k, v in os.environ.items() if k.startswith(PASSED_ON)]
        inside = ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "HOME=/root", "LANG=C.UTF-8", *environment, *command]
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", str(self.root), str(CACHE / "pip")]
        seen = {"HOST_FILES": " ".join([*HOST_FILES, *_package_folders()])}
        return subprocess.run([*enter, *inside], env={**os.environ, **seen}, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              timeout=timeout_s)


@pytest.fixture(scope="module")
def machine() -> Iterator[BareMachine]:
    needs("debootstrap")
    root = CACHE / "bookworm"
    if not (root / "installed").is_file():
        _debootstrap(root)
    shutil.rmtree(root / "srv" / "derby", ignore_errors=True)
    _copy_checkout(root / "srv" / "derby")
    yield BareMachine(root)
    shutil.rmtree(root / "srv" / "derby")


def test_the_machine_is_bare(machine: BareMachine) -> None:
    for missing in ("import ensurepip", "import pip"):
        assert machine.run("python3", "-c", missing).returncode != 0
    for program in ("git", "curl", "gcc"):
        assert machine.run("sh", "-c", f"command -v {program}").returncode != 0


def test_up_once_judges_the_examples_and_leaves_nothing_running(machine: BareMachine) -> None:
    done = machine.run("sh", "-c", "cd / && /srv/derby/derby up --once --json; status=$?; sleep 0.2; "
                                   "echo $(ls -d /proc/[0-9]* | wc -l) >&2; exit $status")

    assert done.returncode == 0, done.stderr
    board = json.loads(done.stdout)["board"]
    assert {v["problem"] for v in board} >= {"vector_add", "row_softmax", "gqa_paged_decode"}
    assert {(v["outcome"], v["mode"]) for v in board} == {("accepted", "ranked")}
    assert "To download: about" in done.stderr.split("[2/4]")[0], "the size stands before the download begins"
    assert int(done.stderr.split()[-1]) <= 4   # this shell, its $( ), ls and wc


def test_a_second_start_sets_nothing_up(machine: BareMachine) -> None:
    done = machine.run("/srv/derby/derby", "problem", "--help")

    assert done.returncode == 0
    assert not done.stderr


def test_derby_test_runs_the_tests(machine: BareMachine) -> None:
    done = machine.run("/srv/derby/derby", "test", "tests/core", "-q")

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def _package_folders() -> list[str]:
    """Folders on this machine that pip is told to take packages from. The pages of an index name files beside it."""
    pip = next(ROOT.glob("vendor/pip-*.whl")) / "pip"
    said = subprocess.run([sys.executable, str(pip), "config", "list"], capture_output=True, text=True, check=True).stdout
    sources = "\n".join(line for line in said.splitlines() if "index-url" in line or "find-links" in line)
    folders = [Path(name.rstrip("/")) for name in re.findall(r"(?:(?<=file://)|(?<![\w:/]))/[^\s']+", sources)]
    return [str(folder.parent if folder.name == "simple" else folder) for folder in folders]


def _debootstrap(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    program = shutil.which("debootstrap", path="/usr/sbin:/sbin:/usr/bin")
    assert program
    subprocess.run([program, "--variant=minbase", "--include=python3", "bookworm", str(root), *_mirror()], check=True,
                   stdout=subprocess.DEVNULL)
    (root / "installed").touch()


def _mirror() -> list[str]:
    """The archive this machine's apt uses; none: debootstrap has its own."""
    for file in (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("debian*")):
        for line in file.read_text().splitlines() if file.is_file() else ():
            words = line.split()
            if words[:1] == ["URIs:"] or words[:1] == ["deb"]:
                return [next(w for w in words if "://" in w)]
    return []


def _copy_checkout(into: Path) -> None:
    """The files of the checkout as a clone has them: those that git knows or would."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name)
