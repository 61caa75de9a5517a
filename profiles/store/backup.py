"""Copies of a live database that hold all that was committed, also what is still in SQLite's log."""

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.engine_setup import connect_read_only
from pega_tune.profiles.store.errors import (
    CHECK_HINT,
    DatabaseDamagedError,
    DatabaseRefusedError,
)
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.opening import revision_of
from pega_tune.profiles.store.translation import primary_code, translated

_FAULTS_OF_THE_SOURCE = frozenset(
    {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
)


def backup(url: str, path: Path, *, host: HostView | None = None) -> Path:
    """Copies the database into the new file `path` and returns its absolute path.

    The copy appears under its name only when it is whole and has been checked; it is one SQLite file, readable
    anywhere, also of a database on a server.

    Raises:
        DatabaseRefusedError: the file exists, or its directory is missing or cannot be written; or the database is
            empty or another program's.
        DatabaseDamagedError: the copy does not pass SQLite's check, so the database would not either.
        StoreError: the database cannot be read.
    """
    database, host = Database.parse(url), host or HostView()
    database.require_readable()
    if revision_of(database, host) is None:
        raise DatabaseRefusedError(f"{database} is empty", "there is nothing to back up")
    if database.path is None:
        # Late: it needs the migrations, which keep backups of their own.
        from pega_tune.profiles.store.server_backup import copy_server

        return copy_server(database, path.absolute(), host)
    return copy_database(database.path, path.absolute(), host)


def copy_database(source: Path, target: Path, host: HostView) -> Path:
    """Copies the SQLite file `source` to `target` as `backup` does; both are absolute."""
    try:
        with new_file(target) as temporary:
            flaw = _copy(source, temporary, host.busy_timeout_s)
            if flaw:
                raise DatabaseDamagedError(f"{source} is damaged: {flaw}", CHECK_HINT)
    except sqlite3.Error as error:
        # What the user knows are the two files named; one statement read the one and wrote the other.
        at_fault = source if primary_code(error) in _FAULTS_OF_THE_SOURCE else target
        with translated(str(at_fault)):
            raise
    return target


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """An empty file that becomes `target`, which is absolute, if all goes well, and else vanishes.

    Raises:
        DatabaseRefusedError: `target` exists, or its directory is missing or cannot be written.
    """
    if target.exists():
        raise _exists(target)
    if not target.parent.is_dir():
        raise DatabaseRefusedError(f"there is no directory {target.parent}", "name a file in one that exists")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise _not_writable(target, error) from error
    try:
        yield temporary
        _publish(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _copy(source: Path, temporary: Path, busy_timeout_s: float) -> str:
    """Copies all that was committed; what SQLite's check finds wrong with the copy, empty if nothing.

    Raises:
        sqlite3.Error: one of the files cannot be read or written.
        StoreError: the source cannot be opened.
    """
    with translated(str(source)):
        reader = connect_read_only(source, busy_timeout_s)
    with closing(reader), closing(sqlite3.connect(temporary, isolation_level=None)) as writer:
        # All pages in one step: in several, a writer in between would start it over and over.
        reader.backup(writer, pages=-1)
        writer.execute("PRAGMA journal_mode=DELETE")
        found = str(writer.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return "" if found == "ok" else found


def _publish(temporary: Path, target: Path) -> None:
    try:
        # Unlike a rename, a link never replaces a file that appeared in the meantime.
        os.link(temporary, target)
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError:
        # A file system without hard links.
        if target.exists():
            raise _exists(target) from None
        try:
            temporary.rename(target)
        except OSError as error:
            raise _not_writable(target, error) from error


def _not_writable(target: Path, error: OSError) -> DatabaseRefusedError:
    return DatabaseRefusedError(
        f"{target} cannot be written: {error.strerror}", "name a file in a directory that can be written"
    )


def _exists(target: Path) -> DatabaseRefusedError:
    return DatabaseRefusedError(f"{target} exists already", "name a new file: backups are never overwritten")
