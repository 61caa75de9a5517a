from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
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
BESIDE = [colocation for colocation in Colocation if colocation is not Colocation.IDLE]


def _burdens(plan: AnyPlan, time_s: float, span: float, ctas: float) -> Burdens:
    """A plan that moves bytes at half the speed of the link."""
    shape = TransferShape(RANGES, max(RANGES, round(time_s * LINK / 2)), Direction.H2D)
    return Burdens.of(Moving(plan, (shape,), np.array([time_s]), (Residence(span, span * ctas),), LINK))


def _of_kernel(grid: int, time_s: float) -> Burdens:
    return _burdens(kernel(Variant.WARP, grid, 256), time_s, 0.9, grid)


def _of_copies(time_s: float) -> Burdens:
    return _burdens(direct(), time_s, 0.0, 0.0)


def _saturating(grid: int, time_s: float) -> float:
    """What a kernel costs where decode's loads queue up behind it: no sum of terms in SM-seconds."""
    return time_s * (1 - 1 / grid)


def _points() -> list[Point]:
    """Kernels of rising width and time, and copies."""
    steps = [(2 << k, 1e-4 * (1 + k)) for k in range(6)]
    kernels = [Point(kernel(Variant.WARP, g, 256), _of_kernel(g, t), _saturating(g, t), MANY) for g, t in steps]
    chunks = [CopyPlan(Backend.PITCHED, chunk_bytes=n << 16) for n in range(1, 5)]
    return kernels + [
        Point(plan, _burdens(plan, 1e-4 * n, 0.0, 0.0), 1e-5 * n, MANY) for n, plan in enumerate(chunks, start=1)
    ]


def _made(points: list[Point], colocation: Colocation = Colocation.SAME_CONTEXT) -> Ceiling:
    found = ceiling(points, colocation)
    assert isinstance(found, Ceiling)
    return found


def test_a_transfer_costs_no_more_than_one_that_puts_more_on_the_device() -> None:
    found = _made(_points())
    assert found.miss == 1.0
    for grid, time_s in ((2, 5e-5), (8, 2.5e-4), (30, 3e-4)):
        assert found.at(_of_kernel(grid, time_s))[0] >= _saturating(grid, time_s)
    assert found.at(_of_copies(1e-4))[0] == pytest.approx(1e-5)
    assert found.at(_of_copies(3.5e-4))[0] == pytest.approx(4e-5)


def test_nothing_is_claimed_of_a_transfer_that_surpasses_all() -> None:
    found = _made(_points())
    assert np.isnan(found.at(_of_kernel(128, 1e-5))[0])  # wider
    assert np.isnan(found.at(_of_kernel(2, 1.0))[0])  # longer
    assert np.isnan(found.at(_of_copies(5e-4))[0])


def test_nothing_is_claimed_of_more_bytes_in_the_same_time() -> None:
    found = _made(_points())
    dense = TransferShape(RANGES, round(4e-4 * LINK * 0.9), Direction.H2D)
    burdens = Burdens.of(Moving(direct(), (dense,), np.array([4e-4]), (Residence(0.0, 0.0),), LINK))
    assert np.isnan(found.at(burdens)[0])
    assert np.isfinite(found.at(_of_copies(4e-4))[0])


@pytest.mark.parametrize("colocation", BESIDE)
def test_only_in_its_own_context_decode_finds_a_gap_between_copies_that_nobody_waits_for(
    colocation: Colocation,
) -> None:
    claimed = _made(_points(), colocation).at(_of_copies(1e-4))[0]
    assert np.isfinite(claimed) == (colocation is Colocation.SAME_CONTEXT)


@pytest.mark.parametrize("colocation", BESIDE)
def test_a_backlog_is_no_longer_than_what_is_left_to_move(colocation: Colocation) -> None:
    few_bytes = TransferShape(RANGES, RANGES * 16, Direction.H2D)
    burdens = Burdens.of(Moving(direct(), (few_bytes,), np.array([1e-4]), (Residence(0.0, 0.0),), LINK))
    assert np.isfinite(_made(_points(), colocation).at(burdens)[0])


@pytest.mark.parametrize("colocation", BESIDE)
def test_kernels_one_after_another_bound_one_of_their_length_only_side_by_side(colocation: Colocation) -> None:
    cut = CopyPlan(Backend.KERNEL, Variant.WARP, 256, KernelOptions(4, chunk_descriptors=RANGES // 4))
    points = [*_points()[6:], *_points()[6:], Point(cut, _burdens(cut, 8e-4, 0.9, 4), 1e-5, MANY)]
    claimed = _made(points, colocation).at(_of_kernel(4, 4e-4))[0]
    assert np.isfinite(claimed) == (colocation is not Colocation.TIME_SLICED)


def test_copies_do_not_bound_kernels_and_kernels_do_not_bound_copies() -> None:
    kernels, copies = _points()[:6], _points()[6:]
    assert np.isnan(_made([*copies, *copies]).at(_of_kernel(2, 1e-5))[0])
    assert np.isnan(_made([*kernels, *kernels]).at(_of_copies(1e-5))[0])


def test_a_plan_that_costs_more_than_a_heavier_one_raises_all_claims() -> None:
    points = _points()
    light = points[2]
    heavier_s = points[3].cost_s
    found = _made([*points[:2], replace(light, cost_s=1.5 * heavier_s), *points[3:]])
    assert found.miss == pytest.approx(1.5)
    assert found.at(_of_copies(1e-4))[0] == pytest.approx(1.5e-5)


def test_a_claim_rests_on_bursts_enough() -> None:
    points = [replace(point, bursts=ENOUGH_BURSTS // 2 + 1) for point in _points()]
    found = _made(points)
    assert found.at(_of_copies(1e-4))[0] == pytest.approx(2e-5)  # with those of the next plan
    assert found.at(_of_copies(4e-4))[0] == pytest.approx(4e-5)  # there is no next one
    few = _made([replace(point, bursts=LEAST_BURSTS - 1) for point in _points()])
    assert few.at(_of_copies(3e-4))[0] == pytest.approx(4e-5)  # two together
    assert np.isnan(few.at(_of_copies(4e-4))[0])


def test_a_claim_rests_on_processes_enough_where_there_are_any() -> None:
    points = _points()
    confirmed = [*points[:-1], replace(points[-1], processes=ENOUGH_PROCESSES)]
    assert _made(points).at(_of_copies(1e-4))[0] == pytest.approx(1e-5)
    assert _made(confirmed).at(_of_copies(1e-4))[0] == pytest.approx(4e-5)


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
def test_whatever_was_measured_is_covered(costs: list[float], colocation: Colocation) -> None:
    points = [replace(point, cost_s=cost) for point, cost in zip(_points(), costs, strict=True)]
    found = ceiling(points, colocation)
    if isinstance(found, NoFit):
        assert found.reason
        return
    assert 1.0 <= found.miss <= MAX_MISS
    assert all(found.at(point.burdens)[0] * (1 + 1e-9) + 1e-6 >= point.cost_s for point in points)


@pytest.mark.parametrize("colocation", BESIDE)
@pytest.mark.parametrize("of", [lambda time_s: _of_kernel(4, time_s), _of_copies], ids=["kernel", "copies"])
def test_loads_do_not_fall_when_a_transfer_grows(of: Callable[[float], Burdens], colocation: Colocation) -> None:
    small, large = (loads_of(of(time_s), colocation) for time_s in (1e-4, 2e-4))
    assert (large >= small * (1 - 1e-12)).all()
    assert (large > small).any()
