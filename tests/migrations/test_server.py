"""Migrations of a database on a server: as of a file, and beside others who use it."""

import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect

from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.store.errors import DatabaseRefusedError, StoreError
from pega_tune.profiles.store.migrate import Upgrade, backup, check, upgrade
from pega_tune.profiles.store.models import Base
from pega_tune.profiles.store.store import Store
from tests.helpers.described import described
from tests.helpers.later import later_scripts
from tests.helpers.places import Place, plain
from tests.helpers.postgresql import Server
from tests.helpers.store import (
    LOCAL_MOUNTS,
    host_view,
    in_processes,
    open_and_add_blocks,
    profile_record,
    publish_until_refused,
    sqlite_url,
    sweep_record,
    upgrade_once,
)

on_server = pytest.mark.parametrize("empty", ["postgresql"], indirect=True)


@on_server
def test_models_are_what_the_migrations_build(postgresql: Server, empty: Place) -> None:
    assert upgrade(empty.url) == Upgrade(None, SCHEMA_REVISION, None)
    assert upgrade(empty.url) == Upgrade(SCHEMA_REVISION, SCHEMA_REVISION, None)
    assert check(empty.url).ok
    modelled = postgresql.url(postgresql.create())
    with plain(modelled) as other:
        Base.metadata.create_all(other)
        with plain(empty.url) as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, Base.metadata) == []
            assert described(inspect(connection)) == described(inspect(other))


@on_server
def test_keeps_every_row(tmp_path: Path, stocked: Place) -> None:
    before = stocked.contents()
    assert upgrade(stocked.url, scripts=later_scripts(tmp_path)) == Upgrade("0001", "0002", None)
    del before["alembic_version"]
    assert stocked.contents(before) == before


@on_server
def test_one_that_would_lose_something_is_undone(tmp_path: Path, stocked: Place) -> None:
    before = stocked.contents()
    with pytest.raises(StoreError, match="measurement had 8 rows and would have 0"):
        upgrade(stocked.url, scripts=later_scripts(tmp_path, "op.execute('DELETE FROM measurement')"))
    assert stocked.contents() == before


def test_a_newer_database_is_refused_and_left_alone(stocked: Place) -> None:
    with plain(stocked.url) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    before = stocked.contents()
    for attempt in (lambda: upgrade(stocked.url), lambda: Store.open(stocked.url, host=host_view())):
        with pytest.raises(DatabaseRefusedError, match="written by a newer pega-tune"):
            attempt()
    assert stocked.contents() == before


def test_a_store_that_was_open_writes_nothing_to_a_newer_database(tmp_path: Path, stocked: Place) -> None:
    with Store.open(stocked.url, host=host_view()) as store:
        upgrade(stocked.url, scripts=later_scripts(tmp_path))
        before = stocked.contents()
        with pytest.raises(DatabaseRefusedError, match="written by a newer pega-tune"):
            store.add_sweep(sweep_record("bb22"))
    assert stocked.contents() == before


@on_server
def test_of_hosts_that_start_on_an_empty_database_one_creates_it(empty: Place) -> None:
    sweeps = [(empty.url, LOCAL_MOUNTS, f"sweep{number}", ["b1", "b2"]) for number in range(3)]
    assert in_processes(open_and_add_blocks, sweeps) == [0] * 3
    assert check(empty.url).ok
    assert empty.counts()["block"] == 6


@on_server
def test_upgrades_at_the_same_time_wait_for_each_other(empty: Place) -> None:
    assert in_processes(upgrade_once, [(empty.url,)] * 3) == [0] * 3
    assert check(empty.url).ok


def test_what_is_published_beside_an_upgrade_is_kept(tmp_path: Path, stocked: Place) -> None:
    notes = [tmp_path / f"acknowledged{number}" for number in range(2)]
    codes: list[int | None] = []
    publishers = [(stocked.url, number, file) for number, file in enumerate(notes)]
    publishing = threading.Thread(target=lambda: codes.extend(in_processes(publish_until_refused, publishers)))
    publishing.start()
    while not all(file.exists() and file.read_text().count("\n") > 5 for file in notes):
        assert publishing.is_alive()
    upgrade(stocked.url, scripts=later_scripts(tmp_path))
    publishing.join()
    assert codes == [0, 0]
    acknowledged = {line for file in notes for line in file.read_text().split()}
    assert {profile for (profile,) in stocked.rows("SELECT profile_id FROM profile")} >= acknowledged


@on_server
def test_who_reads_beside_an_upgrade_never_finds_it_empty(tmp_path: Path, stocked: Place) -> None:
    # A rewritten table looks empty to whoever took a snapshot before; such a reader has to wait first.
    rewriting = "op.execute('ALTER TABLE profile ALTER COLUMN simulated TYPE bigint')"
    sizes: set[int] = set()
    done = threading.Event()

    def read() -> None:
        with Store.open(stocked.url, read_only=True, host=host_view()) as store:
            while not done.is_set():
                sizes.add(len(store.profiles()))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        upgrade(stocked.url, scripts=later_scripts(tmp_path, rewriting))
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert sizes == {2}


@on_server
def test_a_backup_holds_all_that_was_committed(tmp_path: Path, stocked: Place) -> None:
    with Store.open(stocked.url, host=host_view()) as store:
        store.add_profile(profile_record("ff02"))
        copy = Place(sqlite_url(backup(stocked.url, tmp_path / "copy.db")))
        assert copy.contents() == stocked.contents()
        assert check(copy.url).ok
        with Store.open(copy.url, read_only=True, host=host_view()) as copied:
            assert copied.profiles() == store.profiles()
            assert list(copied.blocks("aa11")) == list(store.blocks("aa11"))
    assert [file.name for file in tmp_path.iterdir()] == ["copy.db"]


@on_server
def test_there_is_nothing_to_back_up_in_an_empty_database(tmp_path: Path, empty: Place) -> None:
    with pytest.raises(DatabaseRefusedError, match="is empty"):
        backup(empty.url, tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []
