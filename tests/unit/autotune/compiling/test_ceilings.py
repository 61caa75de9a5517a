from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pega_tune.autotune.compiling.burdens import Burdens, Moving, Residence
from pega_tune.autotune.compiling.ceilings import (
    ENOUGH_BURSTS,
    ENOUGH_PROCESSES,
    LEAST_BURSTS,
    LEAST_POINTS,
    Ceiling,
    ceiling,
    loads_of,
)
from pega_tune.autotune.compiling.curves import NoFit
from pega_tune.autotune.compiling.suffering import MAX_MISS, Point
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, KernelOptions, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation

RANGES = 256
LINK = 50e9
MANY = ENOUGH_BURSTS
CHUNKED = CopyPlan(Backend.PITCHED, chunk_bytes=1 << 16)
OTHER = CopyPlan(Backend.PITCHED)
"""A plan that none of the points measures, whatever it is said to put on the device."""
BESIDE = [colocation for colocation in Colocation if colocation is not Colocation.IDLE]


def _burdens(plan: AnyPlan, time_s: float, span: float, ctas: float) -> Burdens:
    """A plan that moves bytes at half the speed of the link."""
    shape = TransferShape(RANGES, max(RANGES, round(time_s * LINK / 2)), Direction.H2D)
    return Burdens.of(Moving(plan, (shape,), np.array([time_s]), (Residence(span, span * ctas),), LINK))


def _of_kernel(grid: int, time_s: float) -> Burdens:
    return _burdens(kernel(Variant.WARP, grid, 256), time_s, 0.9, grid)


def _of_copies(time_s: float) -> Burdens:
    return _burdens(CHUNKED, time_s, 0.0, 0.0)


def _saturating(grid: int, time_s: float) -> float:
    """What a kernel costs where decode's loads queue up behind it: no sum of terms in SM-seconds."""
    return time_s * (1 - 1 / grid)


def _points() -> list[Point]:
    """Kernels of rising width and time, and copies."""
    steps = [(2 << k, 1e-4 * (1 + k)) for k in range(6)]
    kernels = [Point(kernel(Variant.WARP, g, 256), _of_kernel(g, t), _saturating(g, t), MANY) for g, t in steps]
    chunks = [CopyPlan(Backend.PITCHED, chunk_bytes=n << 16) for n in range(1, 5)]
    return kernels + [
        Point(plan, _burdens(plan, 1e-4 * n, 0.0, 0.0), 1e-4 * n, MANY) for n, plan in enumerate(chunks, start=1)
    ]


def _made(points: list[Point], colocation: Colocation = Colocation.SAME_CONTEXT) -> Ceiling:
    found = ceiling(points, colocation)
    assert isinstance(found, Ceiling)
    return found


def test_a_transfer_costs_no_more_than_one_that_puts_more_on_the_device() -> None:
    found = _made(_points())
    assert found.miss == 1.0
    for grid, time_s in ((2, 5e-5), (8, 2.5e-4), (30, 3e-4)):
        assert found.at(OTHER, _of_kernel(grid, time_s))[0] >= _saturating(grid, time_s)
    assert found.at(OTHER, _of_copies(1e-4))[0] == pytest.approx(1e-4)
    assert found.at(OTHER, _of_copies(3.5e-4))[0] == pytest.approx(4e-4)


def test_nothing_is_claimed_of_a_transfer_that_surpasses_all() -> None:
    found = _made(_points())
    assert np.isnan(found.at(OTHER, _of_kernel(128, 1e-5))[0])  # wider
    assert np.isnan(found.at(OTHER, _of_kernel(2, 1.0))[0])  # longer
    assert np.isnan(found.at(OTHER, _of_copies(5e-4))[0])


def test_nothing_is_claimed_of_more_bytes_in_the_same_time() -> None:
    found = _made(_points())
    dense = TransferShape(RANGES, round(4e-4 * LINK * 0.9), Direction.H2D)
    burdens = Burdens.of(Moving(CHUNKED, (dense,), np.array([4e-4]), (Residence(0.0, 0.0),), LINK))
    assert np.isnan(found.at(OTHER, burdens)[0])
    assert np.isfinite(found.at(OTHER, _of_copies(4e-4))[0])


@pytest.mark.parametrize("colocation", BESIDE)
@pytest.mark.parametrize("size", [16, 4096])
def test_chunks_do_not_bound_ranges_that_nobody_waits_for_however_few_their_bytes(
    colocation: Colocation, size: int
) -> None:
    shape = TransferShape(RANGES, RANGES * size, Direction.H2D)
    found = _made(_points(), colocation)
    for plan, claimed in ((direct(), False), (CHUNKED, True)):
        burdens = Burdens.of(Moving(plan, (shape,), np.array([1e-4]), (Residence(0.0, 0.0),), LINK))
        assert np.isfinite(found.at(OTHER, burdens)[0]) == claimed


@pytest.mark.parametrize("colocation", BESIDE)
def test_kernels_one_after_another_bound_one_of_their_length_only_side_by_side(colocation: Colocation) -> None:
    cut = CopyPlan(Backend.KERNEL, Variant.WARP, 256, KernelOptions(4, chunk_descriptors=RANGES // 4))
    points = [*_points()[6:], *_points()[6:], Point(cut, _burdens(cut, 8e-4, 0.9, 4), 1e-5, MANY)]
    claimed = _made(points, colocation).at(OTHER, _of_kernel(4, 4e-4))[0]
    assert np.isfinite(claimed) == (colocation is not Colocation.TIME_SLICED)


def test_copies_do_not_bound_kernels_and_kernels_do_not_bound_copies() -> None:
    kernels, copies = _points()[:6], _points()[6:]
    assert np.isnan(_made([*copies, *copies]).at(OTHER, _of_kernel(2, 1e-5))[0])
    assert np.isnan(_made([*kernels, *kernels]).at(OTHER, _of_copies(1e-5))[0])


def test_a_plan_that_costs_more_than_a_heavier_one_raises_all_claims() -> None:
    points = _points()
    light = points[2]
    heavier_s = points[3].cost_s
    found = _made([*points[:2], replace(light, cost_s=1.5 * heavier_s), *points[3:]])
    assert found.miss == pytest.approx(1.5)
    assert found.at(OTHER, _of_copies(1e-4))[0] == pytest.approx(1.5e-4)


def test_a_claim_rests_on_bursts_enough() -> None:
    points = [replace(point, bursts=ENOUGH_BURSTS // 2 + 1) for point in _points()]
    found = _made(points)
    assert found.at(OTHER, _of_copies(1e-4))[0] == pytest.approx(2e-4)  # with those of the next plan
    assert found.at(OTHER, _of_copies(4e-4))[0] == pytest.approx(4e-4)  # there is no next one
    few = _made([replace(point, bursts=LEAST_BURSTS - 1) for point in _points()])
    assert few.at(OTHER, _of_copies(3e-4))[0] == pytest.approx(4e-4)  # two together
    assert few.at(OTHER, _of_copies(4e-4))[0] == pytest.approx(6e-4)  # with one of them twice
    fewer = _made([replace(point, bursts=LEAST_BURSTS // 4) for point in _points()])
    assert np.isnan(fewer.at(OTHER, _of_copies(4e-4))[0])


def test_a_burst_that_copies_twice_as_long_counts_twice() -> None:
    points = [replace(point, bursts=ENOUGH_BURSTS // 2 + 1) for point in _points()[1:] if point.plan != CHUNKED]
    found = _made(points)
    assert found.at(OTHER, _of_copies(1e-4))[0] == pytest.approx(2e-4)
    assert found.at(OTHER, _of_copies(1.1e-4))[0] == pytest.approx(3e-4)  # it needs those of the next plan
    assert (
        found.at(OTHER, _of_kernel(4, 1e-4))[0] == found.at(OTHER, _of_kernel(4, 2e-4))[0]
    )  # every burst meets a kernel


def test_one_plan_that_costs_more_where_it_puts_less_on_the_device_raises_all_claims() -> None:
    twice = replace(_points()[0], burdens=_of_kernel(2, 9e-5), cost_s=1.2 * _points()[0].cost_s)
    cheaper = _points()[1:]
    found = _made([_points()[0], twice, *(replace(point, cost_s=10 * point.cost_s) for point in cheaper)])
    assert found.miss == pytest.approx(1.2)


def test_a_transfer_costs_no_more_than_one_of_half_its_size_twice() -> None:
    kernels, (half, *rest) = _points()[:6], _points()[6:]
    heavier = [replace(point, cost_s=2.5 * point.cost_s) for point in rest]
    larger = loads_of(_of_copies(1.5e-4), Colocation.SAME_CONTEXT)
    few, many = (_made([*kernels, replace(half, bursts=n), *heavier]).least(OTHER, larger)[0] for n in (MANY, 2 * MANY))
    assert few == pytest.approx(5e-4)  # two of them are unlucky twice as often
    assert many == pytest.approx(2e-4)


def test_of_a_plan_that_was_measured_itself_the_least_bursts_will_do() -> None:
    found = _made([replace(point, bursts=LEAST_BURSTS) for point in _points()])
    plan = _points()[6].plan
    assert found.at(plan, _of_copies(1e-4))[0] == pytest.approx(1e-4)
    assert found.at(OTHER, _of_copies(1e-4))[0] == pytest.approx(2e-4)
    few = _made([replace(point, bursts=LEAST_BURSTS - 1) for point in _points()])
    assert few.at(plan, _of_copies(1e-4))[0] == few.at(OTHER, _of_copies(1e-4))[0]


def test_a_claim_rests_on_processes_enough_where_there_are_any() -> None:
    points = _points()
    confirmed = [*points[:-1], replace(points[-1], processes=ENOUGH_PROCESSES)]
    assert _made(points).at(OTHER, _of_copies(1e-4))[0] == pytest.approx(1e-4)
    assert _made(confirmed).at(OTHER, _of_copies(1e-4))[0] == pytest.approx(4e-4)


@pytest.mark.parametrize(("spoilt", "reason"), [(np.nan, "no numbers"), (np.inf, "no numbers"), (1.0, "times as much")])
def test_costs_that_make_no_ceiling_are_told(spoilt: float, reason: str) -> None:
    found = ceiling([replace(_points()[0], cost_s=spoilt), *_points()[1:]], Colocation.SAME_CONTEXT)
    assert isinstance(found, NoFit)
    assert reason in found.reason


@pytest.mark.parametrize("count", [0, 1, LEAST_POINTS - 1])
def test_few_plans_make_none(count: int) -> None:
    found = ceiling(_points()[:count], Colocation.SAME_CONTEXT)
    assert isinstance(found, NoFit)
    assert f"has {count}" in found.reason


@given(st.lists(st.floats(0, 1), min_size=10, max_size=10), st.sampled_from(BESIDE))
@example([*(0.0 for _ in range(9)), 1.0], Colocation.SAME_CONTEXT)  # the heaviest of all
@example([*(1e-4 for _ in range(9)), 1e-3], Colocation.TIME_SLICED)
def test_whatever_was_measured_is_covered(costs: list[float], colocation: Colocation) -> None:
    points = [replace(point, cost_s=cost) for point, cost in zip(_points(), costs, strict=True)]
    found = ceiling(points, colocation)
    if isinstance(found, NoFit):
        assert found.reason
        return
    assert 1.0 <= found.miss <= MAX_MISS
    assert all(found.at(point.plan, point.burdens)[0] * (1 + 1e-9) >= point.cost_s for point in points)


@pytest.mark.parametrize("colocation", BESIDE)
@pytest.mark.parametrize("of", [lambda time_s: _of_kernel(4, time_s), _of_copies], ids=["kernel", "copies"])
def test_loads_do_not_fall_when_a_transfer_grows(of: Callable[[float], Burdens], colocation: Colocation) -> None:
    small, large = (loads_of(of(time_s), colocation) for time_s in (1e-4, 2e-4))
    assert (large >= small * (1 - 1e-12)).all()
    assert (large > small).any()
