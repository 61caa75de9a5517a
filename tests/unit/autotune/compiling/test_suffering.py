from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.compiling.burdens import Burdens, Moving, Residence
from pega_tune.autotune.compiling.curves import NoFit
from pega_tune.autotune.compiling.latency import Run, kind_of, slowings
from pega_tune.autotune.compiling.suffering import (
    SIDE_STALL,
    SPARE,
    TURNS_EXTRA,
    TURNS_STALL,
    Bound,
    Burden,
    Point,
    bound,
    laws_of,
)
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation

SHAPE = TransferShape(16_384, 64 << 20, Direction.H2D, host_runs=1)
LINK = 50e9
STAGED = CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(264))
IN_CHUNKS = CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(264), 4 << 20)
LAUNCHES = CopyPlan(Backend.KERNEL, Variant.WARP, 1024, KernelOptions(1, 2048))


def _burdens(plan: AnyPlan, *, time_s: float = 2e-3, span: float = 0.9, sm: float = 0.9) -> Burdens:
    return Burdens.of(Moving(plan, (SHAPE,), np.array([time_s]), (Residence(span, sm),), LINK))


def _points(count: int) -> list[Point]:
    """Plans of five kinds, as different as can be in all that decode may suffer from; they cost nothing yet."""
    rng = np.random.default_rng(3)
    points = []
    for i in range(count):
        grid = KernelOptions(i + 1)
        kinds = (
            CopyPlan(Backend.KERNEL, Variant.WARP, 256, grid),
            replace(STAGED, options=grid),
            replace(IN_CHUNKS, options=grid),
            replace(LAUNCHES, options=KernelOptions(i + 1, 2048)),
            CopyPlan(Backend.PITCHED, chunk_bytes=(i + 1) << 20),
        )
        times = {"time_s": rng.uniform(1e-3, 4e-3), "span": rng.uniform(), "sm": rng.uniform(0, 50)}
        points.append(Point(kinds[i % 5], _burdens(kinds[i % 5], **times), 0.0, 100))
    return points


def _costing(burden: Burden, points: list[Point], noise: float = 0.0) -> list[Point]:
    """The points, with what a law of made-up coefficients costs them."""
    seconds = np.char.endswith(burden.law.parameters, "_s")
    truth = np.linspace(1.0, 0.2, len(seconds)) * np.where(seconds, 1e-4, 0.5)
    rng = np.random.default_rng(5)
    return [replace(p, cost_s=float(burden.terms(p.burdens)[0] @ truth * np.exp(rng.normal(0, noise)))) for p in points]


def test_what_a_plan_puts_on_the_device() -> None:
    whole, chunked, launches = (_burdens(plan) for plan in (STAGED, IN_CHUNKS, LAUNCHES))
    assert (whole.copies[0], whole.gathers[0]) == (0, 1)
    assert (launches.copies[0], launches.gathers[0]) == (1, 0)
    # Without chunks all parts are enqueued at once; with them a part waits for the one before.
    assert whole.command_s[0] == pytest.approx(SHAPE.total_bytes / 4 / LINK, rel=1e-3)
    assert whole.backlog_s[0] == whole.engine_s[0] == 2e-3
    assert chunked.command_s[0] == chunked.backlog_s[0] == (4 << 20) / LINK
    assert (chunked.launches[0], launches.launches[0], _burdens(direct()).launches[0]) == (16, 8, 0)
    assert launches.span_s[0] == pytest.approx(1.8e-3)


def test_a_transfer_twice_puts_all_twice_on_the_device_but_its_width_and_what_one_launch_lasts() -> None:
    once, twice = _burdens(LAUNCHES), _burdens(LAUNCHES).repeated(2)
    assert (twice.copies[0], twice.launches[0]) == (1, 16)
    for name in ("span_s", "sm_s", "command_s", "backlog_s", "engine_s", "moving_s"):
        assert getattr(twice, name)[0] == 2 * getattr(once, name)[0]


@pytest.mark.parametrize("burden", [*laws_of(Colocation.TIME_SLICED), *laws_of(Colocation.MPS)])
def test_a_true_law_is_found_and_hardly_exceeded(burden: Burden) -> None:
    points = _costing(burden, _points(20))
    found = bound(burden, points)
    assert isinstance(found, Bound)
    assert found.miss == pytest.approx(1.0, abs=0.05)
    assert [found.at(p.burdens)[0] for p in points] == pytest.approx([p.cost_s for p in points], rel=0.06)


@pytest.mark.parametrize("seed", range(3))
def test_no_plan_that_was_measured_exceeds_its_claim(seed: int) -> None:
    points = _costing(TURNS_STALL, _points(20 + seed), noise=0.2)
    found = bound(TURNS_STALL, points)
    assert isinstance(found, Bound)
    assert all(p.cost_s <= found.at(p.burdens)[0] * (1 + 1e-9) for p in points)


def test_plans_left_out_widen_the_claim() -> None:
    points = _costing(TURNS_STALL, _points(20), noise=0.3)
    found = bound(TURNS_STALL, points)
    assert isinstance(found, Bound)
    exceeded = [p.cost_s / (found.burden.terms(p.burdens)[0] @ found.coefficients) for p in points]
    assert found.miss > max(exceeded)


def test_nothing_is_claimed_beyond_what_was_measured() -> None:
    found = bound(TURNS_STALL, _costing(TURNS_STALL, _points(20)))
    assert isinstance(found, Bound)
    assert np.isnan(found.at(_burdens(LAUNCHES, time_s=1.0))[0])


@pytest.mark.parametrize("count", [0, 1, 2, len(SIDE_STALL.law.parameters) + SPARE - 1])
def test_few_plans_are_no_fit(count: int) -> None:
    found = bound(SIDE_STALL, _costing(SIDE_STALL, _points(count)))
    assert isinstance(found, NoFit)
    assert f"has {count}" in found.reason


@pytest.mark.parametrize(("spoilt", "reason"), [(np.nan, "no numbers"), (np.inf, "no numbers"), (1e3, "exceeds")])
def test_a_cost_that_does_not_fit_is_no_fit(spoilt: float, reason: str) -> None:
    points = _costing(TURNS_STALL, _points(20))
    found = bound(TURNS_STALL, [*points[:-1], replace(points[-1], cost_s=spoilt)])
    assert isinstance(found, NoFit)
    assert reason in found.reason


@given(st.lists(st.floats(0, 10), min_size=12, max_size=12))
def test_any_costs_give_a_claim_that_covers_them_or_a_reason(costs: list[float]) -> None:
    points = [replace(p, cost_s=c) for p, c in zip(_points(12), costs, strict=True)]
    found = bound(TURNS_EXTRA, points)
    if isinstance(found, NoFit):
        assert found.reason
    else:
        assert all(p.cost_s <= found.at(p.burdens)[0] * (1 + 1e-9) + 1e-6 for p in points)


def test_latency_is_claimed_by_ratio_or_by_difference_whichever_is_more() -> None:
    plans = [kernel(Variant.WARP, grid, 256) for grid in (1, 2)]
    (slowing,) = slowings([Run(plans[0], 1e-3, 3e-3), Run(plans[1], 2e-3, 5e-3)]).values()
    assert [slowing.ratio, slowing.excess_s, slowing.longest_s] == pytest.approx([3.0, 3e-3, 2e-3])
    assert slowing.at(np.array([1e-5, 1e-3, 2e-3])) == pytest.approx([3.01e-3, 4e-3, 6e-3])
    assert np.isnan(slowing.at(np.array([3e-3]))[0])


def test_kinds_are_kept_apart_and_one_run_makes_none() -> None:
    fused, apart = PlanPair(STAGED, STAGED, fused=True), PlanPair(STAGED, STAGED)
    assert len({kind_of(p) for p in (fused, apart, PlanPair(IN_CHUNKS, IN_CHUNKS), PlanPair(direct(), direct()))}) == 4
    assert kind_of(apart) == kind_of(STAGED)
    assert slowings([Run(STAGED, 1e-3, 2e-3), Run(direct(), 1e-3, 2e-3)]) == {}


def test_a_kind_that_ran_once_loses_no_more_than_its_kin_in_chunks() -> None:
    runs = [Run(STAGED, 1e-3, 2e-3), Run(IN_CHUNKS, 1e-3, 3e-3), Run(direct(), 1e-3, 9e-3)]
    (slowing,) = slowings(runs).values()
    assert slowing.ratio == 3.0
    assert set(slowings(runs)) == {kind_of(STAGED)}  # chunks are not known by what is not in chunks
    assert slowings(runs[1:]) == {}
