"""What `derby doctor` asks about the machine itself."""

import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from kernelderby.cli.doctor import Check

_WITHOUT_JUDGE = "commands that talk to a server"


def run() -> Iterator[Check]:
    """Python, torch, Triton, compiler, GPU, user namespaces."""
    yield Check(part="Python", works=True, found=f"{platform.python_version()} at {sys.executable}")
    for library in ("torch", "triton"):
        yield _library(library)
    yield _user_namespaces()
    yield _compiler()
    yield _gpu()


def _library(name: str) -> Check:
    program = f"import {name}; print({name}.__version__)"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=120)
    if done.returncode == 0:
        return Check(part=name, works=True, found=done.stdout.strip())
    words = done.stderr.strip().splitlines()
    return Check(part=name, works=False, found=words[-1] if words else "does not import", still=_WITHOUT_JUDGE,
                 fix="run ./derby in the checkout again, or name a Python that has it: DERBY_PYTHON=/path/to/python ./derby doctor")


def _user_namespaces() -> Check:
    limit = Path("/proc/sys/user/max_user_namespaces")
    allowed = limit.is_file() and limit.read_text().strip() != "0"
    if allowed:
        return Check(part="user namespaces", works=True, found="allowed")
    return Check(part="user namespaces", works=False, found="this kernel allows none, and the sandbox is made of them",
                 fix="as root: sysctl user.max_user_namespaces=10000",
                 still=f"`derby judge --sandbox none` for your own files; {_WITHOUT_JUDGE}")


def _compiler() -> Check:
    found = shutil.which("cc") or shutil.which("gcc")
    if found:
        return Check(part="C compiler", works=True, found=found)
    return Check(part="C compiler", works=None, found="none", fix="apt-get install gcc libc6-dev, if your kernels need one",
                 still="PyTorch entries, Triton in its interpreter, compile reports")


def _gpu() -> Check:
    version = Path("/proc/driver/nvidia/version")
    if version.is_file():
        return Check(part="GPU", works=True, found=version.read_text().splitlines()[0])
    return Check(part="GPU", works=None, found="none", still="the class cpu, and compile reports for H200 and B200")
