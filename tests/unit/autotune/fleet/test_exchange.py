"""What a host is told of the profile that it pulled, and what it tells the fleet."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pega_tune.autotune.fleet.exchange import Passed, published, pull, push
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import Variant, kernel
from pega_tune.profiles.bundle.document import Bundle
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.checks import DRIFTED, HOLDS, Check
from pega_tune.profiles.policy.table import Option, Predicted
from pega_tune.profiles.policy.terms import ProfileState, Tier
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import CREATED, DEVICE, bundle, table
from tests.helpers.places import plain
from tests.helpers.store import NOW, host_view, sqlite_url

LATER = timedelta(hours=1)
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
    (warning,) = pull(fleet, local, CHANGED).answering.warnings
    assert "driver changed since it was measured: run pega-tune sweep" in warning
    assert Auto.for_device(CHANGED, tmp_path / "local.db").warnings == (warning,)


def test_what_was_found_to_hold_on_the_device_is_not_suspect(fleet: str, local: Store) -> None:
    detail = Check(CHANGED.uuid, CHANGED.staleness, HOLDS).to_json()
    with Store.open(fleet, host=host_view()) as store:
        store.add_check("abc123", EvidenceRecord(EvidenceKind.CANARY, NOW, verdict=HOLDS, detail=detail))
    assert pull(fleet, local, CHANGED).answering.warnings == ()


def found(device: DeviceFacts, verdict: str, at: datetime = NOW) -> EvidenceRecord:
    detail = Check(device.uuid, device.staleness, verdict, device.provenance.host).to_json()
    return EvidenceRecord(EvidenceKind.CANARY, at, verdict=verdict, detail=detail)


def verdicts(url: str) -> list[str]:
    with Store.open(url, host=host_view()) as store:
        return [record.verdict for record in store.evidence("abc123")]


def decides(device: DeviceFacts, folder: Path) -> str | None:
    """The profile that `decide` uses on a host."""
    used = Auto.for_device(device, folder / "local.db").profile
    return used.profile_id if used else None


def pushed(local: Store, fleet: str) -> Passed:
    with Store.open(fleet, host=host_view()) as target:
        (passed,) = push(published(local), local, target)
    return passed


def test_a_push_passes_on_what_was_found_on_a_host_that_has_pulled(fleet: str, local: Store) -> None:
    pull(fleet, local, DEVICE)
    local.add_check("abc123", found(DEVICE, HOLDS))
    local.add_check("abc123", found(DEVICE, DRIFTED, NOW + LATER))
    passed = pushed(local, fleet)
    assert (passed.added, passed.verdicts, verdicts(fleet)) == (False, 1, [DRIFTED])
    assert pushed(local, fleet).verdicts == 0


def test_an_older_verdict_does_not_come_after_a_newer_one(fleet: str, local: Store) -> None:
    with Store.open(fleet, host=host_view()) as store:
        store.add_check("abc123", found(DEVICE, HOLDS, NOW + LATER))
    local.import_bundle(bundle())
    local.add_check("abc123", found(DEVICE, DRIFTED))
    assert (pushed(local, fleet).verdicts, verdicts(fleet)) == (0, [HOLDS])
    assert pull(fleet, local, DEVICE).answering.warnings == ()


def test_a_verdict_of_the_future_is_not_passed_on(fleet: str, local: Store) -> None:
    local.import_bundle(bundle())
    local.add_check("abc123", found(DEVICE, DRIFTED, NOW + timedelta(days=400)))
    assert (pushed(local, fleet).verdicts, verdicts(fleet)) == (0, [])


@pytest.mark.parametrize(
    ("mine", "why"),
    [
        (bundle(profile_id="mine", sweep_id="of-mine", created_at=CREATED + LATER), "is newer"),
        (bundle(profile_id="mine", sweep_id="of-mine", created_at=CREATED - LATER), ""),
    ],
)
def test_the_profile_that_is_told_is_the_one_that_answers(
    fleet: str, local: Store, tmp_path: Path, mine: Bundle, why: str
) -> None:
    local.import_bundle(mine)
    pulled = pull(fleet, local, DEVICE)
    assert (pulled.offered, pulled.added, pulled.instead) == ("abc123", True, why)
    assert pulled.answering.profile_id == decides(DEVICE, tmp_path)


def test_a_profile_of_this_very_board_answers_before_a_newer_one_of_its_class(local: Store, tmp_path: Path) -> None:
    other = sqlite_url(tmp_path / "other.db")
    newer = replace(DEVICE, uuid="GPU-2")
    with Store.open(other, host=host_view()) as store:
        store.import_bundle(bundle(profile_id="theirs", device=newer, created_at=CREATED + LATER))
    local.import_bundle(bundle(sweep_id="of-mine"))
    pulled = pull(other, local, DEVICE)
    assert (pulled.offered, pulled.answering.profile_id, pulled.instead) == ("theirs", "abc123", "fits better")
    assert decides(DEVICE, tmp_path) == "abc123"


@pytest.mark.parametrize("state", [ProfileState.DRAFT, ProfileState.RETIRED])
def test_a_profile_that_is_not_in_use_here_does_not_answer(
    fleet: str, local: Store, tmp_path: Path, state: ProfileState
) -> None:
    local.import_bundle(bundle(profile_id="mine", sweep_id="of-mine", created_at=CREATED + LATER, state=state))
    pulled = pull(fleet, local, DEVICE)
    assert (pulled.answering.profile_id, pulled.instead) == ("abc123", "")
    assert decides(DEVICE, tmp_path) == "abc123"


def test_a_profile_that_the_device_cannot_run_is_passed_over(fleet: str, local: Store, tmp_path: Path) -> None:
    large = replace(DEVICE, identity=replace(DEVICE.identity, sm_count=200, max_link=None))
    small = replace(DEVICE, uuid="GPU-2", identity=replace(DEVICE.identity, sm_count=100))
    plan = replace(kernel(Variant.WARP, 2, 1024), sm_partition=160)
    tables = table(cells=((Option(plan, Predicted(1e-3)),), (Option(plan, Predicted(1e-3)),)))
    with Store.open(fleet, host=host_view()) as store:
        store.import_bundle(
            bundle(tables, profile_id="large", sweep_id="of-large", device=large, created_at=CREATED + LATER)
        )
    pulled = pull(fleet, local, small)
    assert (pulled.offered, pulled.answering.tier) == ("abc123", Tier.FAMILY)
    assert decides(small, tmp_path) == "abc123"


def test_what_is_damaged_here_is_not_what_is_kept(fleet: str, local: Store, tmp_path: Path) -> None:
    pull(fleet, local, DEVICE)
    local.import_bundle(bundle(profile_id="newer", sweep_id="other", created_at=CREATED + LATER))
    with plain(sqlite_url(tmp_path / "local.db")) as connection:
        connection.exec_driver_sql("UPDATE profile SET compiled = x'00' WHERE profile_id = 'newer'")
    kept = pull(sqlite_url(tmp_path / "nowhere.db"), local, DEVICE)
    assert (kept.offered, kept.answering.profile_id) == ("", "abc123")
    assert "profile newer was skipped" in kept.answering.warnings[0]
