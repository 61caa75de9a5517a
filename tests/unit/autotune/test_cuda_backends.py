"""Every backend in a bench: real preparation and submission, over a driver that moves the bytes in this process."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from pega_tune.autotune.cuda.comparing import Comparer
from pega_tune.autotune.cuda.layout import Layout, equal_ranges
from pega_tune.autotune.cuda.limits import MemoryLimits
from pega_tune.autotune.cuda.submission import BUSY_COPIES, SubmissionThread
from pega_tune.autotune.engine import Candidate, CandidateKind, Measurement, Status, TransferBlock
from pega_tune.autotune.layouts import NamedLayout
from pega_tune.kernels.backends.staged import staged
from pega_tune.kernels.driver import DriverFunction
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from tests.helpers.engines import LIMITS
from tests.helpers.moving_lanes import MIB, STREAMS, MovingBench

H2D, D2H = Direction.BOTH.legs
BATCH, PITCHED = CopyPlan(Backend.BATCH), CopyPlan(Backend.PITCHED)
PLANS = (
    BATCH,
    replace(BATCH, chunk_bytes=10_000),
    PITCHED,
    replace(PITCHED, chunk_bytes=10_000),
    replace(PITCHED, chunk_bytes=10_000, backpressure=False),
    staged(),
    staged(grid=3, threads=64, chunk_bytes=20_000),
    staged(chunk_bytes=10_000),
    kernel(Variant.WARP, 2, 1024),
)
LAYOUTS = ("strided", "shuffled", "host-ordered", "contiguous", "runs:7")


@pytest.fixture(scope="module")
def comparer() -> Iterator[Comparer]:
    with Comparer(2) as made:
        yield made


def block(
    plans: tuple[AnyPlan, ...], direction: Direction, layout: str = "shuffled", nbytes: int = 512
) -> TransferBlock:
    named = NamedLayout.parse(layout)
    shape = named.described(TransferShape(100, 100 * 512, direction))
    ceiling: AnyPlan = PlanPair(direct(), direct()) if direction is Direction.BOTH else direct()
    candidates = (
        Candidate("ceiling", CandidateKind.CEILING, ceiling),
        *(Candidate(plan.key, CandidateKind.PLAN, plan) for plan in plans),
    )
    return TransferBlock(f"{layout}/{direction}", shape, candidates, LIMITS, 3, layout=named)


def failures(measurements: list[Measurement]) -> list[str]:
    return [f"{m.candidate} {m.status}: {m.detail}" for m in measurements if m.status is not Status.OK]


@pytest.mark.parametrize("direction", [H2D, D2H])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_backend_moves_every_layout_and_odd_ranges(comparer: Comparer, layout: str, direction: Direction) -> None:
    assert failures(MovingBench(comparer).run(block(PLANS, direction, layout))) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_ways_and_fused(comparer: Comparer, layout: str) -> None:
    pairs = (
        *(PlanPair(plan, plan) for plan in PLANS),
        PlanPair(staged(), staged(), fused=True),
        PlanPair(staged(chunk_bytes=9_999), staged(), fused=True),
        PlanPair(PITCHED, staged()),
        PlanPair(staged(), BATCH),
    )
    assert failures(MovingBench(comparer).run(block(pairs, Direction.BOTH, layout))) == []


@pytest.mark.parametrize(
    "pair", [(direct(), direct()), (BATCH, BATCH), (BATCH, staged()), (kernel(Variant.WARP, 2, 64), BATCH)]
)
def test_many_copies_both_ways_are_submitted_by_two_threads(
    comparer: Comparer, pair: tuple[CopyPlan, CopyPlan]
) -> None:
    entered: list[int] = []
    plan = PlanPair(*pair)
    with SubmissionThread(lambda: entered.append(1)) as second:
        moving = MovingBench(comparer, second=second)
        moving.run(block((plan,), Direction.BOTH))  # reserves, and has too few copies but for the odd ranges
        shape = TransferShape(BUSY_COPIES, BUSY_COPIES * 16, Direction.BOTH)
        layouts = {way: equal_ranges(shape, seed) for seed, way in enumerate((H2D, D2H))}
        transfer = moving.bench.transfer(plan, layouts)
        assert moving.bench.verify(transfer, 1) == ""
        assert {run.copies >= BUSY_COPIES for run in transfer.runs} == {
            leg.backend in (Backend.DIRECT, Backend.BATCH) for leg in pair
        }
        assert moving.bench.time(transfer).moving_s is not None
    assert entered == [1]


def test_odd_ranges_stream_through_a_staging_buffer_that_is_too_small_for_them(comparer: Comparer) -> None:
    pairs = (PlanPair(staged(), staged()), PlanPair(staged(), staged(), fused=True))
    moving = MovingBench(comparer, MemoryLimits(36 * MIB, 1 << 30))
    assert failures(moving.run(block(pairs, Direction.BOTH))) == []
    for way in (H2D, D2H):
        staging = moving.bench.buffers[way].staging
        assert staging is not None
        assert staging.capacity < moving.odd.need.extent_bytes // 2


def test_a_wrong_byte_of_a_fused_pair_is_found_in_either_direction(comparer: Comparer) -> None:
    moving = MovingBench(comparer)
    pair = PlanPair(staged(), staged(), fused=True)
    moving.run(block((pair,), Direction.BOTH))  # reserves
    layouts = {way: _two_ranges() for way in (H2D, D2H)}
    transfer = moving.bench.transfer(pair, layouts)
    assert moving.bench.verify(transfer, 1) == ""
    for way in (H2D, D2H):
        swapped = layouts | {way: _swapped(layouts[way])}
        assert moving.bench.verify(replace(transfer, layouts=swapped), 2).startswith(f"{way}: range 0")


def _two_ranges() -> Layout:
    offsets = np.array([4096, 16_384], np.uint64)
    return Layout(offsets, offsets + np.uint64(512), np.array([4096, 4096], np.uint64), 65_536)


def _swapped(layout: Layout) -> Layout:
    return replace(layout, host_offsets=layout.host_offsets[::-1].copy())


def test_a_staged_save_is_submitted_first(comparer: Comparer) -> None:
    for save, first in ((staged(), D2H), (PITCHED, H2D)):
        moving = MovingBench(comparer)
        pair = PlanPair(direct(), save)
        moving.run(block((pair,), Direction.BOTH))
        transfer = moving.bench.transfer(pair, {way: _two_ranges() for way in (H2D, D2H)})
        moving.driver.forget()
        moving.bench.time(transfer)
        records = [call for call in moving.driver.calls if call.function is DriverFunction.EVENT_RECORD]
        assert records[4].arguments[1] in STREAMS[first]  # behind start and end of two rehearsals


def test_a_fused_pair_is_one_run_with_one_launch(comparer: Comparer) -> None:
    moving = MovingBench(comparer)
    pair = PlanPair(staged(), staged(), fused=True)
    moving.run(block((pair,), Direction.BOTH))
    transfer = moving.bench.transfer(pair, {way: _two_ranges() for way in (H2D, D2H)})
    assert len(transfer.runs) == 1
    moving.driver.forget()
    moving.bench.time(transfer)
    assert [call.function for call in moving.driver.calls].count(DriverFunction.LAUNCH_KERNEL) == 1


def test_staging_is_there_for_staged_plans_alone(comparer: Comparer) -> None:
    moving = MovingBench(comparer)
    moving.run(block((PITCHED, BATCH), H2D))
    assert moving.bench.buffers[H2D].staging is None
    moving.run(block((PITCHED, staged()), H2D))
    staging = moving.bench.buffers[H2D].staging
    assert staging is not None
    assert staging.capacity == 128 * MIB


def test_a_staged_candidate_that_takes_no_part_needs_no_staging(comparer: Comparer) -> None:
    moving = MovingBench(comparer)
    moving.run(replace(block((PITCHED, staged()), H2D), excluded=frozenset({2})))
    assert moving.bench.buffers[H2D].staging is None


def test_without_memory_for_staging_only_staged_plans_are_unsupported(comparer: Comparer) -> None:
    moving = MovingBench(comparer, MemoryLimits(14 * MIB, 1 << 30))
    measurements = moving.run(block((PITCHED, staged()), H2D))
    assert {m.status for m in measurements if m.candidate == 1} == {Status.OK}
    wrong = [m for m in measurements if m.candidate == 2]
    assert [m.status for m in wrong] == [Status.UNSUPPORTED]
    assert "staging buffer" in wrong[0].detail


def test_batched_copies_that_failed_their_trial_are_unsupported_with_the_reason(comparer: Comparer) -> None:
    moving = MovingBench(comparer, batch=False)
    measurements = moving.run(block((BATCH, PITCHED), D2H))
    assert [(m.status, m.detail) for m in measurements if m.candidate == 1] == [
        (Status.UNSUPPORTED, "batched copies do not work here: the probe was killed by SIGSEGV")
    ]
    assert {m.status for m in measurements if m.candidate == 2} == {Status.OK}
    assert Backend.BATCH not in moving.bench.abilities.backends
