"""What a fleet's database tells of its classes of devices."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pega_tune.autotune.fleet.overview import Member, overview
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.profiles.policy.checks import DRIFTED, HOLDS, Check
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.errors import RecordDamagedError
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord
from pega_tune.profiles.store.store import Store
from tests.helpers.store import DEVICE, NOW, SIMULATED, host_view, profile_record, sqlite_url, sweep_record

OTHER = replace(
    DEVICE,
    uuid="GPU-2",
    staleness=replace(DEVICE.staleness, driver="590.1"),
    provenance=replace(DEVICE.provenance, host="lab-8"),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(sqlite_url(tmp_path / "fleet.db"), host=host_view()) as opened:
        opened.add_sweep(sweep_record())
        opened.add_profile(profile_record())
        yield opened


def check(device: DeviceFacts, verdict: str) -> EvidenceRecord:
    detail = Check(device.uuid, device.staleness, verdict, device.provenance.host).to_json()
    return EvidenceRecord(EvidenceKind.CANARY, NOW, verdict=verdict, detail=detail)


def test_a_profile_that_nothing_speaks_against(store: Store) -> None:
    (found,) = overview(store)
    assert (found.class_id, found.suspect, found.simulated) == (DEVICE.class_id, False, False)
    assert found.profile == profile_record()
    assert found.members == (Member("lab-7", DEVICE.uuid),)


def test_a_host_that_has_changed_is_named(store: Store) -> None:
    store.add_sweep(sweep_record("bb22", device=OTHER))
    (found,) = overview(store)
    assert found.suspect
    assert [(member.host, member.changed) for member in found.members] == [
        ("lab-7", ()),
        ("lab-8", ("driver",)),
    ]


def test_unless_the_profile_was_found_to_hold_there(store: Store) -> None:
    store.add_sweep(sweep_record("bb22", device=OTHER))
    store.add_check("ff01", check(OTHER, HOLDS))
    (found,) = overview(store)
    assert not found.suspect


def test_a_profile_that_has_drifted_is_suspect(store: Store) -> None:
    store.add_check("ff01", check(DEVICE, DRIFTED))
    (found,) = overview(store)
    assert [(member.drifted, member.differs) for member in found.members] == [(True, True)]


def test_a_host_that_has_only_verified_it_is_named(store: Store) -> None:
    store.add_check("ff01", check(OTHER, HOLDS))
    (found,) = overview(store)
    assert (found.suspect, found.members[1]) == (False, Member("lab-8", "GPU-2"))
    store.add_check("ff01", check(OTHER, DRIFTED))
    (found,) = overview(store)
    assert (found.suspect, found.members[1]) == (True, Member("lab-8", "GPU-2", ("driver",), drifted=True))


def test_a_check_that_does_not_tell_its_host_still_counts(store: Store) -> None:
    content = json.loads(check(OTHER, DRIFTED).detail)
    del content["host"]
    store.add_check("ff01", replace(check(OTHER, DRIFTED), detail=json.dumps(content)))
    (found,) = overview(store)
    assert [(member.host, member.board, member.drifted) for member in found.members] == [
        ("", "GPU-2", True),
        ("lab-7", DEVICE.uuid, False),
    ]


def test_a_check_that_cannot_be_read_is_told(store: Store) -> None:
    store.add_check("ff01", EvidenceRecord(EvidenceKind.CANARY, NOW, verdict=DRIFTED, detail="{}"))
    with pytest.raises(RecordDamagedError, match="what a check of a profile found"):
        overview(store)


def test_a_device_counts_as_it_was_seen_last(store: Store) -> None:
    now = replace(DEVICE, staleness=replace(DEVICE.staleness, driver="600.1"))
    store.add_sweep(sweep_record("bb22", device=now, started_at=NOW + timedelta(days=1)))
    (found,) = overview(store)
    assert [member.changed for member in found.members] == [("driver",)]


def test_the_newest_published_profile_speaks_for_its_class(store: Store) -> None:
    newest = profile_record("ff02", created_at=NOW + timedelta(days=1))
    store.add_profile(newest)
    store.add_profile(profile_record("ff03", created_at=NOW + timedelta(days=2), state=ProfileState.DRAFT))
    (found,) = overview(store)
    assert found.profile == newest


def test_a_class_without_a_profile_is_listed(store: Store) -> None:
    store.add_sweep(sweep_record("bb22", device=SIMULATED))
    assert [(each.simulated, each.profile is None, each.suspect) for each in overview(store)] == [
        (False, False, False),
        (True, True, False),
    ]


def test_a_profile_of_the_future_speaks_only_where_there_is_no_other(store: Store) -> None:
    later = profile_record("ff02", created_at=datetime.now(UTC) + timedelta(days=400))
    store.add_profile(later)
    (found,) = overview(store)
    assert (found.profile, found.ahead, found.suspect) == (profile_record(), False, False)
    store.retire("ff01")
    (found,) = overview(store)
    assert (found.profile, found.ahead, found.suspect) == (later, True, True)
