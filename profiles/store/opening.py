"""From a URL to a database that is ready for use, or a refusal that says why it is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine

from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.store.access import Access
from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.engine_setup import open_engine, settle_journal
from pega_tune.profiles.store.errors import CHECK_HINT, DatabaseDamagedError, DatabaseRefusedError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.revision import read_revision, wrong_revision
from pega_tune.profiles.store.server import require_unicode
from pega_tune.profiles.store.server_errors import is_down, is_starting
from pega_tune.profiles.store.soundness import first_flaw
from pega_tune.profiles.store.transactions import Transactions, patiently
from pega_tune.profiles.store.translation import translated


@dataclass(frozen=True, slots=True)
class Opened:
    """A database ready for use.

    Attributes:
        transactions: to work on it.
        warnings: what the user should know about where it lies, one line each.
        path: the file, absolute; None for a server.
    """

    transactions: Transactions
    warnings: tuple[str, ...]
    path: Path | None


def open_database(database: Database, host: HostView, *, create: bool, read_only: bool) -> Opened:
    """Opens the database, creating it if it is missing or empty, `create` is set and `read_only` is not.

    Raises:
        StoreError: as `Store.open` says.
    """
    label = str(database)
    if read_only or not create:
        database.require_readable()
    if not read_only:
        database.require_writable()
    _require_usable(database, host, create=create and not read_only, whole=not read_only)
    warnings: tuple[str, ...] = ()
    if database.path is not None and not read_only:
        with translated(label):
            journal = settle_journal(database.path, host)
        warnings = (journal.warning,) if journal.warning else ()
    engine = open_engine(database, Access.READ if read_only else Access.WRITE, host)
    transactions = Transactions(engine, label, host.give_up_s, read_only=read_only)
    return Opened(transactions, warnings, database.path)


def revision_of(database: Database, host: HostView) -> str | None:
    """The database's revision; None if it is missing or empty. Creates and changes nothing.

    Raises:
        DatabaseRefusedError: it is not one of ours.
        StoreError: it cannot be read.
    """
    if not database.exists():
        return None
    with reading(database, host) as connection:
        return read_revision(connection, str(database))


@contextmanager
def reading(database: Database, host: HostView) -> Iterator[Connection]:
    """One connection to an existing database that changes nothing.

    Raises:
        StoreError: it cannot be read.
    """
    engine = open_engine(database, Access.EXAMINE, host)
    try:
        with translated(str(database)), _connected(engine, host) as connection:
            if database.path is None:
                require_unicode(connection, str(database))
            yield connection
    finally:
        engine.dispose()


def _connected(engine: Engine, host: HostView) -> Connection:
    """A connection to a server that may be restarting."""
    return patiently(lambda: patiently(engine.connect, host.give_up_s, is_starting), host.away_s, is_down)


def _require_usable(database: Database, host: HostView, *, create: bool, whole: bool) -> None:
    """Refuses another revision than ours, and with `whole` also what a quick look finds unsound.

    To write there might lose what is written, or destroy more.
    """
    revision, flaw = _look(database, host, whole)
    if revision is None:
        if not create:
            raise DatabaseRefusedError(f"{database} is empty", "`pega-tune sweep` or `pega-tune db upgrade` fills it")
        # Late: Alembic takes longer to import than an up-to-date database takes to open.
        from pega_tune.profiles.store.migrate import upgrade_database

        upgrade_database(database, host)
    elif revision != SCHEMA_REVISION:
        raise wrong_revision(str(database), revision)
    elif flaw:
        raise DatabaseDamagedError(f"{database} is damaged: {flaw}", CHECK_HINT)


def _look(database: Database, host: HostView, whole: bool) -> tuple[str | None, str]:
    """The database's revision and its first flaw, in one visit: a server may be far away."""
    if not database.exists():
        return None, ""
    with reading(database, host) as connection:
        revision = read_revision(connection, str(database))
        return revision, first_flaw(connection) if whole and revision == SCHEMA_REVISION else ""
