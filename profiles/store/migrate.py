"""Bringing a database to the schema of this version. The migrations run in-process, all of them in one transaction."""

import threading
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from pega_tune.profiles.store.access import Access
from pega_tune.profiles.store.backup import backup, copy_database
from pega_tune.profiles.store.check import CheckReport, TableCount, check, count_rows
from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.engine_setup import open_engine
from pega_tune.profiles.store.errors import StoreError
from pega_tune.profiles.store.host import HostView
from pega_tune.profiles.store.opening import revision_of
from pega_tune.profiles.store.revision import VERSION_TABLE, read_revision, wrong_revision
from pega_tune.profiles.store.server import lock_migrations, lock_tables
from pega_tune.profiles.store.soundness import dangling_references
from pega_tune.profiles.store.transactions import patiently
from pega_tune.profiles.store.translation import translated

__all__ = [
    "CheckReport",
    "TableCount",
    "Upgrade",
    "backup",
    "check",
    "current",
    "head",
    "migrations_path",
    "upgrade",
    "upgrade_database",
]

# Alembic keeps the running migration in module globals, so two threads cannot migrate at once.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What an upgrade did.

    Attributes:
        before: revision it found; None if the database was new or empty.
        after: revision it left.
        backup: copy of the database as it was before; None if nothing was changed, or there was nothing to copy.
    """

    before: str | None
    after: str
    backup: Path | None


def migrations_path() -> Path:
    """The directory of the migrations, wherever the package is installed."""
    return Path(str(files("pega_tune.migrations")))


def head(scripts: Path | None = None) -> str:
    """The newest revision in `scripts` (the program's own by default).

    Raises:
        alembic.util.CommandError: there are several heads.
    """
    revision = _directory(_config(scripts or migrations_path())).get_current_head()
    assert revision is not None
    return revision


def current(url: str, *, host: HostView | None = None) -> str | None:
    """The database's revision; None if it is missing or empty. Creates and changes nothing.

    Raises:
        DatabaseRefusedError: it is not one of ours.
        StoreError: it cannot be read.
    """
    return revision_of(Database.parse(url), host or HostView())


def upgrade(url: str, *, host: HostView | None = None, scripts: Path | None = None) -> Upgrade:
    """Brings the database to the newest revision in `scripts`, creating it if need be.

    It happens whole or not at all: a process killed on the way leaves the old database. Upgrades at the same time wait
    for each other. A SQLite database that is not new is copied first, into a file beside it.

    Raises:
        DatabaseRefusedError: the database is newer than this version, not one of ours, or cannot be written.
        StoreError: it cannot be used, or the upgrade would have lost rows; it is as before then.
    """
    return upgrade_database(Database.parse(url), host or HostView(), scripts)


def upgrade_database(
    database: Database, host: HostView, scripts: Path | None = None, revision: str = "head"
) -> Upgrade:
    """As `upgrade`, for a parsed URL, to `revision`."""
    database.require_writable()
    config = _config(scripts or migrations_path())
    config.attributes["revision"] = revision
    engine = open_engine(database, Access.MIGRATE, host)
    try:
        with _ONE_AT_A_TIME, translated(str(database)):
            return patiently(lambda: _upgrade(engine, database, config, host), host.give_up_s)
    finally:
        engine.dispose()


def _upgrade(engine: Engine, database: Database, config: Config, host: HostView) -> Upgrade:
    label = str(database)
    with engine.connect() as connection, connection.begin():
        if database.path is None:
            lock_migrations(connection)
        before, directory = read_revision(connection, label), _directory(config)
        wanted = directory.get_revision(config.attributes["revision"])
        assert wanted is not None
        after = wanted.revision
        if before == after:
            return Upgrade(before, after, None)
        if before is not None and before not in {script.revision for script in directory.walk_revisions()}:
            raise wrong_revision(label, before)
        if database.path is None:
            lock_tables(connection)
        # Nobody else writes now, so what is copied and counted is what is upgraded.
        saved = _save(database.path, before, host) if database.path and before else None
        counts = count_rows(connection)
        config.attributes["connection"] = connection
        command.upgrade(config, after)
        _require_intact(connection, label, counts)
    return Upgrade(before, after, saved)


def _save(path: Path, revision: str, host: HostView) -> Path:
    stamp = host.now().strftime("%Y%m%dT%H%M%S.%fZ")
    return copy_database(path, path.with_name(f"{path.name}.{revision}.{stamp}.backup"), host)


def _require_intact(connection: Connection, label: str, before: tuple[TableCount, ...]) -> None:
    now = {count.table: count.rows for count in count_rows(connection)}
    changed = [c for c in before if c.table != VERSION_TABLE and now.get(c.table, c.rows) != c.rows]
    problems = [f"{c.table} had {c.rows} rows and would have {now[c.table]}" for c in changed]
    problems += dangling_references(connection)
    if problems:
        raise StoreError(
            f"the upgrade of {label} was undone: {problems[0]}", "the database is as it was; please report this"
        )


def _config(scripts: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return config


def _directory(config: Config) -> ScriptDirectory:
    return ScriptDirectory.from_config(config)
