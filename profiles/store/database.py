"""Which database a URL names, and whether its file can be used at all."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from pega_tune.profiles.policy.settings import sqlite_path
from pega_tune.profiles.policy.urls import URL_HINT, malformed, without_passwords
from pega_tune.profiles.store.errors import DatabaseRefusedError

_CREATE_HINT = "`pega-tune sweep` or `pega-tune db upgrade` creates it; --db names another"
_WRITABLE_HINT = "`pega-tune sweep` and `db upgrade` write to it: name another file with --db"
POSTGRESQL = "postgresql"
DRIVER = "postgresql+psycopg"
_SERVERS = (POSTGRESQL, DRIVER, "postgres")  # the last is another name that libpq takes
_SECRET_OPTIONS = ("password", "sslpassword")
_ANY_WRITE_BIT = 0o222
_SUFFIXES = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True, slots=True)
class Database:
    """A database by its URL.

    Attributes:
        url: as given, without passwords; that of a server names the driver.
        path: the file, absolute; None for a server.
        secrets: the passwords, by the driver's names.
    """

    url: URL
    path: Path | None
    secrets: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def parse(cls, url: str) -> "Database":
        """The database that `url` names.

        Raises:
            QuestionError: it is no database URL.
            DatabaseRefusedError: it is one of a kind that is not supported.
        """
        # The run-time reader and the store agree on what a URL means because one function says it.
        path = sqlite_path(url)
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):
            raise malformed(url) from None  # SQLAlchemy's own message may hold a part of a password
        if path is None and parsed.drivername not in _SERVERS:
            raise DatabaseRefusedError(f"databases of kind {parsed.drivername!r} are not supported", URL_HINT)
        if path:
            return cls(parsed, path.absolute())
        secrets = {name: value for name, value in parsed.query.items() if name.lower() in _SECRET_OPTIONS}
        if parsed.password is not None:
            secrets = {"password": parsed.password, **secrets}
        return cls(_bare(parsed.difference_update_query(secrets)), None, secrets)

    def __str__(self) -> str:
        if self.path:
            return str(self.path)
        return without_passwords(self.url.set(drivername=POSTGRESQL).render_as_string())

    def require_readable(self) -> None:
        """Refuses a file that is missing or not a file.

        Raises:
            DatabaseRefusedError: as said.
        """
        if not self.exists():
            raise DatabaseRefusedError(f"there is no database {self}", _CREATE_HINT)

    def exists(self) -> bool:
        """Whether the file is there; a server's database is taken for granted.

        Raises:
            DatabaseRefusedError: something else is there.
        """
        if self.path is None:
            return True
        _require_plain_file(self.path)
        return self.path.exists()

    def require_writable(self) -> None:
        """Refuses a file that cannot be written, or created; creates the directories above it.

        Raises:
            DatabaseRefusedError: as said.
        """
        if self.path is None:
            return
        _require_plain_file(self.path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DatabaseRefusedError(f"cannot create the directory of {self}: {reason}", _WRITABLE_HINT) from error
        for file in (self.path.with_name(self.path.name + suffix) for suffix in _SUFFIXES):
            if file.exists() and not _may_write(file):
                raise DatabaseRefusedError(f"{file} is read-only", _WRITABLE_HINT)
        # The journal is a new file beside the database.
        if not _may_write(self.path.parent):
            raise DatabaseRefusedError(f"the directory of {self} is read-only", _WRITABLE_HINT)


def _bare(url: URL) -> URL:
    return URL.create(DRIVER, url.username, host=url.host, port=url.port, database=url.database, query=url.query)


def _require_plain_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise DatabaseRefusedError(f"{path} is a directory", "name a file in it with --db")
        if path.exists() and not path.is_file():
            raise DatabaseRefusedError(f"{path} is not a regular file", "name another file with --db")
        if path.is_symlink() and not path.exists():
            raise DatabaseRefusedError(
                f"{path} is a symbolic link that leads to no file", "mend it, or name another file with --db"
            )
    except OSError as error:
        raise DatabaseRefusedError(
            f"{path} cannot be reached: {error.strerror}", "check the path and its rights"
        ) from error


def _may_write(path: Path) -> bool:
    if not path.stat().st_mode & _ANY_WRITE_BIT:  # root may, but somebody has said that nobody should
        return False
    mode = os.W_OK | os.X_OK if path.is_dir() else os.W_OK
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)
