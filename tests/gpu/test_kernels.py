from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pega_tune.autotune.cuda.layout import Layout, odd_ranges
from pega_tune.kernels.plan import MAX_GRID_BLOCKS, Completion, CopyPlan, Variant, direct, kernel
from pega_tune.kernels.shape import Direction
from tests.helpers.gpu import Rig, assert_exact

pytestmark = pytest.mark.gpu

LEGS = list(Direction.BOTH.legs)
MIB = 1 << 20
ODD = odd_ranges(11)


def _layout(host: Sequence[int], device: Sequence[int], nbytes: Sequence[int]) -> Layout:
    extent = max(*(np.add(host, nbytes)), *(np.add(device, nbytes))) + 64
    return Layout(*(np.array(column, np.uint64) for column in (host, device, nbytes)), -(-int(extent) // 16) * 16)


@pytest.mark.parametrize("direction", LEGS)
@pytest.mark.parametrize("threads", [32, 256, 1024])
@pytest.mark.parametrize("grid", [1, 7, MAX_GRID_BLOCKS])
@pytest.mark.parametrize("variant", list(Variant))
def test_sizes_1_to_4097_at_every_alignment(
    rig: Rig, variant: Variant, grid: int, threads: int, direction: Direction
) -> None:
    plan = kernel(variant, grid, threads)
    assert_exact(rig.run(direction, plan, ODD, seed=grid + threads), direction, ODD)


@pytest.mark.parametrize("direction", LEGS)
def test_direct_copies_sizes_1_to_4097_at_every_alignment(rig: Rig, direction: Direction) -> None:
    assert_exact(rig.run(direction, direct(), ODD), direction, ODD)


rows = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 20_000)), min_size=1, max_size=40)
whole = st.one_of(
    st.just(direct()),
    st.builds(kernel, st.sampled_from(Variant), st.integers(1, 200), st.integers(1, 32).map(lambda warps: 32 * warps)),
)


@st.composite
def plans(draw: st.DrawFn) -> CopyPlan:
    """Any plan, in chunks or not, with any way to wait."""
    plan = replace(draw(whole), completion=draw(st.sampled_from(Completion)))
    if draw(st.booleans()):
        return plan
    if plan.options is None:
        chunked = replace(plan, chunk_bytes=draw(st.integers(1_000, 100_000)))
    else:
        chunked = replace(plan, options=replace(plan.options, chunk_descriptors=draw(st.integers(1, 20))))
    return replace(chunked, backpressure=draw(st.booleans()))


@given(rows, plans(), st.sampled_from(LEGS), st.randoms(use_true_random=False))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_ranges_by_any_plan(
    rig: Rig, rows: list[tuple[int, int, int]], plan: CopyPlan, direction: Direction, random: Random
) -> None:
    # Gaps of 0 make ranges touch on one side, on both, or on neither.
    host = device = 0
    columns: list[tuple[int, int, int]] = []
    for host_gap, device_gap, size in rows:
        host, device = host + host_gap, device + device_gap
        columns.append((host, device, size))
        host, device = host + size, device + size
    random.shuffle(columns)
    layout = _layout(*zip(*columns, strict=True))
    assert_exact(rig.run(direction, plan, layout), direction, layout)


@pytest.mark.parametrize("direction", LEGS)
@pytest.mark.parametrize("variant", list(Variant))
@pytest.mark.parametrize(("host", "device"), [(0, 0), (3, 11), (5, 5)])
def test_one_huge_range(rig: Rig, variant: Variant, direction: Direction, host: int, device: int) -> None:
    layout = _layout([host], [device], [64 * MIB + 13])
    assert_exact(rig.run(direction, kernel(variant, 16, 1024), layout), direction, layout)


@pytest.mark.parametrize("variant", list(Variant))
@pytest.mark.parametrize("count", [1, 2, 31, 33, 70_000])
def test_fewer_and_more_ranges_than_the_largest_grid(rig: Rig, variant: Variant, count: int) -> None:
    # Every second slot of 16 bytes, so that nothing merges.
    offsets = [32 * index for index in range(count)]
    layout = _layout(offsets, offsets, [16] * count)
    plan = kernel(variant, MAX_GRID_BLOCKS, 32)
    assert_exact(rig.run(Direction.H2D, plan, layout), Direction.H2D, layout)


def test_the_kernels_can_be_launched_with_1024_threads(rig: Rig) -> None:
    assert [function.max_threads for function in rig.functions.values()] == [1024, 1024]
