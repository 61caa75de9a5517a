"""The rule: DMA for few or large ranges and for tails, one small kernel launch for the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.kernels.plan import MAX_GRID_BLOCKS, Backend, PlanPair, Variant
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.rule import DIRECT_BELOW_RANGES, DIRECT_FROM_RANGE_BYTES, rule
from pega_tune.profiles.policy.terms import Objective, Runtime

MIB = 1 << 20


def backend(ranges: int, total_bytes: int, objective: Objective = Objective.BALANCED) -> Backend:
    plan, _ = rule(TransferShape(ranges, total_bytes, Direction.H2D), objective, Runtime.FULL)
    return plan.backend


def test_few_ranges_go_direct():
    assert backend(DIRECT_BELOW_RANGES - 1, MIB) is Backend.DIRECT
    assert backend(DIRECT_BELOW_RANGES, MIB) is Backend.KERNEL


def test_large_ranges_go_direct():
    assert backend(64, 64 * DIRECT_FROM_RANGE_BYTES) is Backend.DIRECT
    assert backend(64, 64 * DIRECT_FROM_RANGE_BYTES - 1) is Backend.KERNEL


def test_many_small_ranges_go_to_a_small_bounded_grid():
    plan, _ = rule(TransferShape(16384, 64 * MIB, Direction.H2D), Objective.BALANCED, Runtime.FULL)
    assert (plan.variant, plan.options.max_grid_blocks, plan.threads) == (Variant.WARP, 2, 1024)


@given(st.integers(1, 1 << 20), st.integers(1 << 20, 1 << 40), st.sampled_from(Direction), st.sampled_from(Runtime))
def test_tail_objectives_always_go_direct(ranges, total_bytes, direction, runtime):
    for objective in (Objective.TAIL_BOUNDED, Objective.STRICT):
        plan, _ = rule(TransferShape(ranges, total_bytes, direction), objective, runtime)
        assert plan.resident_threads == 0


@pytest.mark.parametrize(("runtime", "grid"), [(Runtime.PEGAFLOW, MAX_GRID_BLOCKS), (Runtime.KERNEL_OPTIONS, 256)])
def test_a_runtime_is_given_the_kernel_that_it_has(runtime, grid):
    plan, _ = rule(TransferShape(16384, 64 * MIB, Direction.H2D), Objective.THROUGHPUT, runtime)
    assert (plan.variant, plan.threads, plan.options.max_grid_blocks) == (Variant.BLOCK, 256, grid)


def test_both_directions_get_a_pair():
    one_way, _ = rule(TransferShape(16384, 64 * MIB, Direction.D2H), Objective.BALANCED, Runtime.FULL)
    both, _ = rule(TransferShape(16384, 64 * MIB, Direction.BOTH), Objective.BALANCED, Runtime.FULL)
    assert both == PlanPair(one_way, one_way)
