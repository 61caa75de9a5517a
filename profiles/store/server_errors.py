"""What an error of PostgreSQL means, by its SQLSTATE."""

import sqlite3
from enum import StrEnum

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError


class Trouble(StrEnum):
    """Kinds of errors that are no mistake of ours."""

    AWAY = "away"
    BUSY = "busy"
    DAMAGED = "damaged"
    FORBIDDEN = "forbidden"
    FULL = "full"
    LACKS = "lacks"
    OPTION = "option"
    VALUE = "value"


# https://www.postgresql.org/docs/current/errcodes-appendix.html; the first two signs are the class.
_BY_CLASS = {
    "08": Trouble.AWAY,
    "22": Trouble.VALUE,
    "23": Trouble.VALUE,
    "28": Trouble.FORBIDDEN,
    "53": Trouble.FULL,
    "54": Trouble.VALUE,
    "XX": Trouble.DAMAGED,
}
_BY_STATE = {
    "25006": Trouble.FORBIDDEN,  # a server that only reads
    "25P03": Trouble.AWAY,  # idle in a transaction for too long, and cut off
    "3D000": Trouble.FORBIDDEN,  # no such database
    "40001": Trouble.BUSY,  # serialization failure
    "40P01": Trouble.BUSY,  # deadlock
    "42501": Trouble.FORBIDDEN,
    "42703": Trouble.LACKS,  # no such column
    "42P01": Trouble.LACKS,  # no such table
    "55P03": Trouble.BUSY,  # lock not to be had in time
    "57014": Trouble.BUSY,  # cancelled, as by a time limit of the server
    "57P01": Trouble.AWAY,  # shut down
    "57P02": Trouble.AWAY,  # crashed
    "57P03": Trouble.AWAY,  # starting up or shutting down
    "XX000": None,  # an internal error says nothing of the data
}

# Of 57P03: https://github.com/postgres/postgres/blob/master/src/backend/tcop/backend_startup.c
_STARTING = ("is starting up", "is shutting down", "in recovery mode", "not yet accepting connections")


def trouble_of(error: DBAPIError) -> Trouble | None:
    """What kind of trouble a server's error tells of; None for one that only a mistake of ours can cause."""
    if isinstance(error.orig, sqlite3.Error):
        return None
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return _BY_STATE[state] if state in _BY_STATE else _BY_CLASS.get(state[:2])
    if error.connection_invalidated:
        return Trouble.AWAY
    if str(error.orig).startswith("invalid connection option"):  # libpq's words for what a URL's query holds
        return Trouble.OPTION
    # The driver's own errors have no state: no connection, or a value that it cannot send.
    if isinstance(error, OperationalError):
        return Trouble.AWAY
    return Trouble.VALUE if isinstance(error, DataError | IntegrityError) else None


def is_down(error: BaseException) -> bool:
    """Whether nobody listens where a server should be, as in the first seconds of a restart."""
    return _is_away(error) and "FATAL:" not in str(error)  # libpq's word before what a server itself says


def is_starting(error: BaseException) -> bool:
    """Whether a server answers that it will be there soon, or is about to go."""
    # While a connection is made libpq tells no SQLSTATE, only words; in another language they are not known.
    return _is_away(error) and any(words in str(error) for words in _STARTING)


def _is_away(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and trouble_of(error) is Trouble.AWAY
