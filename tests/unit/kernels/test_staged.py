from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pega_tune.errors import UsageError
from pega_tune.kernels.backends.base import UnsupportedPlanError
from pega_tune.kernels.backends.staged import DEFAULT_GRID, DEFAULT_THREADS, StagedBackend, StagedHabits, staged
from pega_tune.kernels.commands import Op
from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.driver import DriverFunction as F
from pega_tune.kernels.executor import Execution, Progress
from pega_tune.kernels.plan import Completion, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.prepare import CapacityError
from pega_tune.kernels.program import Program, Route, StaleError
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staged_leg import StagedLeg
from pega_tune.kernels.staging import MIN_STAGING_BYTES, StagingBuffer, pipelined
from pega_tune.kernels.waiting import wait_all
from tests.helpers.fake_driver import FakeDriver
from tests.helpers.program_model import Events, Memory, check_order, orders, run, submitted
from tests.helpers.programs import CountedEvents
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
        pinned, scratch = (rows.ctypes.data for rows in (self.pinned, self.scratch))
        self.space = DescriptorSpace(self.pinned, pinned, scratch, descriptors, pinned)
        buffers = [buffer for side in sides for buffer in (side.device, side.host)]
        self.memory = Memory(self.staging, self.pinned, self.scratch, *buffers)
        self.buffer = StagingBuffer(self.staging.ctypes.data, staging)

    def backend(self, parts: int | None = None, upload: bool = False) -> StagedBackend:
        return StagedBackend({Variant.WARP: FUNCTION}, self.space, self.buffer, 5000, StagedHabits(parts, upload))

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
        self.scratch[:] = self.pinned[:] = 2**62
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
).flatmap(lambda plan: st.sampled_from([plan, replace(plan, backpressure=plan.chunk_bytes is None)]))
habits = st.builds(StagedHabits, st.sampled_from([None, 1, 2, 5]), st.booleans())
capacities = st.sampled_from([MIN_STAGING_BYTES, 8192, 12_000, 1 << 20])


@settings(max_examples=60, deadline=None)
@given(layouts(), st.sampled_from([LOAD, SAVE]), plans, capacities, habits)
def test_every_byte_is_moved_in_every_order(
    layout: Layout, direction: Direction, plan: CopyPlan, capacity: int, habit: StagedHabits
) -> None:
    rig = Rig(Side(layout, direction, 1), staging=capacity)
    rig.check(rig.backend(habit.parts, habit.upload).prepare(rig.sides[0].batch, direction, plan, rig.route()))


@settings(max_examples=40, deadline=None)
@given(layouts(), layouts(), plans, st.sampled_from([None, 900]), capacities, st.booleans())
def test_every_byte_is_moved_in_every_order_when_fused(
    load: Layout, save: Layout, plan: CopyPlan, save_chunk: int | None, capacity: int, upload: bool
) -> None:
    rig = Rig(Side(load, LOAD, 1), Side(save, SAVE, 2), staging=max(capacity, 2 * MIN_STAGING_BYTES))
    pair = PlanPair(plan, replace(plan, chunk_bytes=save_chunk, backpressure=True), fused=True)
    rig.check(rig.backend(upload=upload).prepare_fused(rig.sides[0].batch, rig.sides[1].batch, pair, rig.route()))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(layouts(), st.sampled_from([LOAD, SAVE]), plans), min_size=2, max_size=5), habits)
def test_one_backend_and_route_take_one_batch_after_another(
    jobs: list[tuple[Layout, Direction, CopyPlan]], habit: StagedHabits
) -> None:
    """Programs are filled in again: what is left of one must not show in the next."""
    rig = Rig(*(Side(layout, direction, seed) for seed, (layout, direction, _) in enumerate(jobs)))
    everyone, route = rig.sides, rig.route()
    backend = rig.backend(habit.parts, habit.upload)
    for side, (_, direction, plan) in zip(everyone, jobs, strict=True):
        rig.sides = (side,)
        for _ in range(2):
            rig.check(backend.prepare(side.batch, direction, plan, route))


@settings(max_examples=60, deadline=None)
@given(layouts(), st.sampled_from([LOAD, SAVE]), plans, capacities, habits)
def test_descriptors_stay_within_their_bound(
    layout: Layout, direction: Direction, plan: CopyPlan, capacity: int, habit: StagedHabits
) -> None:
    """Nobody looks for room any more when they are written."""
    side = Side(layout, direction, 1)
    rig = Rig(side, staging=capacity)
    assert plan.options is not None
    assert plan.threads is not None
    leg = StagedLeg(direction, len(side.batch))
    cut = partial(pipelined, buffer=rig.buffer, parts=habit.parts)
    leg.plan(side.batch, cut, plan.chunk_bytes, plan.options.max_grid_blocks * plan.threads // 32)
    bound = leg.descriptor_bound(0)
    assert bound <= leg.descriptor_bound(2**62)
    for room in (bound, bound - 1):
        space = replace(rig.space, pinned=rig.pinned[:room], capacity=room)
        backend = StagedBackend({Variant.WARP: FUNCTION}, space, rig.buffer, len(side.batch), habit)
        if room < bound:
            with pytest.raises(CapacityError):
                backend.prepare(side.batch, direction, plan, rig.route())
        else:
            tasks = submitted(backend.prepare(side.batch, direction, plan, rig.route())).tasks
            assert sum(task.arguments()[1] for task in tasks if task.op is Op.LAUNCH) <= bound


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
    """Bytes of the DMA commands of a program."""
    op = Op.COPY_TO_DEVICE if direction is LOAD else Op.COPY_TO_HOST
    return [task.operands[2] for task in submitted(program).tasks if task.op is op]


def steps(program: Program, *kinds: Op) -> list[Op]:
    """The commands of some kinds, in order."""
    return [Op(op) for op in program.commands["op"].tolist() if op in kinds]


def test_a_load_that_fits_is_one_dma_command_and_one_launch_in_one_stream() -> None:
    program = compiled(shuffled(64, 256), LOAD, staged(), 16_384)
    assert ops(program) == [(op, STREAM) for op in (Op.RECORD, Op.COPY_TO_DEVICE, Op.LAUNCH, Op.RECORD)]
    written_meanwhile = [Op.COPIES_TO_DEVICE, Op.YIELD, Op.CALL, Op.LAUNCH]
    assert steps(program, *written_meanwhile) == written_meanwhile


def test_a_save_that_fits_is_one_launch_and_one_dma_command_in_one_stream() -> None:
    program = compiled(shuffled(64, 256), SAVE, staged(), 16_384)
    assert ops(program) == [(op, STREAM) for op in (Op.RECORD, Op.LAUNCH, Op.COPY_TO_HOST, Op.RECORD)]


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_kernels_of_parts_are_in_the_side_stream(direction: Direction) -> None:
    program = compiled(shuffled(64, 1024), direction, staged(), 1 << 20, parts=4)
    copy = Op.COPY_TO_DEVICE if direction is LOAD else Op.COPY_TO_HOST
    found = [entry for entry in ops(program) if entry[0] in (copy, Op.LAUNCH)]
    assert found.count((Op.LAUNCH, SIDE)) == 4
    assert found.count((copy, STREAM)) == 4
    assert dma_sizes(program, direction) == [16_384] * 4


def test_a_load_submits_its_dma_and_gives_way_once_before_it_describes_any_part() -> None:
    program = compiled(shuffled(64, 1024), LOAD, staged(), 1 << 20, parts=3)
    kinds = Op.COPIES_TO_DEVICE, Op.YIELD, Op.BARRIER, Op.CALL, Op.LAUNCH
    assert steps(program, *kinds) == [Op.COPIES_TO_DEVICE] * 3 + [Op.YIELD] + [Op.CALL, Op.LAUNCH] * 3


def test_the_next_part_is_described_and_gathered_while_one_is_copied() -> None:
    program = compiled(shuffled(64, 1024), SAVE, staged(), 1 << 20, parts=3)
    gather = [Op.CALL, Op.LAUNCH, Op.COPIES_TO_HOST]
    assert steps(program, *gather, Op.BARRIER) == gather * 3


@pytest.mark.parametrize(("parts", "gives_way"), [(1, 0), (2, 1), (4, 1)])
def test_a_save_gives_way_once_when_its_first_part_is_on_its_way_and_there_is_more(parts: int, gives_way: int) -> None:
    program = compiled(shuffled(64, 1024), SAVE, staged(), 1 << 20, parts=parts)
    found = steps(program, Op.COPIES_TO_HOST, Op.YIELD)
    assert found == [Op.COPIES_TO_HOST] + [Op.YIELD] * gives_way + [Op.COPIES_TO_HOST] * (parts - 1)


def calls_of_both(legs: tuple[Direction, Direction], completion: Completion) -> list[F]:
    """The copies and launches of a load and a save of one transfer, of three parts each; the bytes arrive."""
    sides = [Side(shuffled(64, 1024), direction, seed) for seed, direction in enumerate(legs)]
    rigs = [Rig(side, staging=1 << 20) for side in sides]
    driver = FakeDriver()
    driver.move_bytes()
    executions = []
    for rig, side, first in zip(rigs, sides, (2**62, 2**61), strict=True):
        route = Route(first, first + 1, CountedEvents(), end=first + 2)
        program = rig.backend(parts=3).prepare(side.batch, side.direction, staged(), route)
        executions.append(Execution(driver.table, program))
        executions[-1].advance()
    wait_all(driver.table, executions, completion)
    for side in sides:
        side.check()
    kinds = F.MEMCPY_HTOD_ASYNC, F.MEMCPY_DTOH_ASYNC, F.LAUNCH_KERNEL
    return [call.function for call in driver.calls if call.function in kinds]


@pytest.mark.parametrize(
    ("legs", "before"),
    [((SAVE, LOAD), 2), ((LOAD, SAVE), 1)],  # the save's second part is described during the DMA of the first one
    ids=["save first", "load first"],
)
@pytest.mark.parametrize("completion", list(Completion))
def test_dma_goes_both_ways_before_all_descriptors_are_written(
    legs: tuple[Direction, Direction], before: int, completion: Completion
) -> None:
    """A kernel is launched right behind its descriptors, so launches tell which have been written."""
    calls = calls_of_both(legs, completion)
    first_to_host, first_to_device = calls.index(F.MEMCPY_DTOH_ASYNC), calls.index(F.MEMCPY_HTOD_ASYNC)
    assert calls.count(F.LAUNCH_KERNEL) == 6
    assert calls[: max(first_to_host, first_to_device)].count(F.LAUNCH_KERNEL) == before
    assert calls[first_to_device : first_to_device + 3] == [F.MEMCPY_HTOD_ASYNC] * 3, "the whole load at once"


def test_descriptors_that_are_uploaded_go_to_the_stream_of_their_kernel() -> None:
    side = Side(shuffled(64, 1024), LOAD, 1)
    rig = Rig(side, staging=1 << 20)
    program = rig.backend(parts=2, upload=True).prepare(side.batch, LOAD, staged(), rig.route())
    rig.check(program)
    uploads = [task for task in submitted(program).tasks if task.op is Op.COPY_TO_DEVICE and task.stream == SIDE]
    assert [task.operands[2] for task in uploads] == [32 * 24] * 2


def test_descriptors_are_uploaded_where_kernels_cannot_read_pinned_memory() -> None:
    side = Side(shuffled(64, 256), SAVE, 1)
    rig = Rig(side, staging=1 << 20)
    backend = StagedBackend({Variant.WARP: FUNCTION}, replace(rig.space, pinned_alias=None), rig.buffer, 64)
    program = backend.prepare(side.batch, SAVE, staged(), rig.route())
    rig.check(program)
    assert Op.COPY_TO_DEVICE in program.commands["op"]


def test_kernels_read_descriptors_through_the_alias() -> None:
    side = Side(shuffled(64, 256), SAVE, 1)
    rig = Rig(side, staging=1 << 20)
    backend = StagedBackend({Variant.WARP: FUNCTION}, replace(rig.space, pinned_alias=2**50), rig.buffer, 64)
    program = backend.prepare(side.batch, SAVE, staged(), rig.route())
    (launch,) = [task for task in submitted(program).tasks if task.op is Op.LAUNCH]
    assert launch.arguments() == (2**50, 64)


@pytest.mark.parametrize(("direction", "stride"), list(product([LOAD, SAVE], [1, 2])))
def test_a_dma_command_per_host_run(direction: Direction, stride: int) -> None:
    program = compiled(shuffled(100, 48, stride), direction, staged(), 1 << 20)
    assert len(dma_sizes(program, direction)) == (1 if stride == 1 else 100)


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_chunks_wait_for_one_another(direction: Direction) -> None:
    program = compiled(shuffled(64, 256), direction, staged(chunk_bytes=4096), 1 << 20)
    assert dma_sizes(program, direction) == [4096] * 4
    before_the_kernel = 1 if direction is LOAD else 0
    assert program.commands["op"].tolist().count(Op.BARRIER) == 3 + before_the_kernel


@pytest.mark.parametrize("direction", [LOAD, SAVE])
@pytest.mark.parametrize("staging", [1 << 20, MIN_STAGING_BYTES], ids=["fits", "streams through"])
def test_with_backpressure_no_stream_waits_on_the_device(direction: Direction, staging: int) -> None:
    """Only the DMA of a load may: it waits for slots that kernels have read, in a queue without kernels."""
    program = compiled(shuffled(64, 256), direction, staged(chunk_bytes=4096), staging, parts=2)
    waiting = {task.stream for task in submitted(program).tasks if task.op is Op.AWAIT}
    assert SIDE not in waiting
    check_each_kernel_is_ready(program)


def check_each_kernel_is_ready(program: Program) -> None:
    """A load's kernel is submitted behind a barrier, so that all DMA before it is done."""
    host = submitted(program)
    loads = [task for task in host.tasks if task.op is Op.COPY_TO_DEVICE]
    launches = [task for task in host.tasks if task.op is Op.LAUNCH]
    for launch in launches:
        waited = [record for before, record in host.barriers if before <= launch.number]
        assert all(any(record > load.number for record in waited) for load in loads if load.number < launch.number)


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
    assert rig.pinned[:5, 2].tolist() == [4096, 4096, 4096, 4096, 2**62]


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
    assert moving == [(Op.COPY_TO_DEVICE, SIDE), (Op.LAUNCH, SIDE), (Op.COPY_TO_HOST, STREAM)]
    assert steps(program, Op.COPIES_TO_DEVICE, Op.CALL) == [Op.COPIES_TO_DEVICE, Op.CALL, Op.CALL], "written meanwhile"


def test_a_fused_pair_in_chunks() -> None:
    program = both(64, 256, 1 << 20, fused(staged(chunk_bytes=4096), staged(chunk_bytes=8192)))
    assert (dma_sizes(program, LOAD), dma_sizes(program, SAVE)) == ([4096] * 4, [8192] * 2)
    between_chunks, around_the_kernel, at_the_begin = 3 + 1, 2, 1
    assert program.commands["op"].tolist().count(Op.BARRIER) == between_chunks + around_the_kernel + at_the_begin
    assert program.commands["op"].tolist().count(Op.LAUNCH) == 1
    assert not [task for task in submitted(program).tasks if task.op is Op.AWAIT]
    check_each_kernel_is_ready(program)


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


def test_a_load_that_has_given_way_goes_no_further_after_a_new_preparation() -> None:
    side = Side(shuffled(64, 1024), LOAD, 1)
    rig, driver = Rig(side, staging=1 << 20), FakeDriver()
    backend = rig.backend(parts=4)
    execution = Execution(driver.table, backend.prepare(side.batch, LOAD, staged(), rig.route()))
    assert execution.advance() is Progress.PENDING
    backend.prepare(side.batch, LOAD, staged(), rig.route())
    with pytest.raises(StaleError):
        execution.advance()
    assert not rig.pinned.any(), "descriptors were written"


def event_operands(program: Program) -> set[int]:
    commands = program.commands
    return set(commands["a"][np.isin(commands["op"], [Op.RECORD, Op.AWAIT, Op.BARRIER])].tolist())


@pytest.mark.parametrize("end", [None, 2**63 + 5])
def test_programs_of_one_route_have_events_of_their_own(end: int | None) -> None:
    side, source = Side(shuffled(60, 256), LOAD, 1), CountedEvents()
    rig = Rig(side)
    backend, route = rig.backend(), Route(STREAM, SIDE, source, START, end)
    programs = []
    for _ in range(3):
        program = backend.prepare(side.batch, LOAD, staged(), route)
        assert event_operands(program) == {START, program.end, *program.events}
        assert program.end == end or program.end in program.events
        assert program.commands["a"][-1] == program.end
        rig.check(program)
        programs.append(program)
        if len(programs) == 2:
            source.give_back(program.events)
    first, second, third = (set(program.events) for program in programs)
    assert first.isdisjoint(second)
    assert third == second
    assert source.taken == first | third


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_a_program_that_is_filled_in_again_is_as_good_as_a_new_one(direction: Direction) -> None:
    """The second batch has the layout of the first one, and other ranges, sizes and descriptors."""
    sides = [Side(shuffled(64, 1024), direction, 1), Side(shuffled(128, 512), direction, 2)]
    rig = Rig(*sides, staging=1 << 20)
    backend, route = rig.backend(parts=4), rig.route()
    programs = []
    for side in sides:
        rig.sides = (side,)
        programs.append(backend.prepare(side.batch, direction, staged(), route))  # plans that are equal
        rig.check(programs[-1])
    assert programs[0].commands is programs[1].commands
    assert side.batch in [owner for kept in programs[1].keep for owner in kept if isinstance(owner, RangeBatch)]


def test_batches_larger_than_the_buffers_are_refused() -> None:
    side = Side(shuffled(8, 64), LOAD, 1)
    rig = Rig(side, staging=1 << 20, descriptors=7)
    with pytest.raises(CapacityError, match="8 descriptors might not fit a space for 7"):
        rig.backend().prepare(side.batch, LOAD, staged(), rig.route())
    backend = StagedBackend({Variant.WARP: FUNCTION}, rig.space, rig.buffer, 7)
    with pytest.raises(CapacityError, match="8 ranges do not fit"):
        backend.prepare(side.batch, LOAD, staged(), rig.route())


@contextmanager
def without(program: Program, *rows: int) -> Iterator[Program]:
    """The program with something in place of those waits that keeps nothing up."""
    waiting = program.commands[list(rows)]
    program.commands["op"][list(rows)], program.commands["a"][list(rows)] = Op.RECORD, 2**60
    yield program
    program.commands[list(rows)] = waiting


def waits(program: Program) -> list[int]:
    return np.flatnonzero(program.commands["op"] == Op.AWAIT).tolist()


@pytest.mark.parametrize("direction", [LOAD, SAVE])
def test_no_wait_is_superfluous(direction: Direction) -> None:
    """The checks of this file can fail: without one of its waits a program races, without all it moves wrong bytes."""
    rig = Rig(Side(shuffled(60, 256), direction, 1))
    program = rig.backend().prepare(rig.sides[0].batch, direction, staged(), rig.route())
    check_order(program, rig.memory, START)
    for row in waits(program):
        with without(program, row), pytest.raises(AssertionError, match=r"race|still run|before the start"):
            check_order(program, rig.memory, START)
    with without(program, *waits(program)), pytest.raises(AssertionError):
        rig.execute(lambda: run(program, rig.memory, orders(0)[direction is SAVE]))


def test_no_wait_is_superfluous_when_fused() -> None:
    rig = Rig(Side(shuffled(64, 256), LOAD, 1), Side(shuffled(64, 256), SAVE, 2), staging=2 * MIN_STAGING_BYTES)
    program = rig.backend().prepare_fused(rig.sides[0].batch, rig.sides[1].batch, fused(staged()), rig.route())
    check_order(program, rig.memory, START)
    for row in waits(program):
        with without(program, row), pytest.raises(AssertionError, match=r"race|still run|before the start"):
            check_order(program, rig.memory, START)
