import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pega_tune.autotune.findings import Status
from pega_tune.autotune.verify.findings import profile_findings
from pega_tune.autotune.verify.verification import Verdict, Verification
from pega_tune.errors import DeviceError
from pega_tune.kernels.facts import DeviceFacts, Staleness
from pega_tune.profiles.store.records import ProfileRecord
from pega_tune.profiles.store.store import Store
from tests.helpers.bundles import bundle
from tests.helpers.sweeps import sim_engine

NOW = datetime(2026, 11, 30, tzinfo=UTC)
DEVICE = replace(sim_engine().facts, staleness=Staleness(driver="590.2"))


class Canary:
    """Counts how often it is asked, and always finds the same."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self.asked: list[str] = []

    def __call__(self, _store: Store, profile: ProfileRecord, facts: DeviceFacts) -> Verification:
        self.asked.append(profile.profile_id)
        reasons = () if self._verdict is Verdict.HOLDS else ("because",)
        return Verification(profile.profile_id, facts, ("driver",), self._verdict, reasons, (), 1.0, NOW)


@pytest.fixture
def url(swept: Path, tmp_path: Path) -> str:
    target = tmp_path / "p.db"
    shutil.copy(swept, target)
    with Store.open(f"sqlite:///{target}") as store:
        (profile,) = store.profiles()
        device = replace(profile.device, staleness=Staleness(driver="580.1"))
        store.add_profile(replace(profile, profile_id="ff00", device=device, created_at=datetime.now(UTC)))
    return f"sqlite:///{target}"


def test_a_profile_of_a_changed_device_is_verified_once(url: str) -> None:
    canary = Canary(Verdict.HOLDS)
    (finding,) = profile_findings([DEVICE], url, canary)
    assert (finding.part, finding.status) == ("profile", Status.OK)
    assert finding.detail == "GPU 0: profile ff00: driver changed since; measured again, it holds"
    (finding,) = profile_findings([DEVICE], url, canary)
    assert finding.detail == "GPU 0: profile ff00, nothing has changed since"
    assert canary.asked == ["ff00"]


@pytest.mark.parametrize(
    ("verdict", "command"), [(Verdict.DRIFTED, "pega-tune sweep"), (Verdict.INCONCLUSIVE, "pega-tune verify")]
)
def test_what_does_not_hold_is_a_warning(verdict: Verdict, command: str, url: str) -> None:
    (finding,) = profile_findings([DEVICE], url, Canary(verdict))
    assert finding.status is Status.WARNING
    assert finding.detail.endswith(f"measured again: {verdict} (because)")
    assert finding.hint.startswith(f"run {command}")


def test_a_profile_from_elsewhere_that_cannot_be_verified_is_to_be_measured(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'pulled.db'}"
    with Store.open(url) as store:
        store.import_bundle(bundle(device=replace(DEVICE, staleness=Staleness(driver="580.1"))))
    (finding,) = profile_findings([DEVICE], url, Canary(Verdict.INCONCLUSIVE))
    assert finding.hint == "run pega-tune sweep --device sim:h200"


def test_a_device_that_cannot_be_measured_is_a_warning(url: str) -> None:
    def refuse(_store: Store, _profile: ProfileRecord, _facts: DeviceFacts) -> Verification:
        raise DeviceError("no compiler", "install one")

    (finding,) = profile_findings([DEVICE], url, refuse)
    assert (finding.status, finding.hint) == (Status.WARNING, "install one")
    assert "could not be verified: no compiler" in finding.detail


def test_a_device_without_a_profile_is_told_to_sweep(url: str, tmp_path: Path) -> None:
    other = replace(DEVICE, uuid="sim:other")
    first, second = profile_findings([other, replace(DEVICE, staleness=Staleness())], url, Canary(Verdict.HOLDS))
    assert first.status is Status.WARNING
    assert first.hint == "run pega-tune sweep --device sim:other"
    assert second.detail == "GPU 1: profile ff00, nothing has changed since"
    assert list(profile_findings([DEVICE], f"sqlite:///{tmp_path / 'none.db'}")) == []
