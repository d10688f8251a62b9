"""What organizer commands share."""

from collections.abc import Iterator
from contextlib import contextmanager

from kernelderby.core.settings import Settings
from kernelderby.storage.database import Database, connect, migrate


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """The platform's database, brought up to date."""
    if not settings.database_url:
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    database = connect(settings.database)
    try:
        migrate(database)
        yield database
    finally:
        database.close()
