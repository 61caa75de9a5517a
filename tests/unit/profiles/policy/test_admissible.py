"""Tables of a larger device of the family are no use where a plan needs what is not there."""

from dataclasses import replace
from pathlib import Path

import pytest

from pega_tune.errors import DataError
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import CopyPlan, PlanPair
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.bundle.files import write_bundle
from pega_tune.profiles.bundle.packaged import file_name
from pega_tune.profiles.policy.admissible import plans_of, require_sms
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.compiled import decode, encode
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import Tier
from tests.helpers.bundles import bundle
from tests.unit.profiles.policy.database import Row, create
from tests.unit.profiles.policy.examples import DIRECT, NARROW, facts, one_way, option

CONFINED = replace(NARROW, sm_partition=16)
POLICY = CompiledPolicy((one_way(option(DIRECT, 1e-3), option(CONFINED, 2e-3)),))
WHOLE = facts()


def a_slice(sm_count: int) -> DeviceFacts:
    return facts("MIG-1", sm_count=sm_count)


@pytest.mark.parametrize(("plan", "legs"), [(DIRECT, {DIRECT}), (PlanPair(NARROW, CONFINED), {NARROW, CONFINED})])
def test_all_plans_are_seen_and_pairs_taken_apart(plan: CopyPlan | PlanPair, legs: set[CopyPlan]) -> None:
    direction = Direction.BOTH if isinstance(plan, PlanPair) else Direction.H2D
    assert plans_of(CompiledPolicy((one_way(option(plan, 1e-3), direction=direction),))) == legs


def test_as_many_sms_as_there_are_will_do() -> None:
    require_sms(decode(encode(POLICY)), a_slice(16))
    with pytest.raises(PolicyFormatError) as caught:
        require_sms(decode(encode(POLICY)), a_slice(15))
    assert f"{CONFINED.key} asks for more SMs than the 15 of MIG-1" in caught.value.message


@pytest.mark.parametrize(("sms", "tier"), [(16, Tier.FAMILY), (15, Tier.RULE)])
def test_a_stored_profile_is_skipped_and_named(tmp_path: Path, sms: int, tier: Tier) -> None:
    path = create(tmp_path / "p.db", Row("whole", WHOLE, policy=POLICY))
    found = Auto.for_device(a_slice(sms), path, packaged=tmp_path)
    assert found.tier is tier
    assert any("profile whole was skipped" in warning for warning in found.warnings) == (tier is Tier.RULE)


@pytest.mark.parametrize(("sms", "tier"), [(16, Tier.BUNDLED), (15, Tier.RULE)])
def test_so_is_a_bundled_one(tmp_path: Path, sms: int, tier: Tier) -> None:
    write_bundle(bundle(*POLICY.tables, device=WHOLE), tmp_path / file_name(WHOLE))
    assert Auto.for_device(a_slice(sms), tmp_path / "absent.db", packaged=tmp_path).tier is tier


def test_and_one_that_is_loaded_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    write_bundle(bundle(*POLICY.tables, device=WHOLE), path)
    assert Auto.load(path, a_slice(16)).tier is Tier.FAMILY
    with pytest.raises(DataError):
        Auto.load(path, a_slice(15))
