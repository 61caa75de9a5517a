"""Profiles that are taken out of use, or out of the database."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.terms import ProfileState, Tier
from pega_tune.profiles.store.errors import ImportConflictError, NotFoundError, ValueRefusedError
from pega_tune.profiles.store.records import EvidenceKind, EvidenceRecord
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import DEVICE, bundle, table
from tests.helpers.places import Place
from tests.helpers.store import NOW, block_record, host_view, profile_record, sqlite_url, sweep_record


def test_a_retired_profile_keeps_all_but_its_state(store: Store) -> None:
    store.import_bundle(bundle())
    before = store.profile("abc123")
    assert store.retire("abc", "measured on a broken riser")
    after = store.profile("abc123")
    assert after.reasons == ("retired on 2026-11-30: measured on a broken riser",)
    assert replace(after, state=before.state, reasons=()) == before
    assert after.state is ProfileState.RETIRED
    assert not store.retire("abc123")
    assert store.profile("abc123") == after


def test_it_can_be_taken_into_use_again(store: Store) -> None:
    store.import_bundle(bundle(reasons=("shapes from 1 GiB on were not measured",)))
    before = store.profile("abc123")
    assert not store.retire("abc123", undo=True)
    store.retire("abc123")
    assert store.retire("abc123", undo=True)
    assert store.profile("abc123") == before


def test_what_was_never_in_use_cannot_be_retired(store: Store) -> None:
    store.import_bundle(bundle(state=ProfileState.DRAFT, reasons=("throttled",)))
    for undo in (False, True):
        with pytest.raises(ValueRefusedError, match="never in use"):
            store.retire("abc123", undo=undo)
    with pytest.raises(NotFoundError):
        store.retire("fff")


@pytest.mark.parametrize("reason", ["two\nlines", "\x1b[31m", "x" * 501])
def test_a_reason_is_a_line(store: Store, reason: str) -> None:
    store.import_bundle(bundle())
    with pytest.raises(ValueRefusedError):
        store.retire("abc123", reason)
    assert store.profile("abc123").state is ProfileState.PUBLISHED


def test_what_comes_again_stays_retired(store: Store) -> None:
    store.import_bundle(bundle())
    store.retire("abc123")
    assert not store.import_bundle(bundle())
    assert store.profile("abc123").state is ProfileState.RETIRED
    with pytest.raises(ImportConflictError):
        store.import_bundle(bundle(table(margin=0.5)))


def test_what_is_in_use_here_and_retired_in_a_bundle_is_the_same_profile(store: Store) -> None:
    store.import_bundle(bundle())
    with pytest.raises(ImportConflictError, match="the same one, retired") as caught:
        store.import_bundle(bundle(state=ProfileState.RETIRED, reasons=("too hot",)))
    assert "profiles retire abc123" in caught.value.hint
    with pytest.raises(ImportConflictError, match="another profile") as caught:
        store.import_bundle(bundle(table(margin=0.5)))
    assert "profiles retire abc123` and then" in caught.value.hint


def test_auto_passes_over_it(tmp_path: Path) -> None:
    path = tmp_path / "read.db"
    with Store.open(sqlite_url(path), host=host_view()) as store:
        store.import_bundle(bundle())
        store.import_bundle(bundle(profile_id="newer", created_at=NOW + timedelta(hours=1)))
        store.retire("newer", "why not")
        assert Auto.for_device(DEVICE, path).profile.profile_id == "abc123"
        store.retire("abc123", "too hot")
    answerer = Auto.for_device(DEVICE, path, packaged=tmp_path, allow_drafts=True)
    assert (answerer.tier, answerer.profile) == (Tier.RULE, None)
    assert "profile newer is retired and is not used (retired on 2026-11-30: why not)" in answerer.warnings[0]


def test_what_is_in_use_is_not_removed(store: Store, place: Place) -> None:
    store.import_bundle(bundle())
    before = place.counts()
    with pytest.raises(ValueRefusedError, match="in use"):
        store.remove_profile("abc123")
    assert place.counts() == before


def test_of_a_removed_profile_that_came_from_elsewhere_nothing_is_left(store: Store, place: Place) -> None:
    store.import_bundle(bundle())
    store.add_check("abc123", EvidenceRecord(EvidenceKind.CANARY, NOW, verdict="holds", detail="{}"))
    store.retire("abc123")
    store.remove_profile("abc")
    counts = place.counts()
    assert (counts["profile"], counts["evidence"], counts["sweep"]) == (0, 0, 0)
    assert store.import_bundle(bundle(table(margin=0.5)))


def test_its_sweep_stays_where_another_profile_is_of_it(store: Store) -> None:
    store.import_bundle(bundle(state=ProfileState.DRAFT, reasons=("x",)))
    store.import_bundle(bundle(profile_id="fff"))
    store.remove_profile("abc123")
    assert store.profile("fff").sweep_id == store.sweep("def456").sweep.sweep_id


def test_measurements_stay(store: Store, place: Place) -> None:
    store.add_sweep(sweep_record())
    store.add_block("aa11", block_record())
    store.add_profile(profile_record())
    before = place.counts()
    store.retire("ff01")
    store.remove_profile("ff01")
    lost = {"profile", "fit", "evidence"}
    after = place.counts()
    assert {name for name in before if before[name] != after[name]} == lost
    assert {after[name] for name in lost} == {0}
