"""Where stores lie: in a file, and on a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pega_tune.profiles.store.store import Store
from tests.helpers.places import Place, server_place
from tests.helpers.store import host_view, sqlite_url


@pytest.fixture(params=("sqlite", "postgresql"))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "postgresql":
        return server_place(request.getfixturevalue("postgresql"))
    return Place(sqlite_url(tmp_path / "store.db"))


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    with Store.open(place.url, host=host_view()) as opened:
        yield opened
