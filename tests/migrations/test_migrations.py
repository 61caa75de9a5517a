"""The migrations themselves: what they build, and that they build it whole or not at all."""

import logging
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect
from sqlalchemy.pool import NullPool

from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.store.errors import DatabaseRefusedError, StoreError
from pega_tune.profiles.store.migrate import Upgrade, check, current, head, migrations_path, upgrade
from pega_tune.profiles.store.models import Base
from pega_tune.profiles.store.store import Store
from tests.helpers.described import described
from tests.helpers.later import later_scripts
from tests.helpers.store import (
    LOCAL_MOUNTS,
    block_record,
    counts,
    host_view,
    in_processes,
    open_and_add_blocks,
    profile_record,
    rows,
    sqlite_url,
    sweep_record,
    upgrade_once,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def url(path: Path) -> str:
    return sqlite_url(path)


@pytest.fixture
def filled(path: Path, url: str) -> dict[str, int]:
    """Row counts of a database with something in it."""
    with Store.open(url, host=host_view(LOCAL_MOUNTS)) as store:
        store.add_sweep(sweep_record())
        for key in ("b1", "b2"):
            store.add_block("aa11", block_record(key))
        store.add_profile(profile_record())
    return counts(path)


class TestSchema:
    def test_one_head_and_it_is_the_revision_of_this_version(self) -> None:
        config = Config()
        config.set_main_option("script_location", str(migrations_path()))
        assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA_REVISION]
        assert head() == SCHEMA_REVISION

    def test_models_are_what_the_migrations_build(self, path: Path, url: str) -> None:
        upgrade(url)
        engine = create_engine(url, poolclass=NullPool)
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, Base.metadata) == []
        # Alembic does not compare everything: constraints and their names, too, are those of the models.
        modelled = create_engine(sqlite_url(path.with_name("modelled.db")), poolclass=NullPool)
        Base.metadata.create_all(modelled)
        assert described(inspect(engine)) == described(inspect(modelled))

    def test_every_constraint_has_a_name(self, url: str) -> None:
        upgrade(url)
        for table, parts in described(inspect(create_engine(url, poolclass=NullPool))).items():
            assert all(part["name"] for kind in parts.values() for part in kind), table

    def test_what_run_time_readers_rely_on(self, path: Path, url: str) -> None:
        upgrade(url)
        columns = {name: kind for _, name, kind, *_ in rows(path, "PRAGMA table_info(profile)")}
        assert (
            columns.items()
            >= {
                "profile_id": "TEXT",
                "state": "TEXT",
                "simulated": "INTEGER",
                "board_uuid": "TEXT",
                "class_id": "TEXT",
                "family_id": "TEXT",
                "facts": "TEXT",
                "created_at": "TEXT",
                "compiled": "BLOB",
                "digest": "TEXT",
                "kernel_digest": "TEXT",
            }.items()
        )
        assert rows(path, "SELECT version_num FROM alembic_version") == [(SCHEMA_REVISION,)]

    def test_migrations_import_no_project_code(self) -> None:
        for file in migrations_path().rglob("*.py"):
            assert "import pega_tune" not in file.read_text(), file
            assert "from pega_tune" not in file.read_text(), file


class TestUpgrade:
    def test_creates_what_is_missing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir("/")
        url = sqlite_url(tmp_path / "a" / "b c%20" / "store.db")
        assert upgrade(url) == Upgrade(None, SCHEMA_REVISION, None)
        assert upgrade(url) == Upgrade(SCHEMA_REVISION, SCHEMA_REVISION, None)
        assert current(url) == SCHEMA_REVISION
        assert check(url).ok
        assert [file.name for file in (tmp_path / "a" / "b c%20").iterdir()] == ["store.db"]

    def test_keeps_every_row_and_a_backup(self, tmp_path: Path, path: Path, url: str, filled: dict[str, int]) -> None:
        done = upgrade(url, scripts=later_scripts(tmp_path))
        assert (done.before, done.after) == ("0001", "0002")
        assert counts(path) == {**filled, "note": 0}
        assert rows(path, "PRAGMA foreign_key_check") == []
        assert done.backup is not None
        assert done.backup.parent == path.parent
        assert counts(done.backup) == filled
        assert current(sqlite_url(done.backup)) == "0001"

    @pytest.mark.parametrize(
        ("more", "complaint"),
        [
            ("op.execute('DELETE FROM measurement')", "measurement had 8 rows and would have 0"),
            ("op.execute(\"UPDATE fit SET profile_id = 'gone'\")", "fit row 1 refers to a missing profile"),
        ],
    )
    def test_one_that_would_lose_something_is_undone(
        self, tmp_path: Path, path: Path, url: str, filled: dict[str, int], more: str, complaint: str
    ) -> None:
        with pytest.raises(StoreError, match=complaint):
            upgrade(url, scripts=later_scripts(tmp_path, more))
        assert counts(path) == filled
        assert current(url) == "0001"

    def test_leaves_logging_alone(self, url: str) -> None:
        logger = logging.getLogger("pega_tune.somewhere")
        before = (logging.getLogger().level, list(logging.getLogger().handlers))
        seen: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            upgrade(url)
            logger.info("still here")
        finally:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
        assert seen == ["still here"]
        assert (logging.getLogger().level, list(logging.getLogger().handlers)) == before

    def test_a_newer_database_is_refused_and_left_alone(self, path: Path, url: str) -> None:
        upgrade(url)
        set_revision(path, "9999")
        content = path.read_bytes()
        for attempt in (lambda: upgrade(url), lambda: Store.open(url)):
            with pytest.raises(DatabaseRefusedError, match="written by a newer pega-tune"):
                attempt()
        assert path.read_bytes() == content
        assert [file.name for file in path.parent.iterdir()] == [path.name]

    def test_no_way_down(self, url: str) -> None:
        upgrade(url)
        config = Config()
        config.set_main_option("script_location", str(migrations_path()))
        script = ScriptDirectory.from_config(config).get_revision(SCHEMA_REVISION)
        assert script is not None
        with pytest.raises(NotImplementedError, match="backup"):
            script.module.downgrade()


class TestRaces:
    def test_upgrades_at_the_same_time_wait_for_each_other(self, url: str) -> None:
        assert in_processes(upgrade_once, [(url,)] * 4) == [0] * 4
        assert check(url).ok

    def test_of_sweeps_that_start_on_no_database_one_creates_it(self, path: Path, url: str) -> None:
        sweeps = [(url, LOCAL_MOUNTS, f"sweep{number}", ["b1", "b2"]) for number in range(4)]
        assert in_processes(open_and_add_blocks, sweeps) == [0] * 4
        assert check(url).ok
        assert counts(path)["block"] == 8


def set_revision(path: Path, revision: str) -> None:
    with closing(connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
