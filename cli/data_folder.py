"""The data folder of a platform on one machine: fit to hold a database, owned by one `derby up`, with its local organizer."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from kernelderby.core.devices import DeviceClass
from kernelderby.core.errors import SetupError
from kernelderby.core.problem import public_cases
from kernelderby.core.problem_folder import Problem, archive, load_problem, problem_folders
from kernelderby.core.settings import Settings
from kernelderby.storage import people, problems
from kernelderby.storage.artifacts import ArtifactStore
from kernelderby.storage.database import Database
from kernelderby.storage.problems import ProblemInfo

NETWORK_FILESYSTEMS = ("9p", "nfs", "nfs4", "cifs", "smb3", "smbfs", "drvfs", "vboxsf", "fuse.sshfs", "ceph", "glusterfs")


class AlreadyRunning(SetupError):
    """Another `derby up` runs on this data folder."""


@contextmanager
def owned(data: Path) -> Iterator[None]:
    """The folder, made if need be and locked for this process. Raises SetupError, AlreadyRunning."""
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        kind = filesystem(data)
        if kind in NETWORK_FILESYSTEMS:
            raise SetupError(f"{data.absolute()} lies on a {kind} file system, where a database and its locks are not safe. "
                             "Name a folder on a local disk: DERBY_DATA=/var/tmp/derby ./derby up")
        with FileLock(data / "lock", timeout=0):
            yield
    except Timeout:
        raise AlreadyRunning from None
    except OSError as error:
        raise SetupError(f"The data folder {data.absolute()} cannot be used: {error.strerror}. Name another one with DERBY_DATA.") from None


def filesystem(path: Path) -> str:
    """The kind of file system a path lies on."""
    mounts = {m.mountpoint: m.fstype for m in psutil.disk_partitions(all=True)}
    return next((mounts[str(p)] for p in (path.absolute().resolve(), *path.absolute().resolve().parents) if str(p) in mounts), "unknown")


def add_problems(settings: Settings, database: Database, classes: Sequence[DeviceClass]) -> list[str]:
    """Add every problem under the setting `problems`, with boards for `classes`; what is there already stays as it is. All names."""
    found = [load_problem(folder) for folder in problem_folders(settings.problems)]
    with database.read() as session:
        known = {(p.name, p.version, p.gate_set): set(p.devices) for p in problems.listing(session)}
    for problem in found:
        there = known.get((problem.name, problem.version, problem.gate_set))
        if there is None or not there.issuperset(_playable(problem, classes)):
            add_problem(settings, database, problem, classes)
    return [p.name for p in found]


def add_problem(settings: Settings, database: Database, problem: Problem, classes: Sequence[DeviceClass]) -> ProblemInfo:
    """Make this the current version of a problem, with boards for those of `classes` that it has cases for, beside those it has."""
    key = ArtifactStore(settings.artifacts).put(archive(problem))
    with database.begin() as session:
        return problems.add(session, problem, key, _playable(problem, classes))


def add_closed_problem(settings: Settings, database: Database, problem: Problem, classes: Sequence[DeviceClass]) -> ProblemInfo:
    """The same with its practice boards closed from the first moment, as a contest needs it that keeps it secret until its start."""
    key = ArtifactStore(settings.artifacts).put(archive(problem))
    with database.begin() as session:
        problems.add(session, problem, key, _playable(problem, classes))
        return problems.keep_secret(session, problem.name)


def _playable(problem: Problem, classes: Sequence[DeviceClass]) -> list[str]:
    return [d.name for d in classes if public_cases(problem.spec, d)]


def local_token(settings: Settings, database: Database) -> str:
    """The local organizer's token, kept in the data folder for its owner alone."""
    path = settings.token_file
    with database.begin() as session:
        if path.is_file() and people.by_token(session, path.read_text().strip()):
            return path.read_text().strip()
        token = people.new_token(session, people.local_organizer(session).id, "this machine")
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
        f.write(token + "\n")
    return token


def login_link(settings: Settings, database: Database) -> str:
    """A link that logs one browser in as the local organizer, once."""
    with database.begin() as session:
        code = people.new_login_code(session, people.local_organizer(session).id)
    return settings.address(f"/login?code={code}")
