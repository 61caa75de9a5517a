import ctypes

import numpy as np
import pytest
from cuda.bindings import driver
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.backends.base import UnsupportedPlanError
from pega_tune.kernels.backends.pitched import PitchedBackend
from pega_tune.kernels.commands import Op
from pega_tune.kernels.driver import DriverFunction
from pega_tune.kernels.executor import Execution, Progress
from pega_tune.kernels.pitched_commands import CUDA_MEMCPY2D
from pega_tune.kernels.plan import Backend, CopyPlan, direct
from pega_tune.kernels.prepare import CapacityError
from pega_tune.kernels.program import Program, Route, StaleError
from pega_tune.kernels.progressions import ProgressionFinder
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from tests.helpers.batches import columns
from tests.helpers.moving_driver import STREAM, CountingEvents, Memcpy2D, MovingDriver
from tests.helpers.strides import Buffers, Placed, placed_ranges, span

PLAN = CopyPlan(Backend.PITCHED)
LEGS = st.sampled_from(Direction.BOTH.legs)
CHUNKS = st.sampled_from([None, 1, 50, 300, 10**6])
STRIDED = [Placed(i * 48, i * 16, 16, 0, 0) for i in range(64)]
SCATTERED = [Placed(4096 + i * i * 32, 4096 + i * 32, 16, 0, 0) for i in range(10)]


def prepare(
    batch: RangeBatch, direction: Direction = Direction.H2D, plan: CopyPlan = PLAN, capacity: int = 1000
) -> Program:
    return PitchedBackend(ProgressionFinder(capacity)).prepare(batch, direction, plan, route())


def route() -> Route:
    return Route(STREAM, STREAM + 1, CountingEvents())


def ops(program: Program) -> list[Op]:
    return [Op(op) for op in program.commands["op"].tolist()]


def run(program: Program) -> MovingDriver:
    moving = MovingDriver()
    assert Execution(moving.table, program).advance() is Progress.SUBMITTED
    return moving


def test_the_parameters_are_laid_out_as_in_cuda_h() -> None:
    theirs = driver.CUDA_MEMCPY2D()
    ours = np.zeros(1, CUDA_MEMCPY2D)
    numbers = {"XInBytes": 11, "Y": 12, "Device": 2**63 + 14, "Pitch": 15}
    for side, base in (("src", 0), ("dst", 100)):
        for name, value in numbers.items():
            setattr(theirs, side + name, value + base)
            ours[side + name] = value + base
    theirs.srcMemoryType, theirs.dstMemoryType = driver.CUmemorytype(1), driver.CUmemorytype(2)
    ours["srcMemoryType"], ours["dstMemoryType"] = 1, 2
    theirs.srcHost, theirs.dstHost = 2**47 + 1, 2**47 + 2
    ours["srcHost"], ours["dstHost"] = 2**47 + 1, 2**47 + 2
    theirs.WidthInBytes, theirs.Height = 8, 9
    ours["WidthInBytes"], ours["Height"] = 8, 9
    assert ctypes.string_at(theirs.getPtr(), CUDA_MEMCPY2D.itemsize) == ours.tobytes()
    assert ctypes.sizeof(Memcpy2D) == CUDA_MEMCPY2D.itemsize == 128


@given(placed_ranges(), LEGS, CHUNKS, st.booleans())
def test_exactly_the_bytes_of_the_ranges_move(
    ranges: list[Placed], direction: Direction, chunk: int | None, backpressure: bool
) -> None:
    buffers = Buffers(span(ranges))
    device, host = buffers.expected(ranges, direction is Direction.H2D)
    plan = CopyPlan(Backend.PITCHED, chunk_bytes=chunk, backpressure=backpressure or chunk is None)
    run(prepare(buffers.batch(ranges), direction, plan))
    assert np.array_equal(buffers.device, device)
    assert np.array_equal(buffers.host, host)


@pytest.mark.parametrize(("direction", "op"), [(Direction.H2D, Op.COPY_TO_DEVICE), (Direction.D2H, Op.COPY_TO_HOST)])
def test_one_contiguous_run_is_one_plain_copy(direction: Direction, op: Op) -> None:
    batch = columns([(2**63 + i * 64, 2**47 + i * 64, 0, 64, 0, 0) for i in range(100)])
    program = prepare(batch, direction)
    assert ops(program) == [op, Op.RECORD]
    assert program.commands[["stream", "c"]][0].tolist() == (STREAM, 6400)


def test_one_progression_is_one_2d_copy() -> None:
    program = prepare(Buffers(span(STRIDED)).batch(STRIDED))
    assert ops(program) == [Op.COPY_2D, Op.RECORD]


def test_2d_copies_go_before_many_plain_ones() -> None:
    ranges = SCATTERED + STRIDED
    program = prepare(Buffers(span(ranges)).batch(ranges))
    assert ops(program) == [Op.COPY_2D, Op.COPIES_TO_DEVICE, Op.RECORD]
    assert program.commands["e"][1] == len(SCATTERED)


@pytest.mark.parametrize("backpressure", [True, False])
def test_chunks_hold_at_most_their_bytes_and_wait_for_one_another(backpressure: bool) -> None:
    ranges = STRIDED + SCATTERED
    plan = CopyPlan(Backend.PITCHED, chunk_bytes=160, backpressure=backpressure)
    buffers = Buffers(span(ranges))
    moving = run(prepare(buffers.batch(ranges), plan=plan))
    sizes = [size for function, size in moving.calls if function is DriverFunction.MEMCPY_2D_ASYNC]
    assert sizes == [160] * 6 + [64]
    events = [function for function, _ in moving.calls if function is DriverFunction.EVENT_QUERY]
    assert len(events) == (7 if backpressure else 0)


def test_a_chunk_waits_for_the_one_before() -> None:
    moving = MovingDriver()
    moving.pending = 2
    plan = CopyPlan(Backend.PITCHED, chunk_bytes=512)
    buffers = Buffers(span(STRIDED))
    execution = Execution(moving.table, prepare(buffers.batch(STRIDED), plan=plan))
    for _ in range(2):
        assert execution.advance() is Progress.PENDING
        assert moving.count(DriverFunction.MEMCPY_2D_ASYNC) == 1
    assert execution.advance() is Progress.SUBMITTED
    assert moving.count(DriverFunction.MEMCPY_2D_ASYNC) == 2


@pytest.mark.parametrize("chunk", [None, 100])
def test_only_the_newest_preparation_can_be_submitted_and_it_owes_nothing_to_the_last(chunk: int | None) -> None:
    backend, plan = PitchedBackend(ProgressionFinder(100)), CopyPlan(Backend.PITCHED, chunk_bytes=chunk)
    ranges, fewer = STRIDED + SCATTERED, SCATTERED[:3] + STRIDED[:8]
    buffers, others = Buffers(span(ranges)), Buffers(span(ranges))
    _, expected = others.expected(fewer, to_device=False)
    way = route()
    old = backend.prepare(buffers.batch(ranges), Direction.H2D, plan, way)
    program = backend.prepare(others.batch(fewer), Direction.D2H, plan, way)
    with pytest.raises(StaleError):
        run(old)
    run(program)
    assert np.array_equal(others.host, expected)


@pytest.mark.parametrize("end", [None, 2**63 + 7])
def test_the_events_of_the_route_are_around_and_those_of_its_source_between(end: int | None) -> None:
    start = 2**63 + 5
    way = Route(STREAM, STREAM + 1, CountingEvents(), start, end)
    batch = Buffers(span(STRIDED)).batch(STRIDED)
    program = PitchedBackend(ProgressionFinder(64)).prepare(
        batch, Direction.H2D, CopyPlan(Backend.PITCHED, chunk_bytes=512), way
    )
    assert ops(program) == [Op.RECORD, Op.COPY_2D, Op.RECORD, Op.BARRIER, Op.COPY_2D, Op.RECORD]
    events = program.commands["a"][[0, 2, 3, 5]].tolist()
    assert events == [start, 1, 1, end or 2]
    assert (program.end, program.events) == (events[-1], (1,) if end else (1, 2))


def test_what_it_cannot_do_is_refused() -> None:
    batch = Buffers(span(STRIDED)).batch(STRIDED)
    with pytest.raises(UnsupportedPlanError):
        prepare(batch, plan=direct())
    with pytest.raises(UsageError, match="one direction"):
        prepare(batch, Direction.BOTH)
    with pytest.raises(CapacityError):
        prepare(batch, capacity=63)
