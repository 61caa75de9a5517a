import ctypes
from itertools import product

import numpy as np
import pytest
from cuda.bindings import driver
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.errors import UsageError
from pega_tune.kernels.backends.base import UnsupportedPlanError
from pega_tune.kernels.backends.batch import BatchBackend
from pega_tune.kernels.batch_call import (
    COPIES_PER_CALL,
    CU_MEMCPY_ATTRIBUTES,
    MAX_COPIES_PER_CALL,
    BatchAttributes,
    BatchSignature,
)
from pega_tune.kernels.commands import Op
from pega_tune.kernels.driver import DriverFunction
from pega_tune.kernels.executor import Execution, Progress
from pega_tune.kernels.plan import Backend, CopyPlan, direct
from pega_tune.kernels.prepare import CapacityError, Workspace
from pega_tune.kernels.program import Program, Route, StaleError
from pega_tune.kernels.shape import Direction
from tests.helpers.batches import columns
from tests.helpers.moving_driver import STREAM, CountingEvents, MemcpyAttributes, MovingDriver
from tests.helpers.strides import Buffers, Placed, placed_ranges, span

PLAN = CopyPlan(Backend.BATCH)
SIGNATURES = st.sampled_from(BatchSignature)
LEGS = st.sampled_from(Direction.BOTH.legs)
CHUNKS = st.sampled_from([None, 1, 50, 300, 10**6])
SCATTERED = [Placed(i * 48, i * 32, 16, 0, 0) for i in range(64)]


def route(stream: int = STREAM) -> Route:
    return Route(stream, STREAM + 1, CountingEvents())


def backend(signature: BatchSignature = BatchSignature.V2, capacity: int = 1000) -> BatchBackend:
    return BatchBackend(signature, Workspace(capacity))


def run(program: Program) -> MovingDriver:
    """Submits a program whose barriers are all open, however often it gives way."""
    moving = MovingDriver()
    execution = Execution(moving.table, program)
    gives_way = program.commands["op"].tolist().count(Op.YIELD)
    assert [execution.advance() for _ in range(gives_way)] == [Progress.PENDING] * gives_way
    assert execution.advance() is Progress.SUBMITTED
    return moving


def test_the_attributes_are_laid_out_as_in_cuda_h() -> None:
    theirs = driver.CUmemcpyAttributes()
    theirs.srcAccessOrder = driver.CUmemcpySrcAccessOrder.CU_MEMCPY_SRC_ACCESS_ORDER_ANY
    theirs.srcLocHint.type, theirs.srcLocHint.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 5
    theirs.dstLocHint.type, theirs.dstLocHint.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST, 6
    theirs.flags = 1
    ours = np.array([(3, 1, 5, 2, 6, 1)], CU_MEMCPY_ATTRIBUTES)
    assert ctypes.string_at(theirs.getPtr(), CU_MEMCPY_ATTRIBUTES.itemsize) == ours.tobytes()
    assert ctypes.sizeof(MemcpyAttributes) == CU_MEMCPY_ATTRIBUTES.itemsize == 24


@given(placed_ranges(), LEGS, SIGNATURES, CHUNKS)
def test_exactly_the_bytes_of_the_ranges_move(
    ranges: list[Placed], direction: Direction, signature: BatchSignature, chunk: int | None
) -> None:
    buffers = Buffers(span(ranges))
    device, host = buffers.expected(ranges, direction is Direction.H2D)
    plan = CopyPlan(Backend.BATCH, chunk_bytes=chunk)
    moving = run(backend(signature).prepare(buffers.batch(ranges), direction, plan, route()))
    assert np.array_equal(buffers.device, device)
    assert np.array_equal(buffers.host, host)
    assert moving.count(signature.function)


@pytest.mark.parametrize(
    ("count", "calls"), [(1, [1]), (5, [5]), (4096, [4096]), (5000, [4096, 904]), (120_000, [4096] * 29 + [1216])]
)
def test_calls_are_capped(count: int, calls: list[int]) -> None:
    ranges = [Placed(i * 4, i * 2, 1, 0, 0) for i in range(count)]
    buffers = Buffers(span(ranges))
    device, _ = buffers.expected(ranges, to_device=True)
    maker = BatchBackend(BatchSignature.V2, Workspace(count), MAX_COPIES_PER_CALL)
    moving = run(maker.prepare(buffers.batch(ranges), Direction.H2D, PLAN, route()))
    assert [size for function, size in moving.calls if function is BatchSignature.V2.function] == calls
    assert np.array_equal(buffers.device, device)


def test_ranges_are_merged_first() -> None:
    ranges = [Placed(i * 16, i * 16, 16, 0, 0) for i in range(9)]
    buffers = Buffers(span(ranges))
    moving = run(backend().prepare(buffers.batch(ranges), Direction.H2D, PLAN, route()))
    assert moving.calls[0] == (BatchSignature.V2.function, 1)


@pytest.mark.parametrize(("signature", "backpressure"), list(product(BatchSignature, [True, False])))
def test_chunks_are_calls_of_their_own(signature: BatchSignature, backpressure: bool) -> None:
    plan = CopyPlan(Backend.BATCH, chunk_bytes=400, backpressure=backpressure)
    buffers = Buffers(span(SCATTERED))
    batch = buffers.batch(SCATTERED)
    moving = run(backend(signature).prepare(batch, Direction.D2H, plan, route()))
    assert [size for function, size in moving.calls if function is signature.function] == [25, 25, 14]
    assert moving.count(DriverFunction.EVENT_QUERY) == (2 if backpressure else 0)


@pytest.mark.parametrize("signature", list(BatchSignature))
def test_the_driver_is_asked_to_leave_the_sms_alone_by_the_plans_that_say_so(signature: BatchSignature) -> None:
    buffers = Buffers(span(SCATTERED))
    batch = buffers.batch(SCATTERED)
    maker = backend(signature)
    for prefers in (False, True, False):
        plan = CopyPlan(Backend.BATCH, chunk_bytes=400, prefer_overlap=prefers)
        assert run(maker.prepare(batch, Direction.H2D, plan, route())).flags == {int(prefers)}


@pytest.mark.parametrize(("signature", "length"), [(BatchSignature.V1, 4), (BatchSignature.V2, 3)])
def test_the_first_signature_has_one_argument_more(signature: BatchSignature, length: int) -> None:
    assert len(BatchAttributes(signature).arguments) == length


@pytest.mark.parametrize(
    ("without", "newest"),
    [
        ((), BatchSignature.V2),
        ((DriverFunction.MEMCPY_BATCH_ASYNC_V2,), BatchSignature.V1),
        ((DriverFunction.MEMCPY_BATCH_ASYNC_V1,), BatchSignature.V2),
        ((DriverFunction.MEMCPY_BATCH_ASYNC_V1, DriverFunction.MEMCPY_BATCH_ASYNC_V2), None),
    ],
)
def test_the_newest_signature_is_taken(without: tuple[DriverFunction, ...], newest: BatchSignature | None) -> None:
    assert BatchSignature.newest(MovingDriver(without).table) is newest


@pytest.mark.parametrize("stream", [0, 1])
def test_the_legacy_stream_is_refused(stream: int) -> None:
    buffers = Buffers(span(SCATTERED))
    batch = buffers.batch(SCATTERED)
    with pytest.raises(UnsupportedPlanError, match="legacy default stream"):
        backend().prepare(batch, Direction.H2D, PLAN, route(stream))


def test_only_the_newest_preparation_can_be_submitted() -> None:
    buffers = Buffers(span(SCATTERED))
    batch = buffers.batch(SCATTERED)
    maker = backend()
    old = maker.prepare(batch, Direction.H2D, PLAN, route())
    maker.prepare(batch, Direction.H2D, PLAN, route())
    with pytest.raises(StaleError):
        run(old)


def test_what_it_cannot_do_is_refused() -> None:
    batch = columns([(i * 64, i * 32, i * 32, 16, 0, 0) for i in range(8)])
    with pytest.raises(UnsupportedPlanError):
        backend().prepare(batch, Direction.H2D, direct(), route())
    with pytest.raises(UsageError, match="one direction"):
        backend().prepare(batch, Direction.BOTH, PLAN, route())
    with pytest.raises(CapacityError):
        backend(capacity=7).prepare(batch, Direction.H2D, PLAN, route())


@pytest.mark.parametrize(
    ("copies_per_call", "chunk", "calls"),
    [
        (64, None, [64]),
        (24, None, [24, 24, 16]),
        (1, None, [1] * 64),
        (24, 512, [24, 8, 24, 8]),
        (24, 384, [24, 24, 16]),
    ],
)
def test_the_copies_of_a_call_can_be_fewer(copies_per_call: int, chunk: int | None, calls: list[int]) -> None:
    buffers = Buffers(span(SCATTERED))
    device, _ = buffers.expected(SCATTERED, to_device=True)
    maker = BatchBackend(BatchSignature.V2, Workspace(64), copies_per_call)
    plan = CopyPlan(Backend.BATCH, chunk_bytes=chunk)
    moving = run(maker.prepare(buffers.batch(SCATTERED), Direction.H2D, plan, route()))
    assert [size for function, size in moving.calls if function is BatchSignature.V2.function] == calls
    assert np.array_equal(buffers.device, device)


@pytest.mark.parametrize(
    ("copies_per_call", "plan", "kinds"),
    [
        (64, PLAN, ["call"]),
        (24, PLAN, ["call", "yield", "call", "yield", "call"]),
        (
            24,
            CopyPlan(Backend.BATCH, chunk_bytes=512),
            ["call", "yield", "call", "barrier", "call", "yield", "call"],
        ),
        (
            24,
            CopyPlan(Backend.BATCH, chunk_bytes=512, backpressure=False),
            ["call", "yield", "call"] * 2,
        ),
    ],
)
@pytest.mark.parametrize("signature", list(BatchSignature))
def test_it_gives_way_between_calls_of_a_chunk_and_not_behind_the_last_one(
    signature: BatchSignature, copies_per_call: int, plan: CopyPlan, kinds: list[str]
) -> None:
    buffers = Buffers(span(SCATTERED))
    maker = BatchBackend(signature, Workspace(64), copies_per_call)
    program = maker.prepare(buffers.batch(SCATTERED), Direction.H2D, plan, route())
    names = {Op.BATCH_V1: "call", Op.BATCH_V2: "call", Op.YIELD: "yield", Op.BARRIER: "barrier"}
    assert [names[op] for op in map(Op, program.commands["op"].tolist()) if op in names] == kinds
    assert set(program.commands["stream"].tolist()) == {STREAM}


def test_a_call_has_few_copies_unless_told_otherwise() -> None:
    count = 2 * COPIES_PER_CALL + 1
    ranges = [Placed(i * 4, i * 2, 1, 0, 0) for i in range(count)]
    buffers = Buffers(span(ranges))
    moving = run(backend().prepare(buffers.batch(ranges), Direction.H2D, PLAN, route()))
    sizes = [size for function, size in moving.calls if function is BatchSignature.V2.function]
    assert sizes == [COPIES_PER_CALL, COPIES_PER_CALL, 1]


@pytest.mark.parametrize("copies", [0, 4097])
def test_a_call_has_some_copies_but_not_too_many(copies: int) -> None:
    with pytest.raises(UsageError, match="1 to 4096 copies"):
        BatchBackend(BatchSignature.V2, Workspace(8), copies)
