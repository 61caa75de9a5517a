"""Connections: SQLite is told here how to behave and PostgreSQL in `server`, so that few modules know which it is."""

import os
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool, QueuePool

from pega_tune.profiles.store.access import Access
from pega_tune.profiles.store.database import POSTGRESQL, Database
from pega_tune.profiles.store.host import LOCAL_FILE_SYSTEMS, HostView
from pega_tune.profiles.store.server import READING, WRITING, server_engine
from pega_tune.profiles.store.translation import is_busy, primary_code

WRITES = "pega_tune_writes"
"""Execution option of a connection whose transactions write."""

_POLL_S = 0.02
_ANY_WRITE_BIT = 0o222


@dataclass(frozen=True, slots=True)
class Journal:
    """How a SQLite file is journalled.

    Attributes:
        mode: SQLite's word, `wal` or `delete`.
        warning: why it is not as wished, one line; empty if it is.
    """

    mode: str
    warning: str = ""


class Executes(Protocol):
    """The one method of a SQLite connection that `set_journal` needs."""

    def execute(self, sql: str, /) -> Any:
        """Runs a statement."""


def open_engine(database: Database, access: Access, host: HostView) -> Engine:
    """An engine whose connections are set up for `access`. Nothing is opened yet.

    Transactions of a connection with the option `WRITES`, and all of `Access.MIGRATE`, take SQLite's write lock when
    they begin: a lock taken in their middle could deadlock with another's, which no waiting would solve.
    """
    if database.path is None:
        return server_engine(database, access, host)
    path = database.path
    pool = NullPool if access is Access.MIGRATE else QueuePool
    engine = create_engine("sqlite://", creator=lambda: _connect(path, access, host), poolclass=pool)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = access is Access.MIGRATE or connection.get_execution_options().get(WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def for_reading(engine: Engine) -> Engine:
    """The same engine, for transactions that only read."""
    return engine.execution_options(**READING) if engine.dialect.name == POSTGRESQL else engine


def for_writing(engine: Engine) -> Engine:
    """The same engine, for transactions that write."""
    server = WRITING if engine.dialect.name == POSTGRESQL else {}
    return engine.execution_options(**{WRITES: True}, **server)


def connect_read_only(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """A connection that changes no data and creates no database, also where nothing can be written.

    Raises:
        sqlite3.Error: it cannot be opened.
    """
    if _is_sealed(path):
        return _probed(path, "mode=ro&immutable=1", busy_timeout_s)
    try:
        # SQLite's own read-only mode cannot roll back what a dead writer left, and leaves files of its own behind.
        # Where the file cannot be written, SQLite opens it for reading by itself.
        connection = _probed(path, "mode=rw", busy_timeout_s)
    except sqlite3.OperationalError as error:
        # A file in WAL mode needs a shared-memory file beside it, even to be read; without a log there is nothing to
        # share.
        cannot_write = primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if not cannot_write or not path.exists() or _has_unfinished_writes(path):
            raise
        return _probed(path, "mode=ro&immutable=1", busy_timeout_s)
    connection.execute("PRAGMA query_only=ON")
    return connection


def settle_journal(path: Path, host: HostView) -> Journal:
    """Puts an existing SQLite file into WAL mode on a local file system, and out of it on any other.

    Raises:
        sqlite3.Error: the file cannot be used.
    """
    kind = host.file_system(path)
    wanted = "wal" if kind in LOCAL_FILE_SYSTEMS else "delete"
    connection = _open(path, "mode=rw", host.busy_timeout_s)
    try:
        mode = set_journal(connection, wanted, host.give_up_s)
    finally:
        connection.close()
    if wanted == "delete":
        where = f"a file system of type {kind}" if kind else "an unknown file system"
        advice = "several writers at once are safer on a local disk or PostgreSQL"
        return Journal(mode, f"{path} is on {where}: {advice}")
    if mode != wanted:
        return Journal(mode, f"SQLite keeps {path} in journal mode {mode}: readers and writers will wait on each other")
    return Journal(mode)


def set_journal(connection: Executes, wanted: str, give_up_s: float) -> str:
    """The journal mode after asking for `wanted`; SQLite may keep the old one, and so may other users of the file.

    SQLite does not wait for others here, so this does; but a file in use for longer keeps its mode.
    """
    deadline = time.monotonic() + give_up_s
    while True:
        mode = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
        if mode == wanted:
            return mode
        try:
            return str(connection.execute(f"PRAGMA journal_mode={wanted}").fetchone()[0])
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            if time.monotonic() > deadline:
                return mode
            time.sleep(_POLL_S)


def _connect(path: Path, access: Access, host: HostView) -> sqlite3.Connection:
    if access in (Access.EXAMINE, Access.READ):
        return connect_read_only(path, host.busy_timeout_s)
    connection = _open(path, "mode=rwc" if access is Access.MIGRATE else "mode=rw", host.busy_timeout_s)
    try:
        # Rebuilding a parent table drops it, which with foreign keys on would delete its children.
        connection.execute(f"PRAGMA foreign_keys={'OFF' if access is Access.MIGRATE else 'ON'}")
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        # In WAL mode a power cut can lose the last commits, but never damage the file.
        connection.execute(f"PRAGMA synchronous={'NORMAL' if mode == 'wal' else 'FULL'}")
    except BaseException:
        connection.close()
        raise
    return connection


def _probed(path: Path, query: str, busy_timeout_s: float) -> sqlite3.Connection:
    connection = _open(path, query, busy_timeout_s)
    try:
        connection.execute("PRAGMA schema_version")
    except BaseException:
        connection.close()
        raise
    return connection


def _has_unfinished_writes(path: Path) -> bool:
    beside = (path.with_name(path.name + suffix) for suffix in ("-wal", "-journal"))
    return any(file.exists() and file.stat().st_size > 0 for file in beside)


def _is_sealed(path: Path) -> bool:
    """Whether nobody may write the file, nor has it open: SQLite would leave a log beside it that holds nothing."""
    if not path.is_file() or path.stat().st_mode & _ANY_WRITE_BIT:
        return False
    return not any(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-journal"))


def _open(path: Path, query: str, busy_timeout_s: float) -> sqlite3.Connection:
    # isolation_level=None: Python starts no transactions of its own; the "begin" listener does.
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?{query}",
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )
