from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.engine import CandidateKind, Capabilities
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.autotune.sweep.plans import (
    CEILING,
    STATIC_KERNEL,
    allowed,
    candidates,
    launched,
    launched_ctas,
    legs_of,
    pegaflow_kernel,
    resident_threads,
)
from pega_tune.kernels.plan import Backend, CopyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.stream_options import PartitionSizes
from pega_tune.profiles.policy.terms import Runtime
from tests.helpers.sweeps import MIB, PRIORITIES, capabilities

FRAGMENTED = TransferShape(16_384, 64 * MIB, Direction.H2D)
ALL = tuple(Backend)


@st.composite
def shapes(draw: st.DrawFn) -> TransferShape:
    ranges = draw(st.integers(1, 1 << 17))
    size = draw(st.integers(1, 1 << 26))
    return TransferShape(ranges, ranges * size, draw(st.sampled_from(Direction)))


devices = st.builds(
    capabilities,
    backends=st.sets(st.sampled_from((Backend.DIRECT, Backend.KERNEL, Backend.BATCH)), min_size=1).map(tuple),
    priorities=st.sampled_from(((0,), (0, -1), PRIORITIES)),
    max_threads=st.sampled_from((256, 512, 768, 1024)),
    partitions=st.sampled_from((None, PartitionSizes(8, 8, 132), PartitionSizes(4, 2, 82), PartitionSizes(2, 2, 14))),
)


@given(shapes(), devices, st.booleans(), st.booleans(), st.booleans())
def test_nothing_impossible_and_nothing_twice(
    shape: TransferShape, device: Capabilities, full: bool, dense: bool, hints: bool
) -> None:
    chosen = candidates(shape, device, full=full, dense=dense, hints=hints)

    assert [c.name for c in chosen if c.kind is CandidateKind.CEILING] == [CEILING]
    plans = [c.plan for c in chosen if c.kind is not CandidateKind.CEILING]
    assert plans
    assert len({c.name for c in chosen}) == len(chosen)
    assert len({launched(plan, shape) for plan in plans}) == len(plans)
    for plan in plans:
        assert isinstance(plan, PlanPair) == (shape.direction is Direction.BOTH)
        for leg in legs_of(plan):
            assert leg.backend in device.backends
            assert (leg.threads or 0) <= device.max_threads
            assert leg.stream_priority in device.priorities
            assert device.partitions.refusal(leg.sm_partition) == ""
            assert leg.sm_partition is None or (full and hints and leg.sm_partition < launched_ctas(leg, shape))
            assert not leg.prefer_overlap or hints


@given(shapes(), st.booleans())
def test_what_systems_ship_today_is_always_there(shape: TransferShape, dense: bool) -> None:
    chosen = candidates(shape, capabilities(), full=False, dense=dense)
    static = [c for c in chosen if c.kind is CandidateKind.STATIC]
    assert [c.name for c in static] == [STATIC_KERNEL]
    assert set(legs_of(static[0].plan)) == {pegaflow_kernel()}
    assert any(set(legs_of(c.plan)) == {direct()} for c in chosen if c.kind is CandidateKind.PLAN)


def test_a_full_block_has_every_axis() -> None:
    for dense in (False, True):
        plans = [c.plan for c in candidates(FRAGMENTED, capabilities(), full=True, dense=dense)]
        legs = [leg for plan in plans for leg in legs_of(plan)]
        assert len({leg.options.max_grid_blocks for leg in legs if leg.options}) >= 4
        assert len({leg.threads for leg in legs if leg.threads}) >= 3
        assert {leg.stream_priority for leg in legs} == set(PRIORITIES)


@pytest.mark.parametrize("direction", list(Direction))
def test_hints_add_partitions_of_wide_kernels_launches_in_chunks_and_the_overlap_flag(direction: Direction) -> None:
    shape = TransferShape(16_384, 64 * MIB, direction)
    device = capabilities(backends=ALL, partitions=PartitionSizes(8, 8, 132))
    for dense in (False, True):
        without = candidates(shape, device, full=True, dense=dense)
        added = [c.plan for c in candidates(shape, device, full=True, dense=dense, hints=True) if c not in without]
        legs = [leg for plan in added for leg in legs_of(plan)]
        assert {leg.sm_partition for leg in legs} == {None, 8, 16, 32, 64}
        assert {leg.backend for leg in legs if leg.prefer_overlap} == {Backend.BATCH}
        chunked = [leg.options.chunk_descriptors for leg in legs if leg.options and leg.options.chunk_descriptors]
        assert set(chunked) == {2048, 1024}
        assert all(leg.prefer_overlap or leg.sm_partition or leg.is_chunked for leg in legs)
        assert len(added) <= 12


def test_hints_cut_dma_finer() -> None:
    shape = NamedLayout.parse("strided").described(TransferShape(16_384, 64 * MIB, Direction.H2D))
    for hints, expected in ((False, {None, 4 * MIB}), (True, {None, 4 * MIB, 2 * MIB})):
        chosen = candidates(shape, capabilities(backends=ALL), full=True, dense=False, hints=hints)
        plans = [leg for c in chosen for leg in legs_of(c.plan) if leg.backend is Backend.PITCHED]
        assert {leg.chunk_bytes for leg in plans} == expected


def test_partitions_are_rounded_to_the_device() -> None:
    device = capabilities(partitions=PartitionSizes(12, 12, 40))
    chosen = candidates(FRAGMENTED, device, full=True, dense=False, hints=True)
    assert {leg.sm_partition for c in chosen for leg in legs_of(c.plan)} == {None, 12, 24, 36}


def test_a_core_block_stays_small() -> None:
    assert len(candidates(FRAGMENTED, capabilities(), full=False, dense=False)) <= 16


def test_a_single_small_range_has_one_launch_per_kernel_and_width() -> None:
    shape = TransferShape(1, 256, Direction.H2D)
    chosen = candidates(shape, capabilities(), full=False, dense=True)
    kernels = [c.plan for c in chosen if legs_of(c.plan)[0].backend is Backend.KERNEL]
    assert sorted(resident_threads(plan, shape) for plan in kernels) == [256, 256, 512, 1024]


def test_pairs_of_different_plans_where_copy_engines_can_keep_up() -> None:
    few = candidates(TransferShape(64, 64 * MIB, Direction.BOTH), capabilities(), full=False, dense=False)
    many = candidates(TransferShape(16_384, 64 * MIB, Direction.BOTH), capabilities(), full=False, dense=False)

    def mixed(chosen: tuple[object, ...]) -> int:
        return sum(len(set(legs_of(c.plan))) == 2 for c in chosen)  # type: ignore[attr-defined]

    assert mixed(few) == 2
    assert mixed(many) == 0


def test_launches_are_cut_to_the_work() -> None:
    shape = TransferShape(16, 16 * 4096, Direction.H2D)
    assert launched_ctas(kernel(Variant.BLOCK, 512, 256), shape) == 16
    assert launched_ctas(kernel(Variant.WARP, 512, 256), shape) == 2
    assert launched_ctas(direct(), shape) == 0
    huge = TransferShape(2, 64 * MIB, Direction.H2D)
    assert launched_ctas(kernel(Variant.BLOCK, 512, 256), huge) == 2
    assert launched_ctas(kernel(Variant.WARP, 512, 256), huge) == 512
    assert resident_threads(PlanPair(kernel(Variant.WARP, 1, 1024), direct()), shape) == 1024
    wide = replace(kernel(Variant.WARP, 512, 256), sm_partition=8)
    assert (resident_threads(wide, shape), resident_threads(wide, huge)) == (2 * 256, 8 * 2048)


def test_runtimes_run_what_they_can() -> None:
    today, bounded = pegaflow_kernel(), kernel(Variant.BLOCK, 64, 256)
    warp, narrow = kernel(Variant.WARP, 2, 1024), kernel(Variant.BLOCK, 64, 512)
    urgent, confined = kernel(Variant.BLOCK, 64, 256, -5), replace(bounded, sm_partition=8)
    overlap = CopyPlan(Backend.BATCH, prefer_overlap=True)
    table = {
        Runtime.PEGAFLOW: (direct(), today),
        Runtime.KERNEL_OPTIONS: (direct(), today, bounded),
        Runtime.FULL: (direct(), today, bounded, warp, narrow, urgent, confined, overlap),
    }
    for runtime, runs in table.items():
        for plan in table[Runtime.FULL]:
            assert allowed(runtime, plan) == (plan in runs)
            assert allowed(runtime, PlanPair(plan, direct())) == (plan in runs)


@given(shapes(), st.booleans(), st.booleans())
def test_shuffled_ranges_are_neither_pitched_nor_staged(shape: TransferShape, full: bool, dense: bool) -> None:
    before = candidates(shape, capabilities(), full=full, dense=dense)
    after = candidates(shape, capabilities(backends=ALL), full=full, dense=dense)
    added = [c for c in after if c not in before]
    assert [c for c in after if c in before] == list(before)
    assert [{leg.backend for leg in legs_of(c.plan)} for c in added] == [{Backend.BATCH}]


@pytest.mark.parametrize("direction", list(Direction))
def test_structure_is_used_where_it_is_known(direction: Direction) -> None:
    shape = TransferShape(16_384, 64 * MIB, direction, host_runs=1, pitch=8192)
    plans = [c.plan for c in candidates(shape, capabilities(backends=ALL), full=False, dense=False)]
    legs = [leg for plan in plans for leg in legs_of(plan)]
    assert {leg.chunk_bytes for leg in legs if leg.backend is Backend.PITCHED} == {None, 4 * MIB}
    assert {leg.chunk_bytes for leg in legs if leg.backend is Backend.STAGED} == {None, 4 * MIB}
    assert any(isinstance(p, PlanPair) and p.fused for p in plans) == (direction is Direction.BOTH)
    without = candidates(shape, capabilities(), full=False, dense=False)
    assert {leg.backend for c in without for leg in legs_of(c.plan)} == {Backend.DIRECT, Backend.KERNEL}


def test_staging_is_left_out_where_it_cannot_win() -> None:
    shape = TransferShape(16_384, 64 * MIB, Direction.H2D, host_runs=16_384)
    plans = [c.plan for c in candidates(shape, capabilities(backends=ALL), full=True, dense=True)]
    assert all(leg.backend is not Backend.STAGED for plan in plans for leg in legs_of(plan))
