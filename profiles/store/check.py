"""A look at a database that changes nothing: is it whole, which revision, how much is in it."""

from dataclasses import dataclass

from sqlalchemy import Connection, inspect, text

from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.errors import DatabaseDamagedError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.opening import reading
from pega_tune.profiles.store.revision import read_revision
from pega_tune.profiles.store.soundness import damaged_pages, dangling_references, missing_parts


@dataclass(frozen=True, slots=True)
class TableCount:
    """How many rows a table has."""

    table: str
    rows: int


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was found.

    Attributes:
        database: which one: its path, or its URL without the password.
        revision: of its schema; None if it is empty, or too damaged to tell.
        expected: revision that this version reads and writes.
        damage: what SQLite's own check complains about, and what is missing of the expected revision; one line each.
        dangling: references to rows that do not exist, one line each.
        counts: rows of every table, by name; empty if it is too damaged to count.
    """

    database: str
    revision: str | None
    expected: str
    damage: tuple[str, ...]
    dangling: tuple[str, ...]
    counts: tuple[TableCount, ...]

    @property
    def ok(self) -> bool:
        """Whether the database is whole and of the expected revision."""
        return not self.damage and not self.dangling and self.revision == self.expected


def check(url: str, *, host: HostView | None = None) -> CheckReport:
    """Examines the database, reading all of it.

    Raises:
        DatabaseRefusedError: there is none, or it is not one of ours.
        StoreError: it cannot be read.
    """
    database = Database.parse(url)
    database.require_readable()
    try:
        with reading(database, host or HostView()) as connection:
            return _examine(connection, str(database))
    except DatabaseDamagedError as error:
        return CheckReport(str(database), None, SCHEMA_REVISION, (error.message,), (), ())


def count_rows(connection: Connection) -> tuple[TableCount, ...]:
    """Rows of every table, by name."""
    quote = connection.dialect.identifier_preparer.quote
    tables = sorted(inspect(connection).get_table_names())
    counts = (connection.execute(text(f"SELECT count(*) FROM {quote(table)}")).scalar_one() for table in tables)  # noqa: S608 - quoted names out of the database's own catalogue
    return tuple(TableCount(table, int(rows)) for table, rows in zip(tables, counts, strict=True))


def _examine(connection: Connection, label: str) -> CheckReport:
    revision = read_revision(connection, label)
    missing = missing_parts(connection) if revision == SCHEMA_REVISION else ()
    return CheckReport(
        database=label,
        revision=revision,
        expected=SCHEMA_REVISION,
        damage=(*damaged_pages(connection), *missing),
        dangling=dangling_references(connection),
        counts=count_rows(connection),
    )
