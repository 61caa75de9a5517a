"""Databases that are refused, each with one clear line, and left as they were."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from pega_tune.errors import DataError, UsageError
from pega_tune.profiles.store.database import Database
from pega_tune.profiles.store.errors import DatabaseDamagedError, DatabaseRefusedError, RecordDamagedError
from pega_tune.profiles.store.migrate import upgrade
from pega_tune.profiles.store.store import Store
from tests.helpers.store import host_view, rows, sqlite_url, sweep_record, unprivileged, unprivileged_folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def refusal(path: Path, **options: bool) -> DataError:
    with pytest.raises(DataError) as caught:
        Store.open(sqlite_url(path), host=host_view(), **options).close()
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def a_directory(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def not_sqlite(path: Path) -> None:
    path.write_bytes(b"name,value\n" * 1000)


def another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE bookmark (x)")


def another_program_with_migrations(path: Path) -> None:
    another_program(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE profile (x)")
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('abc')")


def a_loop(path: Path) -> None:
    path.symlink_to(path.name)


def a_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere.db")


def malformed(path: Path) -> None:
    upgrade(sqlite_url(path))
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 3000)


def revision(number: str) -> Callable[[Path], None]:
    def prepare(path: Path) -> None:
        upgrade(sqlite_url(path))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = ?", (number,))

    return prepare


def two_revisions(path: Path) -> None:
    upgrade(sqlite_url(path))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO alembic_version VALUES ('0002')")


@pytest.mark.parametrize(
    ("prepare", "message", "hint"),
    [
        (a_directory, "is a directory", "--db"),
        (a_pipe, "is not a regular file", "--db"),
        (not_sqlite, "is not an SQLite database", "--db"),
        (another_program, "belongs to another program", "--db"),
        (another_program_with_migrations, "belongs to another program", "--db"),
        (a_loop, "symbolic link", "--db"),
        (a_dangling_link, "symbolic link", "--db"),
        (malformed, "is damaged", "backup"),
        (revision("0000"), "older revision 0000", "pega-tune db upgrade"),
        (revision("9999"), "written by a newer pega-tune", "update pega-tune"),
        (revision("deadbeef"), "written by a newer pega-tune", "update pega-tune"),
        (two_revisions, "2 revisions", "backup"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_refused_and_left_alone(
    path: Path, prepare: Callable[[Path], None], message: str, hint: str, read_only: bool
) -> None:
    prepare(path)
    content = path.read_bytes() if path.is_file() else None
    error = refusal(path, read_only=read_only)
    assert message in error.message
    assert str(path) in error.message
    assert hint in error.hint
    assert (path.read_bytes() if path.is_file() else None) == content
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("options", [{"create": False}, {"read_only": True}])
def test_nothing_there(path: Path, options: dict[str, bool]) -> None:
    error = refusal(path, **options)
    assert "there is no database" in error.message
    assert "pega-tune sweep" in error.hint
    assert not path.exists()
    path.touch()
    assert "is empty" in refusal(path, **options).message
    assert path.stat().st_size == 0


def test_an_empty_file_is_filled(path: Path) -> None:
    path.touch()
    with Store.open(sqlite_url(path), host=host_view()) as store:
        assert store.sweeps() == ()


def test_a_file_where_a_directory_should_be(path: Path) -> None:
    path.touch()
    error = refusal(path / "below" / "store.db")
    assert "cannot create the directory" in error.message


def test_where_the_kernel_lets_nobody_create_files() -> None:
    assert isinstance(refusal(Path("/proc/self/store.db")), DatabaseRefusedError)


@pytest.mark.parametrize("mode_of_file", [0o444, 0o644])
def test_read_only_file_or_directory(mode_of_file: int) -> None:
    with unprivileged_folder() as folder:
        path = folder / "store.db"
        Store.open(sqlite_url(path), host=host_view()).close()
        path.chmod(mode_of_file)
        folder.chmod(0o777 if mode_of_file == 0o444 else 0o555)
        with unprivileged():
            error = refusal(path)
            absent = refusal(folder / "absent" / "store.db") if mode_of_file != 0o444 else None
        folder.chmod(0o755)
        assert "is read-only" in error.message
        assert "sweep" in error.hint
        assert absent is None or "cannot create the directory" in absent.message


def test_a_file_that_nobody_may_write_is_read_only_for_root_too(path: Path) -> None:
    upgrade(sqlite_url(path))
    path.chmod(0o444)
    assert "is read-only" in refusal(path).message


def test_one_unreadable_record_does_not_stop_the_rest(path: Path) -> None:
    with Store.open(sqlite_url(path), host=host_view()) as store:
        store.add_sweep(sweep_record())
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE sweep SET facts = '{}'")
        with pytest.raises(RecordDamagedError, match="sweep aa11 cannot be read"):
            store.sweep("aa11")
        store.add_sweep(sweep_record("bb22"))
        assert store.sweep("bb22").sweep == sweep_record("bb22")


def test_a_damaged_database_is_written_no_more(path: Path) -> None:
    with Store.open(sqlite_url(path), host=host_view()) as store:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DROP TABLE profile")
        with pytest.raises(DatabaseDamagedError, match="lacks a part of its schema: no such table: profile"):
            store.profiles()
        with pytest.raises(DatabaseRefusedError, match="nothing more is written"):
            store.add_sweep(sweep_record())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ("DROP TABLE measurement", "the table measurement is missing"),
        ("ALTER TABLE cell DROP COLUMN detail", "the column cell.detail is missing"),
    ],
)
def test_a_database_that_lacks_a_part_is_not_opened_to_write(path: Path, spoil: str, message: str) -> None:
    upgrade(sqlite_url(path))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(spoil)
    content = path.read_bytes()
    error = refusal(path)
    assert isinstance(error, DatabaseDamagedError)
    assert message in error.message
    assert "db check" in error.hint
    assert path.read_bytes() == content


def test_nor_is_one_with_a_broken_page_of_rows(path: Path) -> None:
    with Store.open(sqlite_url(path), host=host_view()) as store:
        store.add_sweep(sweep_record())
    content = bytearray(path.read_bytes())
    (page,) = rows(path, "SELECT rootpage FROM sqlite_master WHERE name = 'sweep'")[0]
    content[4096 * (page - 1) : 4096 * page] = b"\x7f" * 4096
    path.write_bytes(content)
    assert isinstance(refusal(path), DatabaseDamagedError)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=ro&uri=true",
        "sqlite:////tmp/x.db?timeout=1",
        "postgresql://me:word@host:port/x",
        "postgresql://[::1/x",
        "/tmp/x.db",
        "",
    ],
)
def test_what_is_no_url_of_a_lasting_database(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Database.parse(url)
    assert caught.value.hint


@pytest.mark.parametrize("url", ["mysql://me@host/x", "sqlite+aiosqlite:////tmp/x.db", "postgresql+abacus://me@host/x"])
def test_kinds_of_databases_that_are_not_supported(url: str) -> None:
    with pytest.raises(DatabaseRefusedError) as caught:
        Store.open(url)
    assert caught.value.hint


def test_a_name_with_odd_characters_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a b%20#ü" / "100% store.db"
    Store.open(sqlite_url(path), host=host_view()).close()
    assert path.exists()
    copy = shutil.copy(path, tmp_path / "copy.db")
    Store.open(sqlite_url(copy), create=False, host=host_view()).close()


def test_a_password_is_not_shown() -> None:
    for url in ("postgresql+psycopg://me:secret@host/x", "postgresql://host/x?user=me&pass%77ord=secret"):
        shown = str(Database.parse(url))
        assert "secret" not in shown
        assert "host" in shown
