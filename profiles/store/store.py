"""The store: sweeps, their blocks, and profiles. Records go in and come out; rows and sessions stay inside."""

from types import TracebackType
from typing import Self

from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.opening import open_database
from pega_tune.profiles.store.profile_store import ProfileStore
from pega_tune.profiles.store.sweep_store import SweepStore


class Store(SweepStore, ProfileStore):
    """An open database; a context manager. Threads may share it, and any number of processes the database.

    Every method is one transaction: durable when it returns, absent if it raises. All raise `StoreError`, a
    `DataError`, if the database cannot be used; `ValueRefusedError` names the field whose value does not fit.
    An empty id is a `UsageError`.
    """

    @classmethod
    def open(cls, url: str, *, create: bool = True, read_only: bool = False, host: HostView | None = None) -> Self:
        """Opens the database at `url`, as SQLAlchemy writes URLs.

        A missing or empty database is created if `create` is set and `read_only` is not. With `read_only` nothing is
        ever written, and files and directories that cannot be written will do.

        Raises:
            QuestionError: `url` is no database URL.
            DatabaseRefusedError: it is missing, a directory, read-only, not SQLite, another program's, or of an older
                or newer revision.
            DatabaseDamagedError: it is malformed; opened for writing, also if a quick look finds it unsound.
            DatabaseBusyError: another process keeps it.
        """
        host = host or HostView()
        return cls(open_database(Database.parse(url), host, create=create, read_only=read_only), host)

    def close(self) -> None:
        """Closes all connections."""
        self._transactions.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
