"""How PostgreSQL is told to behave: connections, and the locks by which upgrades and everything else keep apart."""

import math
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.pool import NullPool, QueuePool

from pega_tune.profiles.store.access import Access
from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.errors import DatabaseRefusedError
from pega_tune.profiles.store.host import HostView

WRITING: dict[str, Any] = {"isolation_level": "SERIALIZABLE", "postgresql_readonly": False}
"""Execution options of a transaction that writes: it sees and does what it would if it were alone, or fails as busy."""

READING: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
"""Execution options of a transaction that reads: it sees one state of the database, and can neither fail as busy nor
hold up a writer."""

# An upgrade waits for locks first and must see what was committed meanwhile.
_OPTIONS = {Access.EXAMINE: READING, Access.MIGRATE: {"isolation_level": "READ COMMITTED"}}

_MIGRATION_LOCK = 0x7065_6761  # any number will do, as long as all versions use the same
# A host that was stopped in the middle of a transaction must not hold up all others.
_IDLE_LIMIT_MS = 60_000
# A network that drops packets is noticed in seconds, not hours; a peer that takes them and says nothing is noticed by
# `HostView.silence_s`. libpq's names and units (s, s, s, count, ms).
_CONNECTING = {
    "application_name": "pega-tune",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


def server_engine(database: Database, access: Access, host: HostView) -> Engine:
    """An engine whose connections are set up for `access`. Nothing is opened yet.

    Options cannot be taken back, so that an engine for both leaves them to those who know what they begin.

    Raises:
        DatabaseRefusedError: the driver is not installed.
    """
    of_this_version = access in (Access.READ, Access.WRITE)
    try:
        engine = create_engine(
            database.url,
            connect_args={**_arguments(database), **database.secrets},
            poolclass=QueuePool if of_this_version else NullPool,
        )
    except ModuleNotFoundError as error:
        raise DatabaseRefusedError(
            f"the driver of {database} is not installed: {error.name}", "pip install 'pega-tune[postgres]'"
        ) from error
    limits = _limits(host)
    # How long a migration works on its tables without a word depends on how large they are.
    _watch(engine, math.inf if access is Access.MIGRATE else host.silence_s)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # The lock comes before the first statement that takes a snapshot: one that is older than a migration would
        # find the tables that it rewrote empty (https://www.postgresql.org/docs/current/mvcc-caveats.html).
        connection.exec_driver_sql(
            limits + ("LOCK TABLE alembic_version IN ACCESS SHARE MODE" if of_this_version else "")
        )

    return engine if of_this_version else engine.execution_options(**_OPTIONS[access])


def lock_migrations(connection: Connection) -> None:
    """Waits until no other host migrates the database, and keeps others from it until the transaction ends."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})


def lock_tables(connection: Connection) -> None:
    """Waits until nobody reads or writes, and keeps others from it until the transaction ends."""
    if inspect(connection).has_table("alembic_version"):
        connection.execute(text("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE"))


def require_unicode(connection: Connection, label: str) -> None:
    """Refuses a database whose encoding cannot hold all text; `label` is what the message calls it.

    Raises:
        DatabaseRefusedError: as said.
    """
    driver: Any = connection.connection.driver_connection
    encoding = driver.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise DatabaseRefusedError(
            f"{label} is encoded in {encoding}", "make one with: createdb --encoding UTF8 --template template0"
        )


def _watch(engine: Engine, silence_s: float) -> None:
    # Late, as the driver need not be installed for everything else.
    from pega_tune.profiles.store.server_connection import WatchedConnection

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, words: list[str], options: dict[str, Any]) -> WatchedConnection:
        connection = WatchedConnection.connect(*words, **options)
        connection.silence_s = silence_s
        return connection


def _arguments(database: Database) -> dict[str, Any]:
    asked = {name: value for name, value in _CONNECTING.items() if name not in database.url.query}
    # A statement that the server prepared would fail after a migration, and behind a pooler of transactions.
    return {**asked, "prepare_threshold": None}


def _limits(host: HostView) -> str:
    waits_ms = max(1, round(1000 * host.busy_timeout_s))
    return f"SET LOCAL lock_timeout = {waits_ms}; SET LOCAL idle_in_transaction_session_timeout = {_IDLE_LIMIT_MS};"
