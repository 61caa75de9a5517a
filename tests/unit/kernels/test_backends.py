from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.backends.base import UnsupportedPlanError
from pega_tune.kernels.backends.direct import DirectBackend
from pega_tune.kernels.backends.kernel import KernelBackend
from pega_tune.kernels.commands import Op
from pega_tune.kernels.driver import DriverCallError, DriverFunction
from pega_tune.kernels.plan import Backend, Completion, CopyPlan, Variant, direct, kernel
from pega_tune.kernels.prepare import CapacityError, Workspace
from pega_tune.kernels.program import StaleError
from pega_tune.kernels.ranges import DeviceRegion, HostRegion, RangeBatch
from pega_tune.kernels.shape import Direction
from tests.helpers.backend_rig import FUNCTIONS, SCATTERED, Rig
from tests.helpers.batches import batches, columns, merged_rows, rows_of
from tests.helpers.fake_driver import Call
from tests.helpers.programs import STREAM, route, run, submit


@given(batches(), st.sampled_from(Direction.BOTH.legs))
def test_direct_copies_merged_ranges_in_host_order(batch: RangeBatch, direction: Direction) -> None:
    rig = Rig()
    calls = rig.calls(batch, direction, direct())
    merged = [(device, host, nbytes) for device, host, _, nbytes in merged_rows(batch)]
    if direction is Direction.H2D:
        expected = [Call(DriverFunction.MEMCPY_HTOD_ASYNC, (*row, STREAM)) for row in merged]
    else:
        expected = [Call(DriverFunction.MEMCPY_DTOH_ASYNC, (h, d, n, STREAM)) for d, h, n in merged]
    assert calls == expected


def test_direct_moves_one_range_with_one_command() -> None:
    rig = Rig()
    batch = columns([(2**63, 2**62, 2**61, 64 << 20, 0, 0)])
    program = rig.prepare(batch, Direction.H2D, direct())
    assert program.commands["op"].tolist() == [Op.COPY_TO_DEVICE, Op.RECORD]
    submit(rig.driver.table, program)
    assert rig.driver.calls[:1] == [Call(DriverFunction.MEMCPY_HTOD_ASYNC, (2**63, 2**62, 64 << 20, STREAM))]


def test_direct_reports_the_range_that_failed() -> None:
    rig = Rig()
    rig.driver.fail(3, 719)
    program = rig.prepare(columns(SCATTERED), Direction.H2D, direct())
    with pytest.raises(DriverCallError) as caught:
        submit(rig.driver.table, program)
    assert (caught.value.index, caught.value.is_sticky) == (3, True)


@pytest.mark.parametrize(("grid", "blocks"), [(1, 1), (7, 7), (8, 8), (65_535, 8)])
def test_block_takes_raw_ranges_as_given_and_one_cta_each(grid: int, blocks: int) -> None:
    rig = Rig()
    batch = columns(SCATTERED)
    upload, launch = rig.calls(batch, Direction.H2D, kernel(Variant.BLOCK, grid, 256))
    assert rig.pinned[:8].tolist() == [[device, alias, nbytes] for device, _, alias, nbytes, *_ in rows_of(batch)]
    assert upload.arguments == (rig.device_address, rig.pinned.ctypes.data, 8 * 24, STREAM)
    assert launch.arguments[:9] == (FUNCTIONS[Variant.BLOCK], blocks, 1, 1, 256, 1, 1, 0, STREAM)
    assert launch.arguments[11:] == (rig.device_address, 8)


def test_block_neither_merges_nor_splits() -> None:
    rig = Rig()
    rows = [(0, 0, 0, 1 << 20, 0, 0), (1 << 20, 1 << 20, 1 << 20, 1 << 20, 0, 0)]
    _, launch = rig.calls(columns(rows), Direction.D2H, kernel(Variant.BLOCK, 64, 256))
    assert launch.arguments[12] == 2
    assert rig.pinned[:2].tolist() == [[0, 0, 1 << 20], [1 << 20, 1 << 20, 1 << 20]]


@pytest.mark.parametrize(
    ("grid", "threads", "blocks"), [(65_535, 64, 4), (65_535, 96, 3), (65_535, 1024, 1), (2, 64, 2)]
)
def test_warp_takes_one_warp_per_range_in_the_order_given(grid: int, threads: int, blocks: int) -> None:
    rig = Rig()
    batch = columns(SCATTERED)
    _, launch = rig.calls(batch, Direction.D2H, kernel(Variant.WARP, grid, threads))
    expected = [[alias, device, nbytes] for device, _, alias, nbytes, *_ in rows_of(batch)]
    assert rig.pinned[:8].tolist() == expected
    assert launch.arguments[:5] == (FUNCTIONS[Variant.WARP], blocks, 1, 1, threads)
    assert launch.arguments[12] == 8


def test_warp_splits_one_huge_range_over_the_whole_grid() -> None:
    rig = Rig(descriptors=1025)
    batch = columns([(0, 0, 0, 64 << 20, 0, 0)])
    _, launch = rig.calls(batch, Direction.H2D, kernel(Variant.WARP, 2, 1024))
    assert (launch.arguments[1], launch.arguments[12]) == (2, 1024)
    assert set(rig.pinned[:1024, 2].tolist()) == {65_536}
    assert rig.pinned[:1024, 0].tolist() == [i * 65_536 for i in range(1024)]


@pytest.mark.parametrize(("failing", "function"), [(0, "cuMemcpyHtoDAsync"), (1, "cuLaunchKernel")])
def test_kernel_names_the_call_that_failed(failing: int, function: str) -> None:
    rig = Rig()
    rig.driver.fail(failing, 201)
    program = rig.prepare(columns(SCATTERED), Direction.H2D, kernel(Variant.WARP, 1, 1024))
    with pytest.raises(DriverCallError, match=f"{function} failed at index {failing} with 201"):
        submit(rig.driver.table, program)


SIZES = [1, 2, 15, 16, 17, 4095, 4096, 4097, 70_000]
PLANS = [direct(), kernel(Variant.BLOCK, 3, 256), kernel(Variant.WARP, 1, 32), kernel(Variant.WARP, 65_535, 1024)]


@pytest.mark.parametrize(
    ("plan", "direction"),
    list(product(PLANS, Direction.BOTH.legs)),
    ids=lambda value: getattr(value, "key", str(value)),
)
def test_every_plan_moves_exactly_the_bytes_of_its_ranges(plan: CopyPlan, direction: Direction) -> None:
    random = np.random.default_rng(1)
    rig = Rig()
    rig.driver.move_bytes()
    device, host = (random.integers(0, 256, 1 << 18, dtype=np.uint8) for _ in range(2))
    nbytes = np.array(SIZES, np.uint64)
    starts = np.cumsum(nbytes) - nbytes  # the first half touches on both sides
    device_offsets = starts + np.where(np.arange(len(SIZES)) < 5, 3, 9).astype(np.uint64)
    shuffled = random.permutation(len(SIZES))
    batch = RangeBatch.within(
        DeviceRegion(device.ctypes.data, device.size, 0),
        HostRegion(host.ctypes.data, host.ctypes.data, host.size, 0),
        device_offsets[shuffled],
        starts[shuffled],
        nbytes[shuffled],
    )
    source, target = (host, device) if direction is Direction.H2D else (device, host)
    expected = target.copy()
    for at_device, at_host, size in zip(device_offsets.tolist(), starts.tolist(), SIZES, strict=True):
        source_at, target_at = (at_host, at_device) if direction is Direction.H2D else (at_device, at_host)
        expected[target_at : target_at + size] = source[source_at : source_at + size]
    run(rig.driver.table, rig.prepare(batch, direction, plan))
    assert np.array_equal(target, expected)


KERNEL = kernel(Variant.WARP, 1, 32)


@pytest.mark.parametrize("plan", [CopyPlan(Backend.BATCH), KERNEL], ids=lambda plan: plan.key)
def test_direct_refuses_what_it_cannot_do(plan: CopyPlan) -> None:
    with pytest.raises(UnsupportedPlanError):
        DirectBackend(Workspace(8)).prepare(columns(SCATTERED), Direction.H2D, plan, route())


@pytest.mark.parametrize(
    "plan",
    [replace(KERNEL, chunk_bytes=1 << 20), replace(KERNEL, backend=Backend.STAGED), direct()],
    ids=lambda plan: plan.key,
)
def test_kernel_refuses_what_it_cannot_do(plan: CopyPlan) -> None:
    with pytest.raises(UnsupportedPlanError):
        KernelBackend(FUNCTIONS, Rig().space).prepare(columns(SCATTERED), Direction.H2D, plan, route())


@pytest.mark.parametrize("completion", list(Completion))
@pytest.mark.parametrize("plan", [direct(), KERNEL], ids=lambda plan: plan.key)
def test_how_the_host_waits_changes_no_call(plan: CopyPlan, completion: Completion) -> None:
    batch = columns(SCATTERED)
    calls = Rig().calls(batch, Direction.H2D, replace(plan, completion=completion))
    assert [call.function for call in calls] == [call.function for call in Rig().calls(batch, Direction.H2D, plan)]


def test_kernel_refuses_a_variant_that_it_was_not_given() -> None:
    backend = KernelBackend({Variant.WARP: 1}, Rig().space)
    with pytest.raises(UnsupportedPlanError, match="no block kernel"):
        backend.prepare(columns(SCATTERED), Direction.H2D, kernel(Variant.BLOCK, 1, 32), route())


@pytest.mark.parametrize("plan", [direct(), KERNEL, kernel(Variant.BLOCK, 1, 32)], ids=lambda plan: plan.key)
def test_both_directions_at_once_are_refused(plan: CopyPlan) -> None:
    with pytest.raises(UsageError, match="one direction"):
        Rig().prepare(columns(SCATTERED), Direction.BOTH, plan)


@pytest.mark.parametrize("plan", [direct(), KERNEL], ids=lambda plan: plan.key)
def test_only_the_newest_preparation_can_be_submitted(plan: CopyPlan) -> None:
    rig = Rig()
    old = rig.prepare(columns(SCATTERED), Direction.H2D, plan)
    rig.prepare(columns(SCATTERED), Direction.D2H, plan)
    with pytest.raises(StaleError):
        submit(rig.driver.table, old)
    assert rig.driver.calls == []


def test_batches_larger_than_the_buffers_are_refused() -> None:
    with pytest.raises(CapacityError, match="8 ranges do not fit"):
        Rig(ranges=7).prepare(columns(SCATTERED), Direction.H2D, direct())
    with pytest.raises(CapacityError, match="8 descriptors do not fit"):
        Rig(descriptors=7).prepare(columns(SCATTERED), Direction.H2D, kernel(Variant.BLOCK, 1, 32))
