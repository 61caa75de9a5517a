from collections.abc import Iterator
from pathlib import Path

import pytest

from pega_tune.profiles.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path / 'sweeps.db'}") as opened:
        yield opened
