"""The migrations themselves: what they build, and that they build it whole or not at all."""

import logging
import shutil
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Inspector, create_engine, inspect
from sqlalchemy.pool import NullPool

from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.store.errors import DatabaseRefusedError, StoreError
from pega_tune.profiles.store.migrate import Upgrade, check, current, head, migrations_path, upgrade
from pega_tune.profiles.store.models import Base
from pega_tune.profiles.store.store import Store
from tests.helpers.store import (
    LOCAL_MOUNTS,
    block_record,
    counting_changes,
    counts,
    die_after_each_statement,
    host_view,
    in_processes,
    open_and_add_blocks,
    profile_record,
    rows,
    sqlite_url,
    sweep_record,
    upgrade_once,
)

LATER = """
import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    op.create_table("note", sa.Column("note_id", sa.Integer(), primary_key=True), sa.Column("text", sa.Text()))
    with op.batch_alter_table("profile", recreate="always") as batch:
        batch.add_column(sa.Column("remark", sa.Text(), nullable=True))
    {more}
"""


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


def later_scripts(folder: Path, more: str = "pass") -> Path:
    """The program's migrations with one more, which rebuilds a table that others refer to."""
    scripts = folder / "100% later"
    shutil.copytree(migrations_path(), scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "0002_later.py").write_text(LATER.format(more=more))
    return scripts


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


class TestKilled:
    """A process that dies after any statement leaves the old state, and the next upgrade succeeds."""

    def test_while_creating(self, tmp_path: Path) -> None:
        changes = changes_of(tmp_path / "counted.db", None)
        assert changes > 10
        assert in_processes(die_after_each_statement, [(tmp_path, changes, None)]) == [0]
        for number in range(1, changes + 1):
            url = sqlite_url(tmp_path / f"{number}.db")
            assert current(url) is None
            assert upgrade(url).after == SCHEMA_REVISION
            assert check(url).ok

    def test_while_upgrading(self, tmp_path: Path, path: Path, filled: dict[str, int]) -> None:
        scripts = later_scripts(tmp_path)
        shutil.copy(path, tmp_path / "counted.db")
        changes = changes_of(tmp_path / "counted.db", scripts)
        assert changes > 5
        for number in range(1, changes + 1):
            shutil.copy(path, tmp_path / f"{number}.db")
        assert in_processes(die_after_each_statement, [(tmp_path, changes, scripts)]) == [0]
        for number in range(1, changes + 1):
            copy = tmp_path / f"{number}.db"
            assert current(sqlite_url(copy)) == "0001"
            assert upgrade(sqlite_url(copy), scripts=scripts).after == "0002"
            assert counts(copy) == {**filled, "note": 0}


class TestRaces:
    def test_upgrades_at_the_same_time_wait_for_each_other(self, url: str) -> None:
        assert in_processes(upgrade_once, [(url,)] * 4) == [0] * 4
        assert check(url).ok

    def test_of_sweeps_that_start_on_no_database_one_creates_it(self, path: Path, url: str) -> None:
        sweeps = [(url, LOCAL_MOUNTS, f"sweep{number}", ["b1", "b2"]) for number in range(4)]
        assert in_processes(open_and_add_blocks, sweeps) == [0] * 4
        assert check(url).ok
        assert counts(path)["block"] == 8


def changes_of(path: Path, scripts: Path | None) -> int:
    """How many changing statements an upgrade of the database takes."""
    numbers: list[int] = []
    with counting_changes(numbers.append):
        upgrade(sqlite_url(path), scripts=scripts)
    return numbers[-1]


def set_revision(path: Path, revision: str) -> None:
    with closing(connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))


def described(inspector: Inspector) -> dict[str, dict[str, list[Any]]]:
    """Columns, constraints and indexes of every table, in an order of their own."""

    def ordered(parts: list[Any]) -> list[Any]:
        return sorted(({key: str(value) for key, value in part.items()} for part in parts), key=lambda p: p["name"])

    tables = [table for table in inspector.get_table_names() if table != "alembic_version"]
    return {
        table: {
            "columns": ordered(inspector.get_columns(table)),
            "primary key": ordered([inspector.get_pk_constraint(table)]),
            "foreign keys": ordered(inspector.get_foreign_keys(table)),
            "unique": ordered(inspector.get_unique_constraints(table)),
            "checks": ordered(inspector.get_check_constraints(table)),
            "indexes": ordered(inspector.get_indexes(table)),
        }
        for table in tables
    }
