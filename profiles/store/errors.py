"""What the store refuses, and the one place where a database's own errors become the user's."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from pega_tune.errors import DataError

CHECK_HINT = "look at it with `pega-tune db check`, or restore a copy that `pega-tune db backup` made"
_POSTGRESQL_BUSY = frozenset({"40001", "40P01", "55P03"})  # serialization failure, deadlock, lock not available


class StoreError(DataError):
    """The store cannot do what it was asked."""

    code = "database"


class DatabaseRefusedError(StoreError):
    """The database is not one that this version can use."""

    code = "database-refused"


class DatabaseBusyError(StoreError):
    """Another process kept the database to itself for too long."""

    code = "database-busy"


class DatabaseDamagedError(StoreError):
    """What is stored contradicts itself; nothing more is written to it."""

    code = "database-damaged"


class RecordDamagedError(StoreError):
    """One record cannot be read; the rest of the database can."""

    code = "record-damaged"


class NotFoundError(StoreError):
    """Nothing of that name is stored, or more than one thing is."""

    code = "not-found"


class ValueRefusedError(StoreError):
    """A value does not fit its field."""

    code = "bad-value"


class SweepRunningError(StoreError):
    """The sweep cannot be taken over."""

    code = "sweep-running"


@contextmanager
def translated(database: str) -> Iterator[None]:
    """Turns errors of the database driver into `StoreError`; `database` is what the message calls it.

    Errors that only a mistake of ours can cause, such as wrong SQL, pass unchanged.
    """
    try:
        yield
    except DBAPIError as error:
        explained = _explain(database, error.orig, error)
        if explained is None:
            raise
        raise explained from error
    except sqlite3.Error as error:
        explained = _explain(database, error, None)
        if explained is None:
            raise
        raise explained from error


def is_busy(error: BaseException) -> bool:
    """Whether trying again may help: somebody else holds the database."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if getattr(cause, "sqlstate", None) in _POSTGRESQL_BUSY:
        return True
    return primary_code(cause) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def primary_code(error: BaseException | None) -> int | None:
    """SQLite's primary result code, without the extension in its upper bits; None for anything else's errors."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _explain(database: str, cause: BaseException | None, wrapper: DBAPIError | None) -> StoreError | None:
    text = " ".join(str(cause).split())
    if isinstance(cause, sqlite3.Error):
        return _explain_sqlite(database, primary_code(cause), text)
    if isinstance(wrapper, IntegrityError):
        return ValueRefusedError(f"{database} refuses the record: {text}")
    if text.startswith("invalid connection option"):  # psycopg's words for what a URL's query holds
        return DatabaseRefusedError(f"{database} cannot be opened as asked: {text}", "leave the option out of the URL")
    if isinstance(wrapper, OperationalError):
        return StoreError(f"{database} is not usable: {text}", "check the address and that the server runs")
    return None


def _explain_sqlite(database: str, code: int | None, text: str) -> StoreError | None:
    if code == sqlite3.SQLITE_ERROR:
        # A mistake of ours, unless what is missing should be there at this revision.
        lacks_schema = text.startswith("no such")
        return (
            DatabaseDamagedError(f"{database} lacks a part of its schema: {text}", CHECK_HINT) if lacks_schema else None
        )
    explanation = _SQLITE.get(code)
    return explanation.error(database, text) if explanation else None


@dataclass(frozen=True, slots=True)
class _Explanation:
    kind: type[StoreError]
    message: str
    hint: str = ""

    def error(self, database: str, text: str) -> StoreError:
        return self.kind(self.message.format(database=database, text=text), self.hint)


_BUSY = _Explanation(
    DatabaseBusyError, "another process has kept {database} to itself for too long", "try again when it has finished"
)
_REFUSED = _Explanation(
    DatabaseRefusedError,
    "{database} cannot be opened as asked: {text}",
    "check the rights to the file and its directory; name another file with --db",
)
_UNREADABLE = _Explanation(StoreError, "{database} cannot be read or written: {text}", "put it on a local disk")
# https://sqlite.org/rescode.html
_SQLITE: dict[int | None, _Explanation] = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_READONLY: _REFUSED,
    sqlite3.SQLITE_CANTOPEN: _REFUSED,
    sqlite3.SQLITE_PERM: _REFUSED,
    sqlite3.SQLITE_IOERR: _UNREADABLE,
    sqlite3.SQLITE_PROTOCOL: _UNREADABLE,
    sqlite3.SQLITE_NOTADB: _Explanation(
        DatabaseRefusedError, "{database} is not an SQLite database", "name another file with --db"
    ),
    sqlite3.SQLITE_CORRUPT: _Explanation(DatabaseDamagedError, "{database} is damaged: {text}", CHECK_HINT),
    sqlite3.SQLITE_FULL: _Explanation(
        StoreError, "no space is left for {database}", "free some, or name a file on another disk"
    ),
    sqlite3.SQLITE_CONSTRAINT: _Explanation(ValueRefusedError, "{database} refuses the record: {text}"),
}
