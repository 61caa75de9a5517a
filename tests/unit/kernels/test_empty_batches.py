"""Batches without ranges: every backend makes a program that only records its events, and everything runs that."""

from collections.abc import Callable

import numpy as np
import pytest

from pega_tune.errors import UsageError
from pega_tune.kernels.backends.base import TransferBackend
from pega_tune.kernels.backends.batch import BatchBackend
from pega_tune.kernels.backends.direct import DirectBackend
from pega_tune.kernels.backends.kernel import KernelBackend
from pega_tune.kernels.backends.pitched import PitchedBackend
from pega_tune.kernels.backends.staged import StagedBackend, staged
from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.commands import Op
from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.driver import DriverFunction
from pega_tune.kernels.plan import Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.program import Program, StaleError
from pega_tune.kernels.progressions import ProgressionFinder
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staging import MIN_STAGING_BYTES, StagingBuffer
from pega_tune.kernels.worker import TransferWorker
from pega_tune.kernels.worker_states import JobState
from tests.helpers.batches import columns
from tests.helpers.fake_driver import FakeDriver
from tests.helpers.programs import route, run, submit

START, END = 2**63 + 5, 2**63 + 6
FUNCTIONS = {Variant.BLOCK: 2**63 + 1, Variant.WARP: 2**63 + 2}
NO_ADDRESSES, NO_IDS = np.empty(0, np.uint64), np.empty(0, np.int64)
EMPTY = RangeBatch(*(NO_ADDRESSES,) * 4, *(NO_IDS,) * 2)
ONE = columns([(0, 0, 0, 16, 0, 0)])
ROWS = 64


def _space() -> DescriptorSpace:
    pinned = np.zeros((ROWS, 3), np.uint64)
    return DescriptorSpace(pinned, pinned.ctypes.data, 2**40, ROWS)


def _staged() -> StagedBackend:
    return StagedBackend(FUNCTIONS, _space(), StagingBuffer(2**41, MIN_STAGING_BYTES), 8)


MAKERS: list[tuple[CopyPlan, Callable[[], TransferBackend]]] = [
    (direct(), lambda: DirectBackend(Workspace(8))),
    (CopyPlan(Backend.DIRECT, chunk_bytes=8), lambda: DirectBackend(Workspace(8))),
    (CopyPlan(Backend.BATCH), lambda: BatchBackend(BatchSignature.V2, Workspace(8))),
    (CopyPlan(Backend.BATCH, chunk_bytes=8), lambda: BatchBackend(BatchSignature.V1, Workspace(8))),
    (CopyPlan(Backend.PITCHED), lambda: PitchedBackend(ProgressionFinder(8))),
    (CopyPlan(Backend.PITCHED, chunk_bytes=8), lambda: PitchedBackend(ProgressionFinder(8))),
    (kernel(Variant.WARP, 2, 64), lambda: KernelBackend(FUNCTIONS, _space())),
    (kernel(Variant.BLOCK, 2, 64), lambda: KernelBackend(FUNCTIONS, _space())),
    (
        CopyPlan(Backend.KERNEL, Variant.WARP, 64, KernelOptions(2, chunk_descriptors=1)),
        lambda: KernelBackend(FUNCTIONS, _space()),
    ),
    (staged(), _staged),
    (staged(chunk_bytes=4096), _staged),
]
each_plan = pytest.mark.parametrize(("plan", "make"), MAKERS, ids=[plan.key for plan, _ in MAKERS])


def ops(program: Program) -> list[Op]:
    return [Op(op) for op in program.commands["op"].tolist()]


@each_plan
@pytest.mark.parametrize("direction", Direction.BOTH.legs)
def test_nothing_but_events_is_recorded(
    plan: CopyPlan, make: Callable[[], TransferBackend], direction: Direction
) -> None:
    driver = FakeDriver()
    program = make().prepare(EMPTY, direction, plan, route(START, END))
    assert ops(program) == [Op.RECORD, Op.RECORD]
    run(driver.table, program)
    functions = [call.function for call in driver.calls]
    assert functions == [DriverFunction.EVENT_RECORD, DriverFunction.EVENT_RECORD, DriverFunction.EVENT_QUERY]


@each_plan
def test_the_last_program_is_stale_then_and_there_is_another_batch_after_it(
    plan: CopyPlan, make: Callable[[], TransferBackend]
) -> None:
    driver, backend, way = FakeDriver(), make(), route()
    last = backend.prepare(ONE, Direction.H2D, plan, way)
    nothing = backend.prepare(EMPTY, Direction.H2D, plan, way)
    assert ops(nothing) == [Op.RECORD]
    with pytest.raises(StaleError):
        submit(driver.table, last)
    assert len(backend.prepare(ONE, Direction.H2D, plan, way)) > 1
    with pytest.raises(StaleError):
        submit(driver.table, nothing)


@each_plan
def test_both_directions_at_once_are_still_refused(plan: CopyPlan, make: Callable[[], TransferBackend]) -> None:
    with pytest.raises(UsageError, match="one direction"):
        make().prepare(EMPTY, Direction.BOTH, plan, route())


@pytest.mark.parametrize(("load", "save", "launches"), [(EMPTY, EMPTY, 0), (ONE, EMPTY, 1), (EMPTY, ONE, 1)])
def test_a_fused_pair_may_have_one_direction_or_none(load: RangeBatch, save: RangeBatch, launches: int) -> None:
    program = _staged().prepare_fused(load, save, PlanPair(staged(), staged(), fused=True), route())
    assert ops(program).count(Op.LAUNCH) == launches
    assert (len(program) == 1) == (launches == 0)


@each_plan
def test_a_worker_runs_jobs_without_ranges(plan: CopyPlan, make: Callable[[], TransferBackend]) -> None:
    driver = FakeDriver()
    driver.delay(2)
    worker = TransferWorker(driver.table, 2)
    programs = [make().prepare(EMPTY, way, plan, route(end=END + i)) for i, way in enumerate(Direction.BOTH.legs)]
    job = worker.submit(programs)
    (report,) = worker.drain(timeout_s=60)
    assert (report.job, report.state, report.error) == (job, JobState.DONE, None)
