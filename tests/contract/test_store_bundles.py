"""Profiles that come into a store from elsewhere."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from pega_tune.profiles.bundle.document import Bundle, read, write
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.dating import CLOCK_SKEW
from pega_tune.profiles.policy.live import LiveAuto, Surroundings
from pega_tune.profiles.policy.terms import Tier
from pega_tune.profiles.store.bundles import IMPORTED, bundle_of
from pega_tune.profiles.store.errors import ImportConflictError, SweepRunningError
from pega_tune.profiles.store.records import SweepState
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import DEVICE, SIMULATED, bundle, table
from tests.helpers.places import Place
from tests.helpers.store import block_record, host_view, profile_record, sqlite_url, sweep_record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "read.db"


@pytest.fixture
def readable(path: Path) -> Iterator[Store]:
    """A store in a file that `Auto` can read."""
    with Store.open(sqlite_url(path), host=host_view()) as opened:
        yield opened


@pytest.mark.parametrize("made", [bundle(), bundle(device=SIMULATED)])
def test_what_goes_in_comes_out(store: Store, made: Bundle) -> None:
    assert store.import_bundle(made)
    assert bundle_of(store.profile("abc123")) == made
    assert read(write(bundle_of(store.profile("abc123")))) == made


def test_auto_answers_from_it(readable: Store, path: Path) -> None:
    readable.import_bundle(bundle())
    answerer = Auto.for_device(DEVICE, path)
    assert (answerer.tier, answerer.profile.profile_id, answerer.warnings) == (Tier.BOARD, "abc123", ())


def test_who_follows_the_database_answers_from_it(readable: Store, path: Path, tmp_path: Path) -> None:
    around = Surroundings(packaged=tmp_path)
    with LiveAuto(DEVICE, path, interval_s=threading.TIMEOUT_MAX, around=around) as live:
        assert live.state.tier is Tier.RULE
        readable.import_bundle(bundle())
        live.check()
        assert (live.state.profile, live.warnings) == ("abc123", ())


def test_twice_is_once(store: Store, place: Place) -> None:
    store.import_bundle(bundle())
    before = place.counts()
    assert not store.import_bundle(bundle())
    assert place.counts() == before


def test_another_profile_of_the_same_id_is_refused_and_changes_nothing(store: Store, place: Place) -> None:
    store.import_bundle(bundle())
    before = place.counts()
    other = bundle(table(margin=0.5), device=replace(DEVICE, uuid="GPU-2"))
    with pytest.raises(ImportConflictError):
        store.import_bundle(other)
    assert place.counts() == before
    assert bundle_of(store.profile("abc123")) == bundle()


def test_a_profile_of_the_future_is_refused(store: Store) -> None:
    soon, later = (host_view().now() + CLOCK_SKEW + timedelta(minutes=minutes) for minutes in (-5, 5))
    with pytest.raises(ImportConflictError, match="in the future"):
        store.import_bundle(bundle(created_at=later))
    assert not store.profiles()
    assert store.import_bundle(bundle(created_at=soon))


@pytest.mark.parametrize(
    "changes",
    [{"device": replace(DEVICE, uuid="GPU-2")}, {"kernel_digest": "other"}, {"method_version": 9}],
    ids=["device", "kernels", "method"],
)
def test_a_profile_of_another_sweep_of_the_same_id_is_refused_and_changes_nothing(
    store: Store, place: Place, changes: dict[str, object]
) -> None:
    store.import_bundle(bundle())
    before = place.counts()
    with pytest.raises(ImportConflictError):
        store.import_bundle(bundle(profile_id="fff", **changes))
    assert place.counts() == before


def test_the_sweep_stands_for_one_that_is_elsewhere(store: Store) -> None:
    store.import_bundle(bundle())
    summary = store.sweep("def456")
    assert (summary.sweep.state, summary.sweep.preset, summary.blocks) == (SweepState.FINISHED, IMPORTED, 0)
    assert "imported without its blocks" in summary.sweep.reasons[0]
    with pytest.raises(SweepRunningError):
        store.claim("def456", 1, "here")


def test_a_second_profile_of_the_same_sweep_shares_it(store: Store) -> None:
    store.import_bundle(bundle())
    assert store.import_bundle(bundle(profile_id="fff"))
    assert {profile.profile_id for profile in store.profiles()} == {"abc123", "fff"}
    assert len(store.sweeps()) == 1


def test_a_profile_whose_sweep_is_here_rests_on_its_cells(store: Store) -> None:
    record = sweep_record()
    store.add_sweep(record)
    store.add_block("aa11", block_record())
    made = bundle(
        sweep_id="aa11",
        device=record.device,
        kernel_digest=record.kernel_digest,
        method_version=record.method_version,
    )
    store.import_bundle(made)
    store.add_profile(profile_record())
    assert store.sweep("aa11").sweep == record
    cells = [evidence.cell for evidence in store.evidence("abc123")]
    assert cells == [evidence.cell for evidence in store.evidence("ff01")] != []


def test_a_board_that_was_seen_here_stays_as_it_was_seen(store: Store, place: Place) -> None:
    store.add_sweep(sweep_record(device=DEVICE))
    before = place.rows("SELECT * FROM board")
    store.import_bundle(bundle(device=replace(DEVICE, provenance=replace(DEVICE.provenance, host="elsewhere"))))
    assert place.rows("SELECT * FROM board") == before


def test_a_board_may_have_been_of_another_class_then(store: Store) -> None:
    store.add_sweep(sweep_record(device=DEVICE))
    moved = bundle(device=replace(DEVICE, identity=replace(DEVICE.identity, host_cpu="Another CPU")))
    assert store.import_bundle(moved)
    assert store.profile("abc123").device == moved.device


def test_of_hosts_that_bring_the_same_profile_at_once_one_adds_it(store: Store, place: Place) -> None:
    stores = [Store.open(place.url, host=host_view()) for _ in range(4)]
    try:
        with ThreadPoolExecutor(len(stores)) as pool:
            for turn in range(5):
                made = bundle(profile_id=f"f{turn}", sweep_id=f"e{turn}", device=replace(DEVICE, uuid=f"GPU-{turn}"))
                added = list(pool.map(lambda each, made=made: each.import_bundle(made), stores))
                assert sorted(added) == [False, False, False, True]
    finally:
        for each in stores:
            each.close()
    assert len(store.profiles()) == 5
