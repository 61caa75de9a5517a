import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pega_tune.autotune.verify.lookup import NoProfileError, changed_fields, keep, profile_in_use
from pega_tune.autotune.verify.verification import Verdict, Verification
from pega_tune.kernels.facts import DeviceFacts, Staleness
from pega_tune.kernels.plan import PlanPair, Variant, kernel
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.compiled import decode, digest, encode
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.records import EvidenceKind, ProfileRecord
from pega_tune.profiles.store.store import Store
from tests.helpers.sweeps import sim_engine

THEN = Staleness("580.1", "13.0", "6.8")
NEWER = replace(THEN, driver="590.2")
NEWEST = replace(THEN, driver="600.3")


def _facts(staleness: Staleness) -> DeviceFacts:
    return replace(sim_engine().facts, staleness=staleness)


@pytest.fixture
def path(swept: Path, tmp_path: Path) -> Path:
    """A database whose newest profile was measured with an old driver."""
    target = tmp_path / "p.db"
    shutil.copy(swept, target)
    with Store.open(f"sqlite:///{target}") as store:
        (profile,) = store.profiles()
        device = replace(profile.device, staleness=THEN)
        store.add_profile(replace(profile, profile_id="ff00", device=device, created_at=datetime.now(UTC)))
    return target


def _remember(path: Path, staleness: Staleness, verdict: Verdict) -> None:
    now = datetime.now(UTC)
    found = Verification("ff00", _facts(staleness), (), verdict, (), (), 1.0, now)
    assert keep(f"sqlite:///{path}", found) == ""


def test_what_cannot_be_stored_is_told(path: Path) -> None:
    found = Verification("ff00", _facts(THEN), (), Verdict.HOLDS, (), (), 1.0, datetime.now(UTC))
    assert "missing.db" in keep(f"sqlite:///{path.with_name('missing.db')}", found)
    assert keep(f"sqlite:///{path.with_name('missing.db')}", replace(found, verdict=Verdict.INCONCLUSIVE)) == ""


def _warnings(path: Path, staleness: Staleness) -> tuple[str, ...]:
    auto = Auto.for_device(_facts(staleness), path)
    assert auto.profile is not None
    assert auto.profile.profile_id == "ff00"
    return auto.warnings


def _in_use(path: Path) -> tuple[Store, ProfileRecord]:
    store = Store.open(f"sqlite:///{path}")
    return store, profile_in_use(store, _facts(NEWER))


def test_a_changed_driver_makes_suspect_and_a_check_that_holds_mends_it(path: Path) -> None:
    assert _warnings(path, THEN) == ()
    (warning,) = _warnings(path, NEWER)
    assert warning == "suspect: driver changed since it was measured: run pega-tune verify --device sim:h200"
    _remember(path, NEWER, Verdict.HOLDS)
    assert _warnings(path, NEWER) == ()
    assert _warnings(path, THEN) == ()
    (warning,) = _warnings(path, NEWEST)
    assert "driver changed since it was verified" in warning


def test_a_check_that_found_a_drift_is_told_until_another_holds(path: Path) -> None:
    _remember(path, THEN, Verdict.DRIFTED)
    (warning,) = _warnings(path, THEN)
    assert warning.startswith("it has drifted, as verify found: run pega-tune sweep")
    _remember(path, THEN, Verdict.HOLDS)
    assert _warnings(path, THEN) == ()


def test_what_is_inconclusive_is_not_kept(path: Path) -> None:
    _remember(path, NEWER, Verdict.INCONCLUSIVE)
    store, profile = _in_use(path)
    with store:
        assert not [one for one in store.evidence(profile.profile_id) if one.kind is EvidenceKind.CANARY]
    assert len(_warnings(path, NEWER)) == 1


def test_what_has_changed_follows_from_the_newest_check(path: Path) -> None:
    store, profile = _in_use(path)
    with store:
        assert changed_fields(store, profile, _facts(THEN)) == ()
        assert changed_fields(store, profile, _facts(NEWER)) == ("driver",)
    _remember(path, NEWER, Verdict.HOLDS)
    store, profile = _in_use(path)
    with store:
        assert changed_fields(store, profile, _facts(NEWER)) == ()
        assert changed_fields(store, profile, _facts(NEWEST)) == ("driver",)


def test_the_newest_published_profile_is_the_one_in_use(path: Path) -> None:
    store, profile = _in_use(path)
    with store:
        assert profile.profile_id == "ff00"
        draft = replace(
            profile, profile_id="ff01", state=ProfileState.DRAFT, reasons=("x",), created_at=datetime.now(UTC)
        )
        store.add_profile(draft)
        assert profile_in_use(store, _facts(NEWER)).profile_id == "ff00"
        with pytest.raises(NoProfileError, match="no published profile fits sim:other"):
            profile_in_use(store, replace(_facts(THEN), uuid="sim:other"))


def _asking_for_more_sms(profile: ProfileRecord) -> ProfileRecord:
    policy = decode(profile.compiled)
    many = replace(kernel(Variant.WARP, 2, 1024), sm_partition=profile.device.identity.sm_count + 8)
    first, *others = policy.tables
    one = replace(first.cells[0][0], plan=PlanPair(many, many) if first.direction is Direction.BOTH else many)
    cells = ((one,), *first.cells[1:])
    compiled = encode(CompiledPolicy((replace(first, cells=cells), *others)))
    return replace(profile, compiled=compiled, digest=digest(compiled))


@pytest.mark.parametrize(
    "spoilt", [lambda profile: replace(profile, compiled=b"x", digest=digest(b"x")), _asking_for_more_sms]
)
def test_what_auto_skips_is_not_in_use(path: Path, spoilt: Callable[[ProfileRecord], ProfileRecord]) -> None:
    store, profile = _in_use(path)
    with store:
        later = datetime.now(UTC) + timedelta(minutes=1)
        store.add_profile(spoilt(replace(profile, profile_id="ff03", created_at=later)))
        auto = Auto.for_device(_facts(NEWER), path)
        assert "profile ff03 was skipped" in auto.warnings[-1]
        assert auto.profile is not None
        assert profile_in_use(store, _facts(NEWER)).profile_id == auto.profile.profile_id == "ff00"
        others = {each.profile_id for each in store.profiles()} - {"ff03"}
        with pytest.raises(NoProfileError, match="fits sim:h200: profile ff03 was skipped: "):
            profile_in_use(store, _facts(NEWER), others)


def test_a_profile_of_the_future_is_in_use_only_where_there_is_no_other(path: Path) -> None:
    store, profile = _in_use(path)
    with store:
        store.add_profile(replace(profile, profile_id="ff02", created_at=datetime.now(UTC) + timedelta(days=400)))
        assert profile_in_use(store, _facts(NEWER)).profile_id == "ff00"
        others = {each.profile_id for each in store.profiles()} - {"ff02"}
        assert profile_in_use(store, _facts(NEWER), others).profile_id == "ff02"
        with pytest.raises(NoProfileError):
            profile_in_use(store, _facts(NEWER), {*others, "ff02"})
