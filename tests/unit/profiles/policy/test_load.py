"""`Auto.load`: answers from a file alone."""

from dataclasses import replace

import pytest

from pega_tune.errors import DataError, UsageError
from pega_tune.kernels.plan import Backend
from pega_tune.profiles.bundle.files import write_bundle
from pega_tune.profiles.bundle.keys import read_signing_key
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.terms import ProfileState, Tier
from tests.helpers.bundles import DEVICE, SIMULATED, bundle
from tests.helpers.keys import make_keys


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "profile.json"
    write_bundle(bundle(), path)
    return path


@pytest.mark.parametrize("spelt", [str, lambda path: path])
def test_a_bundle_answers(path, spelt):
    answerer = Auto.load(spelt(path), DEVICE)
    assert (answerer.tier, answerer.warnings) == (Tier.BOARD, ())
    small, large = (answerer.decide(16, size, "h2d", colocation="idle") for size in (16 << 12, 16 << 20))
    assert (small.plan.backend, large.plan.backend) == (Backend.KERNEL, Backend.DIRECT)
    assert small.profile == "abc123"


def test_the_facts_tell_the_tier(path):
    kin = replace(DEVICE, uuid="GPU-2", identity=replace(DEVICE.identity, sm_count=114))
    assert Auto.load(path, replace(DEVICE, uuid="GPU-2")).tier is Tier.CLASS
    found = Auto.load(path, kin)
    assert found.tier is Tier.FAMILY
    assert "same silicon" in found.warnings[0]


def test_what_changed_since_is_told(path):
    newer = replace(DEVICE, staleness=replace(DEVICE.staleness, driver="999.1"))
    (warning,) = Auto.load(path, newer).warnings
    assert "driver" in warning
    assert "run pega-tune sweep" in warning


def test_without_facts_nothing_is_claimed(path):
    answerer = Auto.load(path)
    assert answerer.tier is Tier.BUNDLED
    assert answerer.warnings[0].startswith("nobody checked that the bundle fits this device")


@pytest.mark.parametrize(
    "device",
    [SIMULATED, replace(DEVICE, uuid="GPU-2", identity=replace(DEVICE.identity, pci_device_id="10de:1"))],
)
def test_a_device_that_does_not_fit_is_refused(path, device):
    with pytest.raises(DataError) as caught:
        Auto.load(path, device)
    assert f"does not fit {device.uuid}" in caught.value.message


def test_a_simulated_profile_says_so_and_fits_no_real_device(path):
    write_bundle(bundle(device=SIMULATED), path)
    answerer = Auto.load(path)
    assert "SIMULATED" in answerer.warnings[0]
    assert answerer.decide(16, 16 << 12, "h2d").simulated
    assert Auto.load(path, SIMULATED).tier is Tier.BOARD
    with pytest.raises(DataError):
        Auto.load(path, DEVICE)


def test_a_draft_answers_only_if_that_is_asked_for(path):
    write_bundle(bundle(state=ProfileState.DRAFT, reasons=("throttled",)), path)
    with pytest.raises(DataError) as caught:
        Auto.load(path, DEVICE)
    assert "is a draft, not published (throttled)" in caught.value.message
    assert "draft" in Auto.load(path, DEVICE, allow_drafts=True).warnings[0]


def test_what_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(DataError):
        Auto.load(tmp_path / "absent.json")


@pytest.mark.parametrize("wrong", [{"bundle": None}, {"bundle": 3}, {"bundle": "p.json", "facts": "sim:h200"}])
def test_arguments_of_a_wrong_type_are_refused(wrong):
    with pytest.raises(UsageError):
        Auto.load(**wrong)


def test_a_bundle_of_a_trusted_key_answers(path, tmp_path):
    keys = make_keys(tmp_path)
    write_bundle(bundle(), path, read_signing_key(keys.private))
    for spelt in (keys.public, str(keys.public)):
        assert Auto.load(path, DEVICE, trust=spelt).profile.profile_id == "abc123"
    with pytest.raises(UsageError):
        Auto.load(path, DEVICE, trust=3)
    with pytest.raises(DataError, match="cannot be read"):
        Auto.load(path, DEVICE, trust=tmp_path / "none.pem")


def test_what_its_key_did_not_sign_is_refused_where_it_has_to_be(path, tmp_path):
    keys, other = make_keys(tmp_path), make_keys(tmp_path, "other", seed=2)
    with pytest.raises(DataError, match="not signed"):
        Auto.load(path, DEVICE, trust=keys.public)
    write_bundle(bundle(), path, read_signing_key(other.private))
    with pytest.raises(DataError, match="another key"):
        Auto.load(path, DEVICE, trust=keys.public)
    assert Auto.load(path, DEVICE).profile.profile_id == "abc123"
