"""The bundles that are shipped, and the tier at which they answer."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from pega_tune.kernels.facts import DeviceFacts, Link
from pega_tune.profiles.bundle.files import read_bundle, write_bundle
from pega_tune.profiles.bundle.packaged import file_name, find_packaged
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.sources import PACKAGED
from pega_tune.profiles.policy.terms import ProfileState, Tier
from tests.helpers.bundles import CREATED, DEVICE, SIMULATED, bundle
from tests.unit.profiles.policy.database import Row, create


def other(uuid: str = "GPU-2", **identity: object) -> DeviceFacts:
    """A device in another host."""
    return replace(DEVICE, uuid=uuid, identity=replace(DEVICE.identity, **identity))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "bundled"
    folder.mkdir()
    write_bundle(bundle(), folder / file_name(DEVICE))
    return folder


@pytest.mark.parametrize("device", [other(), other(sm_count=114), other(host_cpu=None), DEVICE])
def test_it_answers_for_its_class_and_its_family(folder, device):
    found = find_packaged(folder, device)
    assert (found.profile.profile_id, found.tier) == ("abc123", Tier.BUNDLED)
    assert found.warnings[0].startswith("bundled profile abc123 answers: it was measured on an NVIDIA H200")


def test_another_configuration_is_flagged(folder):
    assert len(find_packaged(folder, other()).warnings) == 1
    assert "same silicon" in find_packaged(folder, other(sm_count=114)).warnings[1]


@pytest.mark.parametrize(
    "device",
    [
        other(pci_device_id="10de:2330"),
        other(pci_device_id="10de:23"),
        other(pci_device_id=None),
        other(compute_capability=(10, 0)),
        other(max_link=Link(4, 16)),
        other(pci_device_id="*"),
        other(pci_device_id="../../10de:2335"),
        SIMULATED,
    ],
)
def test_it_answers_for_nothing_else(folder, device):
    assert find_packaged(folder, device).profile is None


def test_the_closest_is_taken_and_among_equals_the_newest(folder):
    kin = other(sm_count=114)
    write_bundle(bundle(profile_id="kin", device=kin, created_at=CREATED + timedelta(days=9)), folder / file_name(kin))
    newer = folder / file_name(DEVICE).replace(".json", "-2.json")
    write_bundle(bundle(profile_id="newer", created_at=CREATED + timedelta(days=1)), newer)
    assert find_packaged(folder, other()).profile.profile_id == "newer"
    assert find_packaged(folder, other(sm_count=114)).profile.profile_id == "kin"


@pytest.mark.parametrize("unfit", [{"state": ProfileState.DRAFT}, {"device": SIMULATED}])
def test_drafts_and_simulated_profiles_do_not_answer(tmp_path, unfit):
    write_bundle(bundle(**unfit), tmp_path / file_name(DEVICE))
    for device in (DEVICE, SIMULATED):
        assert find_packaged(tmp_path, device).profile is None


def test_a_damaged_bundle_is_named_and_the_next_one_answers(folder):
    (folder / file_name(other(sm_count=1))).write_text("{")
    found = find_packaged(folder, other())
    assert found.profile.profile_id == "abc123"
    assert "was skipped" in found.warnings[-1]


def test_a_missing_folder_holds_nothing(tmp_path):
    assert find_packaged(tmp_path / "absent", DEVICE).profile is None


def test_auto_falls_back_on_it_and_says_what_is_missing(folder, tmp_path):
    answerer = Auto.for_device(other(), tmp_path / "absent.db", packaged=folder)
    decision = answerer.decide(64, 64 << 12, "h2d", colocation="idle")
    assert (decision.tier, decision.profile, decision.simulated) == (Tier.BUNDLED, "abc123", False)
    assert "no profile fits GPU-2" in decision.warnings[0]
    assert "bundled profile abc123 answers" in decision.warnings[1]


def test_a_stored_profile_goes_before_it_and_a_draft_does_not(folder, tmp_path):
    kin = create(tmp_path / "kin.db", Row("kin", other(sm_count=114)))
    assert Auto.for_device(other(), kin, packaged=folder).tier is Tier.FAMILY
    draft = create(tmp_path / "draft.db", Row("mine", other(), state="draft", reasons='["throttled"]'))
    answerer = Auto.for_device(other(), draft, packaged=folder)
    assert answerer.tier is Tier.BUNDLED
    assert "profile mine is a draft and is not used (throttled)" in answerer.warnings[0]


def test_what_is_shipped_is_whole_and_stands_under_its_name():
    for path in PACKAGED.glob("*.json"):
        shipped = read_bundle(path)
        assert path.name == file_name(shipped.device)
        assert shipped.state is ProfileState.PUBLISHED
        found = find_packaged(PACKAGED, replace(shipped.device, uuid="GPU-of-somebody-else"))
        assert (found.profile.profile_id, found.tier) == (shipped.profile_id, Tier.BUNDLED)
