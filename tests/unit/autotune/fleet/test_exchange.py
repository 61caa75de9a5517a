"""What a host is told of the profile that it pulled."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pega_tune.autotune.fleet.exchange import pull
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.checks import HOLDS, Check
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import DEVICE, bundle
from tests.helpers.store import NOW, host_view, sqlite_url

CHANGED = replace(DEVICE, staleness=replace(DEVICE.staleness, driver="999.1"))


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    """A fleet with one profile."""
    url = sqlite_url(tmp_path / "fleet.db")
    with Store.open(url, host=host_view()) as store:
        store.import_bundle(bundle())
    return url


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Store]:
    with Store.open(sqlite_url(tmp_path / "local.db"), host=host_view()) as store:
        yield store


def test_what_cannot_be_verified_here_is_to_be_measured(fleet: str, local: Store, tmp_path: Path) -> None:
    (warning,) = pull(fleet, local, CHANGED).warnings
    assert "driver changed since it was measured: run pega-tune sweep" in warning
    assert Auto.for_device(CHANGED, tmp_path / "local.db").warnings == (warning,)


def test_what_was_found_to_hold_on_the_device_is_not_suspect(fleet: str, local: Store) -> None:
    detail = Check(CHANGED.uuid, CHANGED.staleness, HOLDS).to_json()
    with Store.open(fleet, host=host_view()) as store:
        store.add_check("abc123", EvidenceRecord(EvidenceKind.CANARY, NOW, verdict=HOLDS, detail=detail))
    assert pull(fleet, local, CHANGED).warnings == ()
