"""Copies of a live SQLite database that hold all that was committed, also what is still in its log."""

import os
import secrets
import sqlite3
from pathlib import Path

from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.engine_setup import connect_read_only
from pega_tune.profiles.store.errors import DatabaseDamagedError, DatabaseRefusedError, translated
from pega_tune.profiles.store.host import HostView


def backup(url: str, path: Path, *, host: HostView | None = None) -> Path:
    """Copies the database into the new file `path` and returns its absolute path.

    The copy appears under its name only when it is whole and has been checked; it is one file, readable anywhere.

    Raises:
        DatabaseRefusedError: the file exists, or its directory is missing or cannot be written; or the database is on a
            server.
        DatabaseDamagedError: the copy does not pass SQLite's check, so the database would not either.
        StoreError: the database cannot be read.
    """
    database = Database.parse(url)
    if database.path is None:
        raise DatabaseRefusedError(f"{database} is on a server", "back it up with pg_dump")
    database.require_readable()
    return copy_database(database.path, path.absolute(), host or HostView())


def copy_database(source: Path, target: Path, host: HostView) -> Path:
    """Copies the SQLite file `source` to `target` as `backup` does; both are absolute."""
    if target.exists():
        raise _exists(target)
    if not target.parent.is_dir():
        raise DatabaseRefusedError(f"there is no directory {target.parent}", "name a file in one that exists")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        _copy(source, temporary, host.busy_timeout_s)
        _publish(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def _copy(source: Path, temporary: Path, busy_timeout_s: float) -> None:
    with translated(str(source)):
        reader = connect_read_only(source, busy_timeout_s)
    try:
        with translated(f"the copy {temporary}"):
            writer = sqlite3.connect(temporary, isolation_level=None)
            try:
                # All pages in one step: in several, a writer in between would start it over and over.
                reader.backup(writer, pages=-1)
                writer.execute("PRAGMA journal_mode=DELETE")
                found = [str(row[0]) for row in writer.execute("PRAGMA integrity_check")]
            finally:
                writer.close()
    finally:
        reader.close()
    if found != ["ok"]:
        raise DatabaseDamagedError(f"{source} is damaged: {found[0]}", "see `pega-tune db check`")


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
        temporary.rename(target)


def _exists(target: Path) -> DatabaseRefusedError:
    return DatabaseRefusedError(f"{target} exists already", "name a new file: backups are never overwritten")
