"""Fixtures that tests of several parts share."""

from tests.databases import database, database_url, empty_url, postgres_server, postgres_url, sqlite_database, sqlite_template

__all__ = ["database", "database_url", "empty_url", "postgres_server", "postgres_url", "sqlite_database", "sqlite_template"]
