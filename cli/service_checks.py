"""What `derby doctor` asks about the data folder and the services."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from kombu.connection import Connection
from kombu.exceptions import KombuError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from kernelderby.cli.data_folder import NETWORK_FILESYSTEMS, filesystem
from kernelderby.cli.doctor import Check
from kernelderby.cli.keys import is_loopback, server_of
from kernelderby.cli.server import Server
from kernelderby.cli.services import broker_program, choose_port
from kernelderby.core.errors import DerbyError, SetupError
from kernelderby.core.settings import Settings
from kernelderby.storage import runners
from kernelderby.storage.database import connect

_ENOUGH_MB = 1024


def run(settings: Settings) -> Iterator[Check]:
    """Data folder, disk, database, broker, port, server."""
    yield _data_folder(settings.data.absolute())
    yield _disk(settings.data.absolute())
    database = _database(settings)
    yield database
    if database.works:
        yield from _runners(settings)
    yield _broker(settings)
    yield from _server(settings)


def _data_folder(data: Path) -> Check:
    kind = filesystem(data)
    if kind in NETWORK_FILESYSTEMS:
        return Check(part="data folder", works=False, found=f"{data} lies on {kind}, where a database is not safe",
                     fix="name a folder on a local disk with DERBY_DATA", still="`derby judge`, and commands that talk to a server")
    return Check(part="data folder", works=True, found=f"{data} on {kind}{'' if data.is_dir() else ' (made by the first `derby up`)'}")


def _disk(data: Path) -> Check:
    there = next(p for p in (data, *data.parents) if p.is_dir())
    free_mb = shutil.disk_usage(there).free // 2**20
    if free_mb < _ENOUGH_MB:
        return Check(part="disk", works=False, found=f"{free_mb} MB free at {there}", fix=f"make room: at least {_ENOUGH_MB} MB")
    return Check(part="disk", works=True, found=f"{free_mb:,} MB free")


def _database(settings: Settings) -> Check:
    kind, _, place = settings.database.partition(":")
    if kind == "sqlite" and not Path(place.removeprefix("///")).exists():
        return Check(part="database", works=None, found="none yet", fix="the first `derby up` makes it", still="`derby judge`")
    database = connect(settings.database)
    try:
        with database.read() as session:
            session.execute(text("SELECT 1"))
    except SQLAlchemyError as error:
        return Check(part="database", works=False, found=f"{kind} does not answer: {str(error).splitlines()[0]}",
                     fix="check DERBY_DATABASE_URL", still="`derby judge`")
    finally:
        database.close()
    return Check(part="database", works=True, found=kind)


def _runners(settings: Settings) -> Iterator[Check]:
    """The workers that were seen lately and judge nothing more."""
    database = connect(settings.database)
    try:
        with database.read() as session:
            seen = runners.alive(session, datetime.now(UTC))
    except SQLAlchemyError:      # said already
        return
    finally:
        database.close()
    for runner in seen:
        if fault := runner.environment.get("fault"):
            yield Check(part="runner", works=False, found=f"{runner.name} claims nothing more", fix=fault, still="the other runners")


def _broker(settings: Settings) -> Check:
    if not settings.broker_url:
        try:
            return Check(part="broker", works=True, found=f"bundled with `derby up`: {broker_program()}")
        except SetupError as error:
            return Check(part="broker", works=False, found=error.message, still="workers look for work every 5 s by themselves")
    try:
        with Connection(settings.broker_url, connect_timeout=2) as connection:   # type: ignore[no-untyped-call]
            connection.ensure_connection(max_retries=1, timeout=2)
    except (KombuError, OSError) as error:
        return Check(part="broker", works=False, found=f"it does not answer: {error}", fix="check DERBY_BROKER_URL, or unset it",
                     still="workers look for work every 5 s by themselves")
    return Check(part="broker", works=True, found="answers")


def _server(settings: Settings) -> Iterator[Check]:
    url = server_of(settings)
    try:
        problems = Server(settings).get("problems", "problems")["problems"]
    except DerbyError:
        yield Check(part="server", works=None, found=f"none runs at {url}", fix="./derby up", still="`derby judge`, which needs none")
        if is_loopback(url):
            yield _port(urlsplit(url).port or 80)
        return
    yield Check(part="server", works=True, found=f"{url} answers, with {len(problems)} problems")


def _port(port: int) -> Check:
    try:
        choose_port(port)
    except SetupError as error:
        return Check(part="port", works=False, found=error.message, fix=f"./derby up --port {port + 1}")
    return Check(part="port", works=True, found=f"{port} is free")
