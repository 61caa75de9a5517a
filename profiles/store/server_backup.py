"""A database on a server as one SQLite file: all that was committed at one moment."""

from pathlib import Path

from sqlalchemy import Connection, MetaData, insert, make_url, select

from pega_tune.profiles.store.access import Access
from pega_tune.profiles.store.backup import new_file
from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.engine_setup import for_reading, open_engine
from pega_tune.profiles.store.errors import DatabaseDamagedError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.migrate import upgrade_database
from pega_tune.profiles.store.revision import VERSION_TABLE, read_revision
from pega_tune.profiles.store.soundness import dangling_references
from pega_tune.profiles.store.translation import translated

_ROWS_AT_ONCE = 500


def copy_server(database: Database, target: Path, host: HostView) -> Path:
    """Copies a database of ours, of any revision that this version knows, into the new SQLite file `target`.

    Others may go on writing; what they commit after the copy has begun is not in it.

    Raises:
        DatabaseRefusedError: it is newer than this version; or as `new_file`.
        StoreError: it cannot be read.
    """
    engine = open_engine(database, Access.READ, host)
    try:
        with translated(str(database)), for_reading(engine).connect() as source, new_file(target) as temporary:
            revision = read_revision(source, str(database))
            assert revision is not None
            _fill(source, Database(make_url("sqlite://"), temporary), revision, host)
    finally:
        engine.dispose()
    return target


def copy_rows(source: Connection, target: Connection) -> None:
    """Copies the rows of all tables of `target`, which are empty, in an order that keeps references whole."""
    tables = MetaData()
    tables.reflect(target)
    for table in tables.sorted_tables:
        if table.name == VERSION_TABLE:
            continue
        found = source.execute(select(table), execution_options={"yield_per": _ROWS_AT_ONCE})
        for rows in found.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in rows])


def _fill(source: Connection, copy: Database, revision: str, host: HostView) -> None:
    upgrade_database(copy, host, revision=revision)
    engine = open_engine(copy, Access.MIGRATE, host)
    with translated(str(copy)), engine.begin() as target:
        copy_rows(source, target)
        flaws = dangling_references(target)
        if flaws:
            raise DatabaseDamagedError(f"the copy would not be whole: {flaws[0]}", "please report this")
