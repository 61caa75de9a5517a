"""Backups of a live database, and the check of one."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.store.errors import DatabaseDamagedError, DatabaseRefusedError, StoreError
from pega_tune.profiles.store.migrate import TableCount, backup, check
from pega_tune.profiles.store.store import Store
from pega_tune.profiles.store.translation import translated
from tests.helpers.store import (
    LOCAL_MOUNTS,
    block_record,
    counts,
    host_view,
    rows,
    sqlite_url,
    sweep_record,
    unprivileged,
    unprivileged_folder,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def url(path: Path) -> str:
    return sqlite_url(path)


def test_holds_what_is_still_in_the_log(path: Path, url: str, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    with Store.open(url, host=host_view(LOCAL_MOUNTS)) as store, closing(sqlite3.connect(path)) as reader:
        # A reader keeps the log from being folded into the database.
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM sweep").fetchall()
        store.add_sweep(sweep_record())
        store.add_block("aa11", block_record())
        assert path.with_name(path.name + "-wal").stat().st_size > 0
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("DELETE FROM block")
            assert backup(url, target) == target
    assert counts(target) == {**counts(path)}
    assert counts(target)["measurement"] == 4


def test_is_one_file_and_can_be_opened(url: str, tmp_path: Path) -> None:
    Store.open(url, host=host_view(LOCAL_MOUNTS)).close()
    before = {file.name for file in tmp_path.iterdir()}
    target = backup(url, tmp_path / "copy.db")
    assert {file.name for file in tmp_path.iterdir()} == before | {"copy.db"}
    assert rows(target, "PRAGMA journal_mode") == [("delete",)]
    assert check(sqlite_url(target)).ok


def test_never_overwrites(url: str, tmp_path: Path) -> None:
    Store.open(url, host=host_view()).close()
    target = tmp_path / "precious"
    target.write_text("mine")
    with pytest.raises(DatabaseRefusedError, match="exists already"):
        backup(url, target)
    assert target.read_text() == "mine"


@pytest.mark.parametrize("name", ["absent folder/copy.db", "store.db/copy.db"])
def test_nowhere_to_write_it(url: str, tmp_path: Path, name: str) -> None:
    Store.open(url, host=host_view()).close()
    with pytest.raises(DatabaseRefusedError, match="there is no directory"):
        backup(url, tmp_path / name)


def test_nothing_to_copy(url: str, tmp_path: Path) -> None:
    with pytest.raises(DatabaseRefusedError, match="there is no database"):
        backup(url, tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_database_gives_no_backup(path: Path, url: str, tmp_path: Path) -> None:
    damage(path, url)
    with pytest.raises(DatabaseDamagedError, match=r"store\.db is damaged"):
        backup(url, tmp_path / "copy.db")
    assert {file.name for file in tmp_path.iterdir()} == {path.name}


def test_a_folder_that_cannot_be_written_is_told_by_the_name_asked_for() -> None:
    with unprivileged_folder() as folder:
        Store.open(sqlite_url(folder / "store.db"), host=host_view()).close()
        target = folder / "closed" / "copy.db"
        target.parent.mkdir(mode=0o555)
        with unprivileged(), pytest.raises(DatabaseRefusedError) as caught:
            backup(sqlite_url(folder / "store.db"), target)
    assert caught.value.message == f"{target} cannot be written: Permission denied"


@pytest.mark.parametrize("tables", [[], ["bookmark"], ["alembic_version", "bookmark"]])
def test_what_is_not_ours_is_not_copied(path: Path, url: str, tmp_path: Path, tables: list[str]) -> None:
    path.touch()
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in tables:
            connection.execute(f"CREATE TABLE {table} (version_num TEXT)")
    with pytest.raises(DatabaseRefusedError, match="another program" if tables else "is empty"):
        backup(url, tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("spoil", "damage"),
    [
        ("DROP TABLE measurement", "the table measurement is missing"),
        ("ALTER TABLE cell DROP COLUMN detail", "the column cell.detail is missing"),
    ],
)
def test_check_finds_what_is_missing(path: Path, url: str, spoil: str, damage: str) -> None:
    Store.open(url, host=host_view()).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(spoil)
    report = check(url)
    assert (report.ok, report.damage) == (False, (damage,))


def test_a_full_disk_is_told_in_words_that_fit_a_backup_too() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA max_page_count=1")
        with pytest.raises(StoreError) as caught, translated("/mnt/copy.db"):
            connection.execute("CREATE TABLE t (x)")
    assert caught.value.message == "no space is left for /mnt/copy.db"
    assert "free some" in caught.value.hint
    assert "resume" not in caught.value.hint


def test_check_of_a_good_one(url: str) -> None:
    with Store.open(url, host=host_view()) as store:
        store.add_sweep(sweep_record())
        report = check(url)
    assert report.ok
    assert report.revision == report.expected == SCHEMA_REVISION
    assert TableCount("sweep", 1) in report.counts
    assert TableCount("cell", 0) in report.counts


def test_check_finds_dangling_references(path: Path, url: str) -> None:
    Store.open(url, host=host_view()).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO board VALUES ('GPU-1', 'gone', 'h', 't')")
    report = check(url)
    assert not report.ok
    assert report.dangling == ("board row 1 refers to a missing device",)


def test_check_finds_damage_and_goes_on(path: Path, url: str) -> None:
    damage(path, url)
    report = check(url)
    assert not report.ok
    assert report.damage


def test_check_names_another_revision(path: Path, url: str) -> None:
    Store.open(url, host=host_view()).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0000'")
    report = check(url)
    assert (report.ok, report.revision, report.damage) == (False, "0000", ())


def damage(path: Path, url: str) -> None:
    """Overwrites the pages behind the first."""
    with Store.open(url, host=host_view()) as store:
        store.add_sweep(sweep_record())
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\x7f" * (path.stat().st_size - 4096))
