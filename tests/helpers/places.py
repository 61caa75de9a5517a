"""Databases of every kind that a store may lie in."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection, Inspector, create_engine, inspect
from sqlalchemy.pool import NullPool

from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.models import Base
from tests.helpers.postgresql import Server
from tests.helpers.store import LOCAL_MOUNTS, NETWORK_MOUNTS, sqlite_url

KINDS = ("wal", "rollback-journal", "postgresql")


@dataclass(frozen=True, slots=True)
class Place:
    """A database, and the mounts of the hosts that use it.

    Attributes:
        url: as the user would write it.
        mounts: text as in proc_pid_mountinfo(5).
    """

    url: str
    mounts: str = LOCAL_MOUNTS

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a plain client sees."""
        with plain(self.url) as connection:
            return [tuple(row) for row in connection.exec_driver_sql(sql)]

    def contents(self, like: "Contents | None" = None) -> "Contents":
        """What is in every table; in the tables and columns of `like` alone, if given."""
        with plain(self.url) as connection:
            found = inspect(connection)
            tables = sorted(like or found.get_table_names())
            return {table: _content(connection, found, table, like[table] if like else None) for table in tables}

    def counts(self) -> dict[str, int]:
        """Rows of every table."""
        with plain(self.url) as connection:
            tables = sorted(inspect(connection).get_table_names())
            found = [connection.exec_driver_sql(f'SELECT count(*) FROM "{table}"').scalar_one() for table in tables]
        return dict(zip(tables, found, strict=True))


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a table.

    Attributes:
        columns: their names, in order.
        rows: how many.
        checksum: SHA-256 over all values.
    """

    columns: tuple[str, ...]
    rows: int
    checksum: str


Contents: TypeAlias = dict[str, Content]


def _content(connection: Connection, found: Inspector, table: str, like: Content | None) -> Content:
    columns = like.columns if like else tuple(sorted(column["name"] for column in found.get_columns(table)))
    names = ", ".join(f'"{column}"' for column in columns)
    rows = sorted(repr(tuple(row)) for row in connection.exec_driver_sql(f'SELECT {names} FROM "{table}"'))
    return Content(columns, len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest())


@contextmanager
def plain(url: str) -> Iterator[Connection]:
    """A connection that nobody has told how to behave; what it changes is kept."""
    database = Database.parse(url)
    engine = create_engine(database.url, connect_args=dict(database.secrets), poolclass=NullPool)
    with engine.connect() as connection:
        yield connection
        connection.commit()


def sqlite_place(kind: str, path: Path) -> Place:
    """An SQLite file, which need not exist, on a disk of `kind`."""
    return Place(sqlite_url(path), LOCAL_MOUNTS if kind == "wal" else NETWORK_MOUNTS)


def server_place(server: Server) -> Place:
    """The server's one database with our tables and nothing in them; a test has it for itself."""
    place = Place(server.url(server.migrated))
    # For a few rows, faster than to truncate.
    with plain(place.url) as connection:
        connection.exec_driver_sql("; ".join(f"DELETE FROM {table}" for table in reversed(Base.metadata.sorted_tables)))
    return place
