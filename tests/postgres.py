"""A PostgreSQL server of our own for the tests: in a folder of its own, on a unix socket, ended by its process id."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.needs import needs, postgresql_bin

_OWNER = "postgres"
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")   # nothing of a test outlives it


@contextmanager
def cluster(options: tuple[str, ...] = _QUICK) -> Iterator[str]:
    """A running server; yields the folder of its socket. Needs PostgreSQL's programs, and as root the user `postgres`."""
    needs("postgresql")
    programs = postgresql_bin()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="derby-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, _OWNER, _OWNER)
    try:
        _as_owner(str(programs / "initdb"), "-D", f"{folder}/data", "-U", _OWNER, "-A", "trust", "-E", "UTF8", "--no-sync")
        with _serving(programs, folder, options):
            yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(socket_folder: str, name: str, template: str = "template1") -> str:
    """A new database on that server; its SQLAlchemy address."""
    with psycopg.connect(f"host={socket_folder} user={_OWNER} dbname=postgres", autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    return address(socket_folder, name)


def address(socket_folder: str, name: str) -> str:
    """The SQLAlchemy address of a database on that server."""
    return f"postgresql+psycopg://{_OWNER}@/{name}?host={socket_folder}"


@contextmanager
def _serving(programs: Path, folder: Path, options: tuple[str, ...]) -> Iterator[None]:
    arguments = [str(programs / "postgres"), "-D", f"{folder}/data", "-k", str(folder), "-h", ""]
    for option in (*options, "max_connections=200"):
        arguments += ["-c", option]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(_command(arguments), stdout=log, stderr=log)
    try:
        _wait_until_up(folder)
        yield
    finally:
        os.kill(int((folder / "data/postmaster.pid").read_text().split()[0]), signal.SIGINT)   # fast shutdown
        process.wait(30)


def _wait_until_up(folder: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(f"host={folder} user={_OWNER} dbname=postgres").close()
            return
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise RuntimeError((folder / "log").read_text()) from None
            time.sleep(0.05)


def _as_owner(*arguments: str) -> None:
    done = subprocess.run(_command(list(arguments)), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)


def _command(arguments: list[str]) -> list[str]:
    return ["runuser", "-u", _OWNER, "--", *arguments] if os.geteuid() == 0 else arguments
