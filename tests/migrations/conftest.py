"""Databases to migrate."""

from pathlib import Path

import pytest

from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import bundle
from tests.helpers.places import Place
from tests.helpers.store import block_record, host_view, profile_record, sqlite_url, sweep_record


@pytest.fixture(params=("sqlite", "postgresql"))
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A database with nothing in it, of either kind."""
    if request.param == "sqlite":
        return Place(sqlite_url(tmp_path / "new.db"))
    server = request.getfixturevalue("postgresql")
    return Place(server.url(server.create()))


@pytest.fixture
def stocked(empty: Place) -> Place:
    """A database of this version with something in every table."""
    with Store.open(empty.url, host=host_view()) as store:
        store.add_sweep(sweep_record())
        for key in ("b1", "b2"):
            store.add_block("aa11", block_record(key))
        store.add_profile(profile_record())
        store.import_bundle(bundle())
    return empty
