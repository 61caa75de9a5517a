from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pega_tune.errors import UsageError
from pega_tune.kernels.backends.base import UnsupportedPlanError
from pega_tune.kernels.backends.staged import DEFAULT_GRID, DEFAULT_THREADS, StagedBackend, StagedHabits, staged
from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.plan import CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.prepare import CapacityError
from pega_tune.kernels.program import Op, Program, Route
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staging import MIN_STAGING_BYTES, StagingBuffer
from tests.helpers.fake_driver import FakeDriver
from tests.helpers.program_model import Events, Memory, check_order, orders, run, submitted
from tests.helpers.programs import run as finish

STREAM, SIDE, START = 2**63 + 1, 2**63 + 2, 2**63 + 3
FUNCTION = 2**63 + 4
LOAD, SAVE = Direction.BOTH.legs


def buffer_of(nbytes: int, alignment: int = 256) -> NDArray[np.uint8]:
    whole = np.zeros(nbytes + alignment, np.uint8)
    skip = -whole.ctypes.data % alignment
    return whole[skip : skip + nbytes]


@dataclass(frozen=True)
class Layout:
    """Ranges as (device offset, host offset, bytes, device allocation, host allocation)."""

    ranges: tuple[tuple[int, int, int, int, int], ...]

    @property
    def total(self) -> int:
        return sum(row[2] for row in self.ranges)


class Side:
    """A host and a device buffer with a layout between them."""

    def __init__(self, layout: Layout, direction: Direction, seed: int) -> None:
        extent = 1 + max(max(device, host) + nbytes for device, host, nbytes, *_ in layout.ranges)
        random = np.random.default_rng(seed)
        self.direction, self.layout = direction, layout
        self.device, self.host = (buffer_of(extent) for _ in range(2))
        for buffer in (self.device, self.host):
            buffer[:] = random.integers(0, 256, extent, np.uint8)
        self._first = (self.device.copy(), self.host.copy())
        columns = np.array(layout.ranges, np.uint64).T.copy()
        self.batch = RangeBatch(
            device=columns[0] + np.uint64(self.device.ctypes.data),
            host=columns[1] + np.uint64(self.host.ctypes.data),
            host_alias=columns[1],
            nbytes=columns[2].copy(),
            device_allocation=columns[3].astype(np.int64),
            host_allocation=columns[4].astype(np.int64),
        )

    def reset(self) -> None:
        self.device[:], self.host[:] = self._first

    def check(self) -> None:
        """Both buffers are as they should be, and nothing around the ranges has been touched."""
        device, host = (buffer.copy() for buffer in self._first)
        for at_device, at_host, nbytes, *_ in self.layout.ranges:
            on_device, on_host = slice(at_device, at_device + nbytes), slice(at_host, at_host + nbytes)
            if self.direction is LOAD:
                device[on_device] = host[on_host]
            else:
                host[on_host] = device[on_device]
        assert np.array_equal(self.device, device)
        assert np.array_equal(self.host, host)


class Rig:
    """A backend with memory of its own."""

    def __init__(self, *sides: Side, staging: int = MIN_STAGING_BYTES, descriptors: int = 4096) -> None:
        self.sides = sides
        self.staging = buffer_of(staging)
        self.pinned, self.scratch = (np.zeros((descriptors, 3), np.uint64) for _ in range(2))
        self.space = DescriptorSpace(self.pinned, self.pinned.ctypes.data, self.scratch.ctypes.data, descriptors)
        buffers = [buffer for side in sides for buffer in (side.device, side.host)]
        self.memory = Memory(self.staging, self.pinned, self.scratch, *buffers)
        self.buffer = StagingBuffer(self.staging.ctypes.data, staging)

    def backend(self, parts: int | None = None) -> StagedBackend:
        return StagedBackend({Variant.WARP: FUNCTION}, self.space, self.buffer, 5000, StagedHabits(parts))

    def route(self) -> Route:
        return Route(STREAM, SIDE, Events(), START)

    def check(self, program: Program, seed: int = 0) -> None:
        """In every order that the rules allow the bytes are moved; no order is left to luck."""
        self.execute(lambda: check_order(program, self.memory, START))
        for choose in orders(seed):
            self.execute(lambda choose=choose: run(program, self.memory, choose))

    def execute(self, action: Callable[[], object]) -> None:
        for side in self.sides:
            side.reset()
        self.staging[:] = 0xEE
        self.scratch[:] = 2**62
        action()
        for side in self.sides:
            side.check()


@st.composite
def layouts(draw: st.DrawFn, max_ranges: int = 24) -> Layout:
    """Ranges in some order on the host, with gaps and allocation borders, and in another one on the device."""
    sizes = draw(st.lists(st.sampled_from([1, 3, 16, 500, 512, 4097]), min_size=1, max_size=max_ranges))
    gap = st.sampled_from([0, 0, 0, 1, 64])
    border = st.sampled_from([0, 0, 0, 1])

    def place(order: list[int]) -> dict[int, tuple[int, int]]:
        at, owner, places = draw(st.integers(0, 17)), 0, {}
        for i in order:
            at, owner = at + draw(gap), owner + draw(border)
            places[i] = (at, owner)
            at += sizes[i]
        return places

    indices = list(range(len(sizes)))
    device = place(draw(st.one_of(st.just(indices), st.permutations(indices))))
    host = place(draw(st.one_of(st.just(indices), st.permutations(indices))))
    return Layout(tuple((device[i][0], host[i][0], sizes[i], device[i][1], host[i][1]) for i in indices))


plans = st.builds(
    replace,
    st.just(staged()),
    threads=st.sampled_from([32, 256, 1024]),
    options=st.builds(KernelOptions, st.sampled_from([1, 3, 264])),
    chunk_bytes=st.sampled_from([None, 700, 4096]),
)


def maybe_enqueue_only(plan: CopyPlan, backpressure: bool) -> CopyPlan:
    return replace(plan, backpressure=backpressure or plan.chunk_bytes is None)


capacities = st.sampled_from([MIN_STAGING_BYTES, 8192, 12_000, 1 << 20])


@settings(max_examples=60, deadline=None)
@given(layouts(), st.sampled_from([LOAD, SAVE]), plans, st.booleans(), capacities, st.sampled_from([None, 1, 2, 5]))
def test_every_byte_is_moved_in_every_order(
    layout: Layout, direction: Direction, plan: CopyPlan, backpressure: bool, capacity: int, parts: int | None
) -> None:
    rig = Rig(Side(layout, direction, 1), staging=capacity)
    plan = maybe_enqueue_only(plan, backpressure)
    rig.check(rig.backend(parts).prepare(rig.sides[0].batch, direction, plan, rig.route()))


@settings(max_examples=40, deadline=None)
@given(layouts(), layouts(), plans, st.booleans(), st.sampled_from([None, 900]), capacities)
def test_every_byte_is_moved_in_every_order_when_fused(
    load: Layout, save: Layout, plan: CopyPlan, backpressure: bool, save_chunk: int | None, capacity: int
) -> None:
    rig = Rig(Side(load, LOAD, 1), Side(save, SAVE, 2), staging=max(capacity, 2 * MIN_STAGING_BYTES))
    pair = PlanPair(maybe_enqueue_only(plan, backpressure), replace(plan, chunk_bytes=save_chunk), fused=True)
    rig.check(rig.backend().prepare_fused(rig.sides[0].batch, rig.sides[1].batch, pair, rig.route()))


def shuffled(ranges: int, nbytes: int, stride: int = 1) -> Layout:
    """On the device in random order, on the host in one run, or in one per range if the stride is larger."""
    places = np.random.default_rng(ranges).permutation(ranges).tolist()
    return Layout(tuple((2 * nbytes * place, stride * i * nbytes, nbytes, 0, 0) for i, place in enumerate(places)))


def compiled(layout: Layout, direction: Direction, plan: CopyPlan, staging: int, parts: int | None = None) -> Program:
    rig = Rig(Side(layout, direction, 1), staging=staging)
    program = rig.backend(parts).prepare(rig.sides[0].batch, direction, plan, rig.route())
    rig.check(program)
    return program


def ops(program: Program) -> list[tuple[Op, int]]:
    """What reaches the streams, with which stream."""
    return [(task.op, task.stream) for task in submitted(program).tasks]


def dma_sizes(program: Program, direction: Direction) -> list[int]:
    """Bytes of the DMA commands of a program, the upload of descriptors left out."""
    op = Op.COPY_TO_DEVICE if direction is LOAD else Op.COPY_TO_HOST
    tasks = [task for task in submitted(program).tasks if task.op is op]
    return [task.operands[2] for task in tasks[1 if direction is LOAD else 0 :]]


def test_a_load_that_fits_is_one_dma_command_and_one_launch_in_one_stream() -> None:
    expected = [Op.RECORD, Op.COPY_TO_DEVICE, Op.COPY_TO_DEVICE, Op.LAUNCH, Op.RECORD]
    assert ops(compiled(shuffled(64, 256), LOAD, staged(), 16_384)) == [(op, STREAM) for op in expected]


def test_a_save_that_fits_is_one_launch_and_one_dma_command_in_one_stream() -> None:
    expected = [Op.RECORD, Op.COPY_TO_DEVICE, Op.LAUNCH, Op.COPY_TO_HOST, Op.RECORD]
    assert ops(compiled(shuffled(64, 256), SAVE, staged(), 16_384)) == [(op, STREAM) for op in expected]


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_kernels_of_parts_are_in_the_side_stream(direction: Direction) -> None:
    program = compiled(shuffled(64, 1024), direction, staged(), 1 << 20, parts=4)
    copy = Op.COPY_TO_DEVICE if direction is LOAD else Op.COPY_TO_HOST
    found = [entry for entry in ops(program) if entry[0] in (copy, Op.LAUNCH)]
    assert found.count((Op.LAUNCH, SIDE)) == 4
    assert found.count((copy, STREAM)) == 4 + (direction is LOAD)
    assert dma_sizes(program, direction) == [16_384] * 4
    assert Op.BARRIER not in program.commands["op"]


def test_the_next_part_is_gathered_while_one_is_copied() -> None:
    found = [op for op, _ in ops(compiled(shuffled(64, 1024), SAVE, staged(), 1 << 20, parts=3))]
    assert [op for op in found if op in (Op.LAUNCH, Op.COPY_TO_HOST)] == [
        Op.LAUNCH, Op.LAUNCH, Op.COPY_TO_HOST, Op.LAUNCH, Op.COPY_TO_HOST, Op.COPY_TO_HOST,
    ]  # fmt: skip


@pytest.mark.parametrize(("direction", "stride"), list(product([LOAD, SAVE], [1, 2])))
def test_a_dma_command_per_host_run(direction: Direction, stride: int) -> None:
    program = compiled(shuffled(100, 48, stride), direction, staged(), 1 << 20)
    assert len(dma_sizes(program, direction)) == (1 if stride == 1 else 100)


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_chunks_wait_for_one_another(direction: Direction) -> None:
    program = compiled(shuffled(64, 256), direction, staged(chunk_bytes=4096), 1 << 20)
    assert dma_sizes(program, direction) == [4096] * 4
    assert program.commands["op"].tolist().count(Op.BARRIER) == 3


def test_chunks_can_be_enqueued_at_once() -> None:
    program = compiled(shuffled(64, 256), LOAD, replace(staged(chunk_bytes=4096), backpressure=False), 1 << 20)
    assert dma_sizes(program, LOAD) == [4096] * 4
    assert Op.BARRIER not in program.commands["op"]


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_a_transfer_larger_than_the_buffer_streams_through_it(direction: Direction) -> None:
    program = compiled(shuffled(60, 1024), direction, staged(), MIN_STAGING_BYTES)
    assert dma_sizes(program, direction) == [512] * 120
    assert len(set(program.events)) == len(program.events) < 20, "events are used again"


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_one_huge_range(direction: Direction) -> None:
    huge = Layout(((5, 9, 300_000, 0, 0),))
    assert sum(dma_sizes(compiled(huge, direction, staged(), 1 << 20), direction)) == 300_000
    assert sum(dma_sizes(compiled(huge, direction, staged(), 40_000), direction)) == 300_000


def mixed(seed: int, ranges: int) -> Layout:
    """Long host runs of many small ranges, with tiles and more among them, and neighbours on the device."""
    random = np.random.default_rng(seed)
    sizes = random.choice([16, 512, 4096, 4097, 9000], ranges, p=[0.1, 0.5, 0.2, 0.1, 0.1]).tolist()
    device = {}
    for place, block in enumerate(random.permutation(ranges // 3).tolist()):  # three neighbours each
        for i in range(3 * block, 3 * block + 3):
            device[i] = 30_000 * place + sum(sizes[3 * block : i])
    host = np.cumsum([0, *sizes]).tolist()
    rows = [(device[i], host[i] + (i >= ranges // 2), sizes[i], 0, 0) for i in range(ranges)]
    return Layout(tuple(rows[i] for i in (random.permutation(ranges) if seed % 2 else range(ranges))))


@pytest.mark.parametrize(("direction", "seed"), list(product([LOAD, SAVE], range(4))))
def test_long_runs_of_many_ranges(direction: Direction, seed: int) -> None:
    rig = Rig(Side(mixed(seed, 300), direction, seed), staging=1 << 20)
    backend, route = rig.backend(parts=2), rig.route()
    rig.check(backend.prepare(rig.sides[0].batch, direction, staged(chunk_bytes=300_000), route))
    used = int(np.count_nonzero(rig.pinned[:, 2]))
    for room in (used - 1, used):
        space = DescriptorSpace(rig.pinned[:room], rig.pinned.ctypes.data, rig.scratch.ctypes.data, room)
        backend = StagedBackend({Variant.WARP: FUNCTION}, space, rig.buffer, 300, StagedHabits(parts=2))
        if room == used:
            backend.prepare(rig.sides[0].batch, direction, staged(), route)
        else:
            with pytest.raises(CapacityError):
                backend.prepare(rig.sides[0].batch, direction, staged(), route)


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_single_bytes(direction: Direction) -> None:
    assert dma_sizes(compiled(shuffled(700, 1), direction, staged(), 1 << 20), direction) == [700]
    assert (
        dma_sizes(compiled(shuffled(700, 1, stride=2), direction, staged(), MIN_STAGING_BYTES), direction) == [1] * 700
    )


def test_host_bytes_may_be_loaded_twice() -> None:
    compiled(Layout(((0, 0, 64, 0, 0), (100, 0, 64, 0, 0), (200, 64, 64, 0, 0))), LOAD, staged(), 1 << 20)


def test_ranges_that_touch_on_the_device_too_share_descriptors() -> None:
    layout = Layout(tuple((64 * i, 64 * i, 64, 0, 0) for i in range(256)))
    rig = Rig(Side(layout, LOAD, 1), staging=1 << 20)
    rig.check(rig.backend().prepare(rig.sides[0].batch, LOAD, staged(), rig.route()))
    assert rig.pinned[:5, 2].tolist() == [4096, 4096, 4096, 4096, 0]


def test_the_grid_is_what_the_descriptors_need_at_most() -> None:
    def grids(grid: int) -> list[int]:
        program = compiled(shuffled(100, 64), LOAD, staged(grid, 64), 1 << 20)
        return [task.operands[1] for task in submitted(program).tasks if task.op is Op.LAUNCH]

    assert (grids(264), grids(7)) == ([50], [7])


def test_the_default_grid_is_the_measured_one() -> None:
    assert (DEFAULT_GRID, DEFAULT_THREADS) == (264, 256)
    assert staged().options == KernelOptions(264)


def fused(load: CopyPlan, save: CopyPlan | None = None) -> PlanPair:
    return PlanPair(load, save or load, fused=True)


def both(ranges: int, nbytes: int, staging: int, pair: PlanPair) -> Program:
    rig = Rig(Side(shuffled(ranges, nbytes), LOAD, 1), Side(shuffled(ranges, nbytes), SAVE, 2), staging=staging)
    program = rig.backend().prepare_fused(rig.sides[0].batch, rig.sides[1].batch, pair, rig.route())
    rig.check(program)
    return program


def test_a_fused_pair_that_fits_is_one_launch() -> None:
    program = both(64, 256, 32_768 + 256, fused(staged()))
    moving = [entry for entry in ops(program) if entry[0] not in (Op.RECORD, Op.AWAIT)]
    upload = load = (Op.COPY_TO_DEVICE, STREAM)
    assert moving == [upload, load, (Op.LAUNCH, STREAM), (Op.COPY_TO_HOST, SIDE)]


def test_a_fused_pair_in_chunks() -> None:
    program = both(64, 256, 1 << 20, fused(staged(chunk_bytes=4096), staged(chunk_bytes=8192)))
    assert (dma_sizes(program, LOAD), dma_sizes(program, SAVE)) == ([4096] * 4, [8192] * 2)
    assert program.commands["op"].tolist().count(Op.BARRIER) == 3 + 1
    assert program.commands["op"].tolist().count(Op.LAUNCH) == 1


def test_a_fused_pair_larger_than_the_buffer_goes_in_rounds() -> None:
    program = both(64, 256, 2 * MIN_STAGING_BYTES, fused(staged()))
    assert program.commands["op"].tolist().count(Op.LAUNCH) == 8
    assert dma_sizes(program, LOAD) == dma_sizes(program, SAVE) == [2048] * 8


@pytest.mark.parametrize(
    "pair",
    [
        PlanPair(staged(), staged()),
        fused(staged(), staged(grid=1)),
        fused(staged(), staged(threads=32)),
        fused(staged(), direct()),
        fused(direct(), staged()),
    ],
    ids=lambda pair: pair.key,
)
def test_pairs_that_need_two_kernels_are_refused(pair: PlanPair) -> None:
    with pytest.raises(UnsupportedPlanError):
        both(2, 64, 1 << 20, pair)


@pytest.mark.parametrize(
    "plan",
    [
        direct(),
        kernel(Variant.WARP, 1, 32),
        replace(staged(), variant=Variant.BLOCK),
        replace(staged(), options=KernelOptions(1, chunk_descriptors=16)),
    ],
    ids=lambda plan: plan.key,
)
def test_other_plans_are_refused(plan: CopyPlan) -> None:
    with pytest.raises(UnsupportedPlanError):
        compiled(shuffled(2, 64), LOAD, plan, 1 << 20)


def test_both_directions_at_once_are_refused() -> None:
    with pytest.raises(UsageError, match="one direction"):
        compiled(shuffled(2, 64), Direction.BOTH, staged(), 1 << 20)


def test_descriptors_can_be_read_in_pinned_memory() -> None:
    side = Side(shuffled(64, 256), SAVE, 1)
    rig = Rig(side, staging=1 << 20)
    in_place = replace(rig.space, device_address=rig.space.pinned_address)
    backend = StagedBackend({Variant.WARP: FUNCTION}, in_place, rig.buffer, 64, StagedHabits(upload=False))
    program = backend.prepare(side.batch, SAVE, staged(), rig.route())
    rig.check(program)
    assert Op.COPY_TO_DEVICE not in program.commands["op"]


@pytest.mark.parametrize(("direction", "chunk"), list(product([LOAD, SAVE], [None, 1024])))
def test_native_code_runs_what_is_compiled(direction: Direction, chunk: int | None) -> None:
    rig = Rig(Side(shuffled(60, 256, stride=2), direction, 1))
    program = rig.backend().prepare(rig.sides[0].batch, direction, staged(chunk_bytes=chunk), rig.route())
    driver = FakeDriver()
    driver.move_bytes()
    driver.delay(2)
    rig.execute(lambda: finish(driver.table, program))


def test_native_code_runs_what_is_fused() -> None:
    rig = Rig(Side(shuffled(60, 256), LOAD, 1), Side(shuffled(60, 256, stride=2), SAVE, 2), staging=9000)
    pair = fused(staged(chunk_bytes=1024))
    program = rig.backend().prepare_fused(rig.sides[0].batch, rig.sides[1].batch, pair, rig.route())
    driver = FakeDriver()
    driver.move_bytes()
    driver.delay(2)
    rig.execute(lambda: finish(driver.table, program))


def test_a_new_preparation_revokes_the_last_one() -> None:
    rig = Rig(Side(shuffled(2, 64), LOAD, 1))
    backend, batch = rig.backend(), rig.sides[0].batch
    old = backend.prepare(batch, LOAD, staged(), rig.route())
    new = backend.prepare(batch, LOAD, staged(), rig.route())
    assert old.lease is not None
    assert new.lease is not None
    assert (old.lease.revoked, new.lease.revoked) == (True, False)


def test_batches_larger_than_the_buffers_are_refused() -> None:
    side = Side(shuffled(8, 64), LOAD, 1)
    rig = Rig(side, staging=1 << 20, descriptors=7)
    with pytest.raises(CapacityError, match="do not fit a space for 7"):
        rig.backend().prepare(side.batch, LOAD, staged(), rig.route())
    backend = StagedBackend({Variant.WARP: FUNCTION}, rig.space, rig.buffer, 7)
    with pytest.raises(CapacityError, match="8 ranges do not fit"):
        backend.prepare(side.batch, LOAD, staged(), rig.route())


def without(program: Program, *rows: int) -> Program:
    return replace(program, commands=np.delete(program.commands, rows))


def waits(program: Program) -> list[int]:
    return np.flatnonzero(program.commands["op"] == Op.AWAIT).tolist()


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_no_wait_is_superfluous(direction: Direction) -> None:
    """The checks of this file can fail: without one of its waits a program races, without all it moves wrong bytes."""
    rig = Rig(Side(shuffled(60, 256), direction, 1))
    program = rig.backend().prepare(rig.sides[0].batch, direction, staged(), rig.route())
    for row in waits(program):
        with pytest.raises(AssertionError, match=r"race|still run"):
            check_order(without(program, row), rig.memory, START)
    with pytest.raises(AssertionError):
        rig.execute(lambda: run(without(program, *waits(program)), rig.memory, orders(0)[direction is SAVE]))


def test_no_wait_is_superfluous_when_fused() -> None:
    rig = Rig(Side(shuffled(64, 256), LOAD, 1), Side(shuffled(64, 256), SAVE, 2), staging=2 * MIN_STAGING_BYTES)
    program = rig.backend().prepare_fused(rig.sides[0].batch, rig.sides[1].batch, fused(staged()), rig.route())
    for row in waits(program):
        with pytest.raises(AssertionError, match=r"race|still run"):
            check_order(without(program, row), rig.memory, START)
