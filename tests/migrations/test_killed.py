"""Whoever dies in the middle of a migration, after whichever statement, leaves the old state behind."""

import shutil
from pathlib import Path

import pytest

from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.store.errors import StoreError
from pega_tune.profiles.store.migrate import check, current, upgrade
from tests.helpers.later import later_scripts
from tests.helpers.places import Contents, Place, plain
from tests.helpers.postgresql import Server
from tests.helpers.store import counting_changes, die_after_each_statement, in_processes, sqlite_url


def changes_of(url: str, scripts: Path | None = None) -> int:
    """How many changing statements an upgrade of the database takes."""
    numbers: list[int] = []
    with counting_changes(numbers.append):
        upgrade(url, scripts=scripts)
    return numbers[-1]


def test_while_creating_a_file(tmp_path: Path) -> None:
    changes = changes_of(sqlite_url(tmp_path / "counted.db"))
    assert changes > 10
    urls = [sqlite_url(tmp_path / f"{number}.db") for number in range(changes)]
    assert in_processes(die_after_each_statement, [(urls, None)]) == [0]
    for url in urls:
        assert current(url) is None
        assert upgrade(url).after == SCHEMA_REVISION
        assert check(url).ok


@pytest.mark.parametrize("empty", ["sqlite"], indirect=True)
def test_while_upgrading_a_file(tmp_path: Path, stocked: Place) -> None:
    before, scripts = stocked.contents(), later_scripts(tmp_path)
    path = tmp_path / "new.db"
    changes = changes_of(sqlite_url(Path(shutil.copy(path, tmp_path / "counted.db"))), scripts)
    assert changes > 10
    copies = [Place(sqlite_url(Path(shutil.copy(path, tmp_path / f"{number}.db")))) for number in range(changes)]
    assert in_processes(die_after_each_statement, [([copy.url for copy in copies], scripts)]) == [0]
    for copy in copies:
        assert_upgrades(copy, before, scripts)


@pytest.mark.parametrize("empty", ["postgresql"], indirect=True)
def test_while_creating_on_a_server(empty: Place) -> None:
    changes = changes_of(empty.url)
    assert changes > 10
    expected = empty.contents()
    for last in range(1, changes + 1):
        with plain(empty.url) as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
        die_on_server(empty.url, last, None)
        assert current(empty.url) is None
        assert empty.contents() == {}
        assert upgrade(empty.url).after == SCHEMA_REVISION
        assert empty.contents() == expected


@pytest.mark.parametrize("empty", ["postgresql"], indirect=True)
def test_while_upgrading_on_a_server(tmp_path: Path, postgresql: Server, stocked: Place) -> None:
    before, scripts = stocked.contents(), later_scripts(tmp_path)
    template = stocked.url.partition("@/")[2].partition("?")[0]
    changes = changes_of(postgresql.url(postgresql.create(template)), scripts)
    assert changes > 4
    for last in range(1, changes + 1):
        copy = Place(postgresql.url(postgresql.create(template)))
        die_on_server(copy.url, last, scripts)
        assert_upgrades(copy, before, scripts)


@pytest.mark.parametrize("empty", ["postgresql"], indirect=True)
def test_a_process_that_dies_keeps_no_server_waiting(tmp_path: Path, stocked: Place) -> None:
    before, scripts = stocked.contents(), later_scripts(tmp_path)
    assert in_processes(die_after_each_statement, [([stocked.url] * 3, scripts)]) == [0]
    assert_upgrades(stocked, before, scripts)


def die_on_server(url: str, last: int, scripts: Path | None) -> None:
    """Upgrades a database whose server ends the connection after a changing statement."""

    def end(number: int) -> None:
        if number == last:
            with plain(url) as connection:
                mine = "datname = current_database() AND pid <> pg_backend_pid()"
                connection.exec_driver_sql(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {mine}")

    with counting_changes(end), pytest.raises(StoreError, match="is not usable"):
        upgrade(url, scripts=scripts)


def assert_upgrades(place: Place, before: Contents, scripts: Path) -> None:
    """The database is as it was, and the next upgrade loses nothing of it."""
    assert current(place.url) == "0001"
    assert place.contents() == before
    assert upgrade(place.url, scripts=scripts).after == "0002"
    old = {table: content for table, content in before.items() if table != "alembic_version"}
    assert place.contents(old) == old
    assert place.counts() == {**{table: content.rows for table, content in before.items()}, "note": 0}
