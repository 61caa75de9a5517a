"""The one place where a database's own errors become the user's."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from sqlalchemy.exc import DBAPIError

from pega_tune.profiles.policy.urls import without_passwords
from pega_tune.profiles.store.errors import (
    CHECK_HINT,
    DatabaseBusyError,
    DatabaseDamagedError,
    DatabaseRefusedError,
    StoreError,
    ValueRefusedError,
)
from pega_tune.profiles.store.server_errors import Trouble, trouble_of

# libpq ends with a question, and the hint says the same.
_ADVICE = re.compile(r"\s*Is the server running [^?]*\?")


@contextmanager
def translated(database: str) -> Iterator[None]:
    """Turns errors of the database driver into `StoreError`; `database` is what the message calls it.

    Errors that only a mistake of ours can cause, such as wrong SQL, pass unchanged.
    """
    try:
        yield
    except DBAPIError as error:
        sqlite = isinstance(error.orig, sqlite3.Error)
        explained = _explain_sqlite(database, error.orig) if sqlite else _explain_server(database, error)
        if explained is None:
            raise
        if sqlite:
            raise explained from error
        raise_alone(explained)
    except sqlite3.Error as error:
        explained = _explain_sqlite(database, error)
        if explained is None:
            raise
        raise explained from error


def raise_alone(error: StoreError) -> NoReturn:
    """Raises an error without that of a server's driver, which keeps the password in itself and its traceback."""
    try:
        raise error
    finally:
        error.__context__ = None


def is_busy(error: BaseException) -> bool:
    """Whether trying again may help: somebody else holds the database."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if primary_code(cause) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return True
    return isinstance(error, DBAPIError) and trouble_of(error) is Trouble.BUSY


def is_away(error: BaseException) -> bool:
    """Whether the server cannot be reached, which it may be again after a restart."""
    return isinstance(error, DBAPIError) and trouble_of(error) is Trouble.AWAY


def primary_code(error: BaseException | None) -> int | None:
    """SQLite's primary result code, without the extension in its upper bits; None for anything else's errors."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


@dataclass(frozen=True, slots=True)
class _Explanation:
    kind: type[StoreError]
    message: str
    hint: str = ""

    def error(self, database: str, text: str) -> StoreError:
        return self.kind(self.message.format(database=database, text=text), self.hint)


def _explain_server(database: str, error: DBAPIError) -> StoreError | None:
    explanation = _SERVER.get(trouble_of(error))
    # Nothing that a driver says may hold a password; should one do so, it goes no further.
    text = without_passwords(_ADVICE.sub("", _one_line(error.orig)))
    return explanation.error(database, text) if explanation else None


def _explain_sqlite(database: str, error: BaseException | None) -> StoreError | None:
    code, text = primary_code(error), _one_line(error)
    if code == sqlite3.SQLITE_ERROR:
        # A mistake of ours, unless what is missing should be there at this revision.
        return _LACKS.error(database, text) if text.startswith("no such") else None
    explanation = _SQLITE.get(code)
    return explanation.error(database, text) if explanation else None


def _one_line(error: BaseException | None) -> str:
    return " ".join(str(error).split())


_BUSY = _Explanation(
    DatabaseBusyError, "another process has kept {database} to itself for too long", "try again when it has finished"
)
_REFUSED = _Explanation(
    DatabaseRefusedError,
    "{database} cannot be opened as asked: {text}",
    "check the rights to the file and its directory; name another file with --db",
)
_UNREADABLE = _Explanation(StoreError, "{database} cannot be read or written: {text}", "put it on a local disk")
_DAMAGED = _Explanation(DatabaseDamagedError, "{database} is damaged: {text}", CHECK_HINT)
_LACKS = _Explanation(DatabaseDamagedError, "{database} lacks a part of its schema: {text}", CHECK_HINT)
_BAD_VALUE = _Explanation(ValueRefusedError, "{database} refuses the record: {text}")
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
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_FULL: _Explanation(
        StoreError, "no space is left for {database}", "free some, or name a file on another disk"
    ),
    sqlite3.SQLITE_CONSTRAINT: _BAD_VALUE,
}
_SERVER: dict[Trouble | None, _Explanation] = {
    Trouble.BUSY: _BUSY,
    Trouble.AWAY: _Explanation(
        StoreError, "{database} is not usable: {text}", "check the address and that the server runs"
    ),
    Trouble.FORBIDDEN: _Explanation(
        DatabaseRefusedError, "{database} does not let us: {text}", "ask for the right, or name another with --db"
    ),
    Trouble.FULL: _Explanation(
        StoreError, "the server of {database} has nothing left to give: {text}", "try again later, or ask its keeper"
    ),
    Trouble.OPTION: _Explanation(
        DatabaseRefusedError, "{database} cannot be opened as asked: {text}", "leave the option out of the URL"
    ),
    Trouble.DAMAGED: _DAMAGED,
    Trouble.LACKS: _LACKS,
    Trouble.VALUE: _BAD_VALUE,
}
