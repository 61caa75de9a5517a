"""How SQLite is told to behave."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from pega_tune.errors import DataError
from pega_tune.profiles.store.access import Access
from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.engine_setup import (
    WRITES,
    connect_read_only,
    open_engine,
    set_journal,
    settle_journal,
)
from pega_tune.profiles.store.errors import DatabaseBusyError
from pega_tune.profiles.store.migrate import upgrade
from pega_tune.profiles.store.store import Store
from tests.helpers.store import (
    LOCAL_MOUNTS,
    NETWORK_MOUNTS,
    host_view,
    rows,
    sqlite_url,
    sweep_record,
    unprivileged,
    unprivileged_folder,
)

DIE_WHILE_COMMITTING = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size=1")
connection.execute("BEGIN")
connection.execute("CREATE TABLE half (x)")
connection.executemany("INSERT INTO half VALUES (?)", [("x" * 4000,) for _ in range(2000)])
os._exit(9)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    upgrade(sqlite_url(path))
    return path


@contextmanager
def engine(path: Path, access: Access) -> Iterator[Engine]:
    opened = open_engine(Database.parse(sqlite_url(path)), access, host_view(busy_timeout_s=0.01))
    try:
        yield opened
    finally:
        opened.dispose()


class TestJournal:
    @pytest.mark.parametrize(
        ("mounts", "mode"),
        [(LOCAL_MOUNTS, "wal"), (NETWORK_MOUNTS, "delete"), ("", "delete"), ("nonsense\n", "delete")],
    )
    def test_write_ahead_log_on_local_file_systems_only(self, path: Path, mounts: str, mode: str) -> None:
        assert settle_journal(path, host_view(mounts)).mode == mode
        assert rows(path, "PRAGMA journal_mode") == [(mode,)]

    def test_leaves_the_log_where_it_is_not_safe(self, path: Path) -> None:
        settle_journal(path, host_view(LOCAL_MOUNTS))
        journal = settle_journal(path, host_view(NETWORK_MOUNTS))
        assert journal.mode == "delete"
        assert "nfs4" in journal.warning
        assert "PostgreSQL" in journal.warning

    def test_the_store_passes_the_warning_on(self, path: Path) -> None:
        with Store.open(sqlite_url(path), host=host_view(NETWORK_MOUNTS)) as store:
            assert len(store.warnings) == 1
        with Store.open(sqlite_url(path), host=host_view(LOCAL_MOUNTS)) as store:
            assert store.warnings == ()

    def test_takes_no_for_an_answer(self, path: Path) -> None:
        # This way of locking has no shared memory, so SQLite itself declines.
        with closing(sqlite3.connect(f"file:{path}?vfs=unix-dotfile", uri=True)) as connection:
            assert set_journal(connection, "wal", give_up_s=0.0) == "delete"

    def test_a_file_in_use_keeps_its_mode(self, path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            journal = settle_journal(path, host_view(LOCAL_MOUNTS, busy_timeout_s=0.01, give_up_s=0.05))
        assert journal.mode == "delete"
        assert "journal mode delete" in journal.warning


class TestConnections:
    @pytest.mark.parametrize(
        ("access", "mounts", "foreign_keys", "synchronous"),
        [
            (Access.WRITE, LOCAL_MOUNTS, 1, 1),
            (Access.WRITE, NETWORK_MOUNTS, 1, 2),
            (Access.MIGRATE, LOCAL_MOUNTS, 0, 1),
        ],
    )
    def test_pragmas_of_every_connection(
        self, path: Path, access: Access, mounts: str, foreign_keys: int, synchronous: int
    ) -> None:
        settle_journal(path, host_view(mounts))
        with (
            engine(path, access) as opened,
            closing(opened.raw_connection()) as first,
            closing(opened.raw_connection()) as second,
        ):
            for connection in (first, second):
                for pragma, value in (
                    ("foreign_keys", foreign_keys),
                    ("synchronous", synchronous),
                    ("busy_timeout", 10),
                ):
                    cursor = connection.cursor()
                    cursor.execute(f"PRAGMA {pragma}")
                    assert cursor.fetchone() == (value,), pragma

    @pytest.mark.parametrize(("access", "writes"), [(Access.WRITE, True), (Access.MIGRATE, False)])
    def test_a_writer_locks_when_it_begins(self, path: Path, access: Access, writes: bool) -> None:
        settle_journal(path, host_view())
        with engine(path, access) as opened, closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            writer = opened.execution_options(**{WRITES: writes})
            with writer.begin(), pytest.raises(sqlite3.OperationalError, match="locked"):
                other.execute("BEGIN IMMEDIATE")
            other.execute("BEGIN IMMEDIATE")

    def test_a_reader_does_not(self, path: Path) -> None:
        other = sqlite3.connect(path, timeout=0)
        with closing(other), engine(path, Access.WRITE) as opened, opened.begin() as connection:
            connection.execute(text("SELECT count(*) FROM sweep"))
            other.execute("BEGIN IMMEDIATE")

    def test_what_is_undone_includes_tables(self, path: Path) -> None:
        with engine(path, Access.WRITE) as opened, opened.connect() as connection, connection.begin() as transaction:
            connection.execute(text("CREATE TABLE other (x INTEGER)"))
            transaction.rollback()
        assert rows(path, "SELECT * FROM sqlite_master WHERE name = 'other'") == []


class TestReadingOnly:
    def test_writes_nothing(self, path: Path) -> None:
        with closing(connect_read_only(path, 1.0)) as connection, pytest.raises(sqlite3.OperationalError):
            connection.execute("DELETE FROM sweep")

    def test_creates_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(sqlite3.OperationalError):
            connect_read_only(tmp_path / "absent.db", 1.0)
        assert list(tmp_path.iterdir()) == []

    def test_a_log_in_a_folder_that_cannot_be_written_is_no_obstacle(self) -> None:
        with unprivileged_folder() as folder:
            url = sqlite_url(folder / "store.db")
            with Store.open(url, host=host_view()) as store:
                store.add_sweep(sweep_record())
            assert [file.name for file in folder.iterdir()] == ["store.db"]
            (folder / "store.db").chmod(0o444)
            folder.chmod(0o555)
            with unprivileged(), Store.open(url, read_only=True, host=host_view()) as store:
                assert len(store.sweeps()) == 1
            folder.chmod(0o755)

    def test_beside_a_file_that_nobody_may_write_nothing_is_left(self) -> None:
        with unprivileged_folder() as folder:
            path = folder / "store.db"
            with Store.open(sqlite_url(path), host=host_view()) as store:
                store.add_sweep(sweep_record())
            path.chmod(0o444)
            with unprivileged():
                with Store.open(sqlite_url(path), read_only=True, host=host_view()) as store:
                    assert len(store.sweeps()) == 1
                assert [file.name for file in folder.iterdir()] == ["store.db"]

    def test_a_writer_that_died_while_committing_is_rolled_back_first(self, path: Path) -> None:
        died = subprocess.run([sys.executable, "-c", DIE_WHILE_COMMITTING, str(path)], check=False)
        assert died.returncode == 9
        assert path.with_name(path.name + "-journal").exists()
        with closing(connect_read_only(path, 1.0)) as connection:
            assert connection.execute("SELECT * FROM sqlite_master WHERE name = 'half'").fetchall() == []
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


class TestWaiting:
    def test_a_store_waits_for_another_writer(self, path: Path) -> None:
        host = host_view(busy_timeout_s=0.01, give_up_s=60.0)
        with Store.open(sqlite_url(path), host=host) as store, closing(busy(path)) as other:
            threading.Timer(0.3, other.rollback).start()
            store.add_sweep(sweep_record())
            assert len(store.sweeps()) == 1

    def test_but_not_for_ever_and_says_so_in_plain_words(self, path: Path) -> None:
        host = host_view(busy_timeout_s=0.01, give_up_s=0.05)
        with (
            Store.open(sqlite_url(path), host=host) as store,
            closing(busy(path)),
            pytest.raises(DatabaseBusyError) as caught,
        ):
            store.add_sweep(sweep_record())
        assert isinstance(caught.value, DataError)
        assert "database is locked" not in caught.value.message
        assert str(path) in caught.value.message


def busy(path: Path) -> sqlite3.Connection:
    """Another writer, in the middle of a transaction."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    return connection
