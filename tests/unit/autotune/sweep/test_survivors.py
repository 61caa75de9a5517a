"""Which plans are worth measuring beside decode."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sweep.survivors import MeasuredPlan, prune
from pega_tune.kernels.plan import Backend, CopyPlan, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.store.records import CellRecord, MeasurementRecord, Metric

WARP = kernel(Variant.WARP, 2, 1024)
GOOD = MeasuredPlan(WARP, 1e-3, 2, 1e-3, 4096, 2e-3)


def _other(grid: int, measured: MeasuredPlan) -> MeasuredPlan:
    return replace(measured, plan=kernel(Variant.WARP, grid, 1024))


few = st.integers(1, 3)
candidates = st.builds(
    lambda grid, time, ctas, span, dma, sm: MeasuredPlan(
        kernel(Variant.WARP, grid, 256), time * 1e-3, ctas, span and span * 1e-3, dma, sm and sm * 1e-3
    ),
    st.integers(1, 4000),
    few,
    few,
    st.none() | few,
    few,
    st.none() | few,
)
distinct = st.lists(candidates, max_size=12, unique_by=lambda candidate: candidate.plan)


def _no_worse(one: MeasuredPlan, other: MeasuredPlan) -> bool:
    return all(a is not None and b is not None and a <= b for a, b in zip(one.measures, other.measures, strict=True))


@given(distinct)
def test_whoever_is_dropped_is_no_better_in_anything_than_one_who_stays(found: list[MeasuredPlan]) -> None:
    kept = prune(found)
    for candidate in found:
        assert candidate in kept or any(_no_worse(other, candidate) for other in kept)


@given(distinct)
def test_of_those_who_stay_none_is_no_better_in_anything_than_another(found: list[MeasuredPlan]) -> None:
    kept = prune(found)
    assert not any(_no_worse(a, b) for a in kept for b in kept if a is not b)
    assert list(kept) == [candidate for candidate in found if candidate in kept]


@pytest.mark.parametrize("worse", ["transfer_s", "resident_ctas", "span_s", "largest_dma_bytes", "sm_s"])
def test_worse_in_one_of_the_five_is_dropped_and_better_in_one_stays(worse: str) -> None:
    other = _other(4, replace(GOOD, **{worse: getattr(GOOD, worse) * 2}))
    assert prune([GOOD, other]) == prune([other, GOOD]) == (GOOD,)
    better = "sm_s" if worse != "sm_s" else "span_s"
    mixed = replace(other, **{better: getattr(GOOD, better) / 2})
    assert prune([GOOD, mixed]) == (GOOD, mixed)


def test_of_those_alike_in_everything_the_first_stays() -> None:
    assert prune([_other(4, GOOD), GOOD]) == (_other(4, GOOD),)


@pytest.mark.parametrize("unknown", ["span_s", "sm_s"])
def test_what_is_unknown_is_not_compared(unknown: str) -> None:
    vague = _other(4, replace(GOOD, transfer_s=2.0, **{unknown: None}))
    assert prune([GOOD, vague]) == (GOOD, vague)
    assert prune([vague, replace(vague, plan=WARP, transfer_s=1.0)])[0] is vague


def test_variants_in_priority_and_partition_stay_with_a_survivor_and_go_with_it() -> None:
    urgent = replace(GOOD, plan=replace(WARP, stream_priority=-5), transfer_s=1.1e-3)
    confined = replace(GOOD, plan=replace(WARP, sm_partition=8), transfer_s=1.2e-3)
    assert prune([GOOD, urgent, confined]) == (GOOD, urgent, confined)
    assert prune([urgent, GOOD]) == (urgent, GOOD)
    best = _other(1, replace(GOOD, transfer_s=1e-4))
    assert prune([GOOD, urgent, confined, best]) == (best,)


def test_a_pair_is_a_variant_if_its_legs_are() -> None:
    def pair(load: CopyPlan, save: CopyPlan, fused: bool = False) -> MeasuredPlan:
        return replace(GOOD, plan=PlanPair(load, save, fused))

    plain, urgent = pair(WARP, WARP), pair(WARP, replace(WARP, stream_priority=-5))
    mixed = pair(WARP, direct())
    assert prune([plain, urgent, mixed]) == (plain, urgent)


def _cell(plan: CopyPlan | PlanPair, **series: tuple[float, ...]) -> CellRecord:
    records = tuple(MeasurementRecord(Metric(name), samples) for name, samples in series.items())
    return CellRecord("cell", "plan", plan, "ok", True, measurements=records)


def test_a_plan_is_read_from_its_cell() -> None:
    shape = TransferShape(1024, 1024 * 4096, Direction.BOTH)
    cell = _cell(PlanPair(WARP, WARP), transfer=(1.0, 3.0, 2.0), span=(0.5,), sm=(0.25,))
    assert MeasuredPlan.of(cell, shape) == MeasuredPlan(PlanPair(WARP, WARP), 2.0, 4, 0.5, 1024 * 24, 0.25)
    batch = _cell(CopyPlan(Backend.BATCH), transfer=(1.0,))
    one_way = replace(shape, direction=Direction.H2D)
    assert MeasuredPlan.of(batch, one_way) == MeasuredPlan(CopyPlan(Backend.BATCH), 1.0, 0, None, 4096, None)
    assert MeasuredPlan.of(_cell(WARP), one_way) is None
