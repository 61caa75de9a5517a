import pytest

from pega_tune.autotune.sweep.planner import block_seed, plan_sweep
from pega_tune.autotune.sweep.presets import PRESETS, Preset
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.errors import DeviceError
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.sweeps import MIB, capabilities

MINE = TransferShape(100, 100 * 20_000, Direction.D2H)
CANONICAL = TransferShape(16_384, 64 * MIB, Direction.H2D)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)
def test_the_estimate_leaves_room_in_the_budget(preset: Preset) -> None:
    plan = plan_sweep(SweepRequest(preset.name), capabilities())
    assert plan.budget_s == preset.budget_s
    assert plan.estimate_s < 0.85 * plan.budget_s


def test_the_same_request_plans_the_same_blocks() -> None:
    request = SweepRequest(seed=7, shapes=(MINE,))
    assert plan_sweep(request, capabilities()) == plan_sweep(request, capabilities())


def test_a_seed_changes_seeds_alone() -> None:
    one, two = (plan_sweep(SweepRequest(seed=seed), capabilities()).blocks for seed in (1, 2))
    assert [b.block.key for b in one] == [b.block.key for b in two]
    assert [b.block.candidates for b in one] == [b.block.candidates for b in two]
    assert not {b.block.seed for b in one} & {b.block.seed for b in two}


def test_seeds_fit_into_31_bits_and_differ() -> None:
    seeds = {block_seed(0, f"key {i}") for i in range(100)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_users_shapes_come_first_then_the_full_ones() -> None:
    blocks = [b.block for b in plan_sweep(SweepRequest(shapes=(MINE, CANONICAL)), capabilities()).blocks]
    assert [b.shape for b in blocks[:2]] == [MINE, CANONICAL]
    assert {b.shape.direction for b in blocks[2:4]} == {Direction.D2H, Direction.BOTH}
    assert len({b.key for b in blocks}) == len(blocks) == len({b.shape for b in blocks})
    widths = [len(b.candidates) for b in blocks]
    assert min(widths[1:4]) > max(widths[:1] + widths[4:])


def test_finished_blocks_are_left_out() -> None:
    plan = plan_sweep(SweepRequest(), capabilities())
    first = plan.blocks[0].block.key
    rest = plan.without([first])
    assert rest.blocks == plan.blocks[1:]
    assert rest.estimate_s < plan.estimate_s


def test_a_users_shape_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DeviceError, match="d2h 100 x 20000 B"):
        plan_sweep(SweepRequest(shapes=(MINE,), max_device_bytes=MIB), capabilities())


def test_a_budget_replaces_the_presets() -> None:
    assert plan_sweep(SweepRequest(budget_s=7.0), capabilities()).budget_s == 7.0
