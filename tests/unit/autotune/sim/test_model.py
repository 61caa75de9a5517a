"""What holds between the measured points, whatever the numbers are."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sim.curve import Curve
from pega_tune.autotune.sim.model import TransferModel, refusal
from pega_tune.autotune.sim.parameters import load_parameters
from pega_tune.kernels.plan import (
    AnyPlan,
    Backend,
    CopyPlan,
    KernelOptions,
    PlanPair,
    Variant,
    direct,
    kernel,
)
from pega_tune.kernels.shape import Direction, TransferShape

MODEL = TransferModel(load_parameters("h200"))
MIB = 1 << 20
BATCH, PITCHED = CopyPlan(Backend.BATCH), CopyPlan(Backend.PITCHED)
STAGED = CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(264))

variants = st.sampled_from(list(Variant))
threads = st.sampled_from([32, 128, 256, 1024])
grids = st.integers(1, 65_535)
kernels = st.builds(kernel, variants, grids, threads)
plans = st.one_of(st.just(direct()), kernels)
directions = st.sampled_from(list(Direction))
counts = st.integers(1, 1 << 17)
sizes = st.integers(1, 1 << 26)


def _for(plan: CopyPlan, direction: Direction) -> AnyPlan:
    return PlanPair(plan, plan) if direction is Direction.BOTH else plan


def _time_s(plan: CopyPlan, ranges: int, total: int, direction: Direction = Direction.H2D) -> float:
    return MODEL.times(_for(plan, direction), TransferShape(ranges, total, direction)).transfer_s


@given(plans, counts, sizes, directions)
def test_parts_are_positive_and_add_up(plan: CopyPlan, ranges: int, size: int, direction: Direction) -> None:
    times = MODEL.times(_for(plan, direction), TransferShape(ranges, ranges * size, direction))
    assert min(times.prepare_s, times.submit_s, times.start_s, times.device_s) > 0
    assert times.prepare_s + times.submit_s + times.start_s < times.transfer_s
    assert times.prepare_s + times.device_s <= times.transfer_s * (1 + 1e-9)


@given(plans, counts, sizes, directions)
def test_nothing_is_faster_than_the_ceiling(plan: CopyPlan, ranges: int, size: int, direction: Direction) -> None:
    shape = TransferShape(ranges, ranges * size, direction)
    assert MODEL.times(_for(plan, direction), shape).transfer_s > MODEL.contiguous(shape).transfer_s


@given(plans, counts, sizes, st.floats(1.0, 8.0), directions)
def test_more_bytes_in_as_many_ranges_take_no_less(
    plan: CopyPlan, ranges: int, size: int, factor: float, direction: Direction
) -> None:
    less, more = ranges * size, int(ranges * size * factor)
    # A coarser tile has fewer descriptors, which may save a little of their upload.
    assert _time_s(plan, ranges, more, direction) >= 0.95 * _time_s(plan, ranges, less, direction)


@given(counts, st.integers(1, 8), directions)
def test_more_ranges_cost_more_commands(ranges: int, factor: int, direction: Direction) -> None:
    total = 64 * MIB
    assert _time_s(direct(), ranges * factor, total, direction) >= _time_s(direct(), ranges, total, direction)


@given(variants, st.integers(1, 32_767), threads, counts, sizes)
def test_a_wider_grid_is_no_slower_one_way(variant: Variant, grid: int, width: int, ranges: int, size: int) -> None:
    narrow = _time_s(kernel(variant, grid, width), ranges, ranges * size)
    wide = _time_s(kernel(variant, 2 * grid, width), ranges, ranges * size)
    assert wide <= narrow * 1.1  # finer tiles have more descriptors to write


@given(kernels, counts, sizes)
def test_both_ways_take_no_less_than_either(plan: CopyPlan, ranges: int, size: int) -> None:
    total = ranges * size
    both = _time_s(plan, ranges, total, Direction.BOTH)
    assert both > max(_time_s(plan, ranges, total, Direction.H2D), _time_s(plan, ranges, total, Direction.D2H))


def test_a_full_grid_serialises_the_two_directions_and_a_bounded_one_does_not() -> None:
    def gib_per_s(grid: int) -> float:
        return 2 * 64 * MIB / _time_s(kernel(Variant.BLOCK, grid, 256), 16384, 64 * MIB, Direction.BOTH) / 2**30

    assert gib_per_s(512) > 1.3 * gib_per_s(16384)


@given(st.sampled_from((8, 64)), st.integers(1, 512), threads, counts, sizes, directions)
def test_a_partition_bounds_what_is_resident_and_nothing_else(
    sms: int, grid: int, width: int, ranges: int, size: int, direction: Direction
) -> None:
    plan = kernel(Variant.BLOCK, grid, width)
    confined, total = replace(plan, sm_partition=sms), ranges * size
    free_s, confined_s = _time_s(plan, ranges, total, direction), _time_s(confined, ranges, total, direction)
    assert confined_s >= free_s
    if grid * width * (2 if direction is Direction.BOTH else 1) <= sms * 2048:
        assert confined_s == free_s


def test_a_narrow_partition_slows_a_wide_kernel_down_and_load_and_save_share_it() -> None:
    def ratio(direction: Direction) -> float:
        wide = kernel(Variant.BLOCK, 128, 1024)
        confined = _time_s(replace(wide, sm_partition=8), 16384, 64 * MIB, direction)
        return confined / _time_s(wide, 16384, 64 * MIB, direction)

    assert ratio(Direction.H2D) > 1.05
    assert ratio(Direction.BOTH) > 1.3


def test_the_overlap_flag_changes_nothing_that_was_measured() -> None:
    shape = TransferShape(1024, 64 * MIB, Direction.D2H)
    assert MODEL.times(replace(BATCH, prefer_overlap=True), shape) == MODEL.times(BATCH, shape)


def test_one_huge_range_is_cut_into_tiles_by_the_warp_kernel() -> None:
    shape = TransferShape(1, 64 * MIB, Direction.H2D)
    ratio = MODEL.contiguous(shape).transfer_s / _time_s(kernel(Variant.WARP, 32, 256), 1, 64 * MIB)
    assert ratio > 0.8
    assert _time_s(kernel(Variant.BLOCK, 32, 256), 1, 64 * MIB) > 5 * _time_s(
        kernel(Variant.WARP, 32, 256), 1, 64 * MIB
    )


def test_chunks_of_a_kernel_pay_for_their_launches() -> None:
    whole = kernel(Variant.WARP, 32, 256)
    chunked = replace(whole, options=KernelOptions(32, chunk_descriptors=1024))
    extra = _time_s(chunked, 16384, 64 * MIB) - _time_s(whole, 16384, 64 * MIB)
    assert 15 * 10e-6 < extra < 15 * 25e-6


def test_chunks_of_a_copy_pay_for_their_completions() -> None:
    # Measured: 16 parts of a contiguous 64 MiB take 0.27 ms more than one command.
    chunked = CopyPlan(Backend.DIRECT, chunk_bytes=4 * MIB)
    extra = _time_s(chunked, 1, 64 * MIB, Direction.BOTH) - _time_s(direct(), 1, 64 * MIB, Direction.BOTH)
    assert extra == pytest.approx(0.27e-3, rel=0.35)


def test_narrow_accesses_are_slower() -> None:
    plan = kernel(Variant.WARP, 1, 256)
    wide, narrow = (
        MODEL.times(plan, TransferShape(4096, 16 * MIB, Direction.H2D, alignment=alignment)) for alignment in (16, 4)
    )
    assert narrow.device_s > 2 * wide.device_s


def test_what_is_not_modelled_is_refused() -> None:
    shuffled = TransferShape(16, 16 * 4096, Direction.H2D)
    ordered = replace(shuffled, host_runs=1, pitch=8192)
    assert "stride" in refusal(PITCHED, shuffled)
    assert "host runs" in refusal(PlanPair(STAGED, direct()), shuffled)
    assert "share a launch" in refusal(PlanPair(STAGED, direct(), fused=True), ordered)
    for plan in (PITCHED, STAGED, BATCH, PlanPair(STAGED, STAGED, fused=True)):
        assert refusal(plan, ordered) == ""
    with pytest.raises(ValueError, match="stride"):
        MODEL.times(PITCHED, shuffled)


@given(st.sampled_from((BATCH, PITCHED, STAGED)), counts, sizes, directions)
def test_backends_that_need_structure_keep_the_same_laws(
    plan: CopyPlan, ranges: int, size: int, direction: Direction
) -> None:
    shape = TransferShape(ranges, ranges * size, direction, host_runs=1, pitch=2 * size)
    times = MODEL.times(_for(plan, direction), shape)
    assert min(times.prepare_s, times.submit_s, times.start_s, times.device_s) > 0
    assert times.prepare_s + times.device_s <= times.transfer_s * (1 + 1e-9)
    assert times.transfer_s > MODEL.contiguous(shape).transfer_s


@given(st.sampled_from((direct(), BATCH, PITCHED, STAGED)), st.integers(2, 64))
def test_waiting_between_chunks_costs_time(plan: CopyPlan, chunks: int) -> None:
    shape = TransferShape(64, 64 * MIB, Direction.H2D, host_runs=1, pitch=2 * MIB)
    chunked = replace(plan, chunk_bytes=-(-64 * MIB // chunks))
    whole, waiting, enqueued = (
        MODEL.times(one, shape).transfer_s for one in (plan, chunked, replace(chunked, backpressure=False))
    )
    assert waiting - enqueued > (chunks - 1) * 10e-6
    assert enqueued >= whole


def test_more_host_runs_make_staging_slower() -> None:
    few, many = (TransferShape(16384, 64 * MIB, Direction.H2D, host_runs=runs) for runs in (1, 4096))
    assert MODEL.times(STAGED, many).submit_s - MODEL.times(STAGED, few).submit_s > 4095 * 2e-6


def test_a_batch_falls_off_the_cliff_between_16_and_32_kib() -> None:
    slow, fast = (MODEL.times(BATCH, TransferShape(n, 64 * MIB, Direction.H2D)).transfer_s for n in (4096, 2048))
    assert slow > 4 * fast


def test_enqueued_launches_start_behind_one_another() -> None:
    options = KernelOptions(65_535, chunk_descriptors=1024)
    waiting = replace(kernel(Variant.BLOCK, 65_535, 256), options=options)
    enqueued = replace(waiting, backpressure=False)
    assert _time_s(enqueued, 16384, 64 * MIB) < _time_s(waiting, 16384, 64 * MIB)


@given(st.one_of(kernels, st.just(STAGED)), counts, sizes, directions)
def test_kernels_hold_as_many_sms_as_they_have_ctas_while_they_run(
    plan: CopyPlan, ranges: int, size: int, direction: Direction
) -> None:
    shape = TransferShape(ranges, ranges * size, direction, host_runs=1)
    times = MODEL.times(_for(plan, direction), shape)
    assert plan.options
    most = min(plan.options.max_grid_blocks, 132) * len(direction.legs)
    assert times.sm_s is not None
    assert times.span_s is not None
    assert 0 < times.sm_s <= most * times.span_s * (1 + 1e-9)
    assert times.span_s < times.transfer_s


def test_copy_engines_hold_no_sm_and_batched_copies_nobody_knows() -> None:
    shape = TransferShape(64, 64 * MIB, Direction.H2D, host_runs=1, pitch=2 * MIB)
    dma = [MODEL.times(plan, shape) for plan in (direct(), PITCHED)]
    assert [(times.sm_s, times.span_s) for times in (*dma, MODEL.contiguous(shape))] == [(0.0, 0.0)] * 3
    assert (MODEL.times(BATCH, shape).sm_s, MODEL.times(BATCH, shape).span_s) == (None, None)


def test_a_small_partition_holds_fewer_sms() -> None:
    shape = TransferShape(16384, 64 * MIB, Direction.H2D)
    wide = kernel(Variant.WARP, 128, 256)
    everywhere, confined = (MODEL.times(plan, shape) for plan in (wide, replace(wide, sm_partition=8)))
    assert everywhere.sm_s == pytest.approx(128 * (everywhere.span_s or 0.0))
    assert confined.sm_s == pytest.approx(8 * (confined.span_s or 0.0))


def test_a_pair_for_one_direction_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        MODEL.times(PlanPair(direct(), direct()), TransferShape(1, 1, Direction.H2D))


CURVE = Curve((1.0, 10.0, 1000.0), (2.0, 20.0, 200.0))


@given(st.floats(1e-3, 1e6), st.floats(1.0, 10.0))
def test_a_curve_is_as_monotone_as_its_points(x: float, factor: float) -> None:
    assert CURVE.at(x) <= CURVE.at(x * factor) * (1 + 1e-12)
    assert CURVE.saturating(x) <= CURVE.saturating(x * factor) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("x", "y"), [(0.5, 2.0), (1.0, 2.0), (10.0, 20.0), (100.0, 63.2455532), (1000, 200), (9e9, 200)]
)
def test_a_curve_meets_its_points_and_ends_flat(x: float, y: float) -> None:
    assert CURVE.at(x) == pytest.approx(y)


def test_a_saturating_curve_begins_proportional() -> None:
    assert CURVE.saturating(0.25) == pytest.approx(0.5)


@pytest.mark.parametrize(("xs", "ys"), [((), ()), ((1.0,), (1.0, 2.0)), ((2.0, 1.0), (1.0, 1.0)), ((1.0,), (0.0,))])
def test_points_that_are_no_curve_are_refused(xs: tuple[float, ...], ys: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="curve"):
        Curve(xs, ys)
