"""Databases of every released schema become databases of this version, with all that is in them."""

from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from pega_tune.profiles.policy.compiled import decode
from pega_tune.profiles.policy.schema import SCHEMA_REVISION
from pega_tune.profiles.store.migrate import check, current, migrations_path, upgrade
from pega_tune.profiles.store.store import Store
from tests.helpers.later import later_scripts
from tests.helpers.places import Place
from tests.helpers.saved import saved_file, saved_on_server, saved_revisions
from tests.helpers.store import host_view


@pytest.fixture(
    params=[(kind, revision) for kind in ("sqlite", "postgresql") for revision in saved_revisions()], ids=str
)
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind, revision = request.param
    if kind == "sqlite":
        return Place(saved_file(revision, tmp_path))
    return Place(saved_on_server(revision, request.getfixturevalue("postgresql")))


def test_there_is_one_of_every_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_path()))
    revisions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert list(saved_revisions()) == sorted(revisions)


def test_both_kinds_hold_the_same(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("postgresql")
    for revision in saved_revisions():
        here, there = Place(saved_file(revision, tmp_path)), Place(saved_on_server(revision, server))
        assert here.contents() == there.contents()


def test_loses_nothing_on_its_way_to_this_version(saved: Place) -> None:
    before, revision = saved.contents(), current(saved.url)
    assert min(content.rows for content in before.values()) > 0
    done = upgrade(saved.url)
    assert (done.before, done.after) == (revision, SCHEMA_REVISION)
    assert check(saved.url).ok
    del before["alembic_version"]
    assert saved.contents(before) == before


def test_can_be_read_by_this_version(saved: Place) -> None:
    upgrade(saved.url)
    with Store.open(saved.url, read_only=True, host=host_view()) as store:
        assert {profile.profile_id for profile in store.profiles()} == {"ff01", "ff02", "abc123", "fff"}
        assert [block.key for block in store.blocks("aa11")] == ["b1", "s1", "none"]
        assert [summary.cells for summary in store.sweeps() if summary.sweep.sweep_id == "aa11"] == [4]
        assert {evidence.kind for evidence in store.evidence("ff01")} == {"cell", "canary"}
        for profile in ("abc123", "fff"):
            assert decode(store.profile(profile).compiled).tables


def test_and_on_to_the_next(saved: Place, tmp_path: Path) -> None:
    before = saved.contents()
    del before["alembic_version"]
    assert upgrade(saved.url, scripts=later_scripts(tmp_path)).after == "0002"
    assert saved.contents(before) == before
    assert current(saved.url) == "0002"
