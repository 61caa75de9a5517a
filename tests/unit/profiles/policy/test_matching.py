"""Which stored device fits which device."""

from dataclasses import replace

import pytest

from pega_tune.kernels.facts import Link
from pega_tune.profiles.policy.matching import fit, sweep_command
from pega_tune.profiles.policy.terms import Tier
from tests.unit.profiles.policy.examples import facts

HERE = facts()


@pytest.mark.parametrize(
    ("stored", "tier"),
    [
        (facts(), Tier.BOARD),
        (facts("GPU-2"), Tier.CLASS),
        (facts("GPU-2", sm_count=114), Tier.FAMILY),
        (facts("GPU-1", sm_count=114), Tier.FAMILY),
        (facts("GPU-2", pci="10de:2330"), None),
        (facts("GPU-1", pci="10de:2330"), None),
    ],
)
def test_the_tier_is_the_closest_that_fits(stored, tier):
    found = fit(stored, HERE)
    assert (found.tier if found else None) is tier


@pytest.mark.parametrize("stored", [facts(), facts("GPU-2"), facts("GPU-2", sm_count=114)])
def test_a_known_and_different_link_is_a_miss_at_every_tier(stored):
    narrow = replace(stored, identity=replace(stored.identity, max_link=Link(5, 8)))
    assert fit(narrow, HERE) is None


def test_an_unknown_link_is_suspect():
    for stored, here in ((facts(link=None), HERE), (HERE, facts(link=None))):
        found = fit(stored, here)
        assert found.tier is Tier.BOARD
        assert "PCIe link" in " ".join(found.warnings)
    assert fit(HERE, HERE).warnings == ()


def test_what_changed_is_named():
    (warning,) = fit(facts(driver="570.1"), HERE).warnings
    assert "driver" in warning
    assert "cuda" not in warning


def test_an_unknown_board_has_no_family():
    assert fit(facts("GPU-2", sm_count=114, pci=None), facts(pci=None)) is None


def test_simulated_and_real_never_meet():
    simulated = facts("sim:h200")
    assert simulated.identity == HERE.identity
    assert fit(simulated, HERE) is None
    assert fit(HERE, simulated) is None
    assert fit(simulated, simulated).tier is Tier.BOARD
    assert fit(facts("sim:h200-nvl"), simulated) is None


def test_a_simulated_device_that_was_changed_has_no_profile():
    assert fit(facts("sim:h200", sm_count=114), facts("sim:h200")) is None


def test_a_device_is_swept_by_its_name():
    assert sweep_command(HERE) == f"pega-tune sweep --device {HERE.uuid}"
    assert sweep_command(facts("sim:h200")) == "pega-tune sweep --device sim:h200"


def test_the_advice_is_one_that_works():
    older = facts(driver="570.1")
    assert fit(older, HERE).warnings[0].endswith(f"run pega-tune verify --device {HERE.uuid}")
    (elsewhere,) = fit(older, HERE, comparable=False).warnings
    assert f"run pega-tune sweep --device {HERE.uuid}" in elsewhere
    assert "verify" not in elsewhere
