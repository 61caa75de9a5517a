from collections.abc import Callable

import numpy as np
import pytest

from pega_tune.autotune.compiling.curves import Curve, NoFit, fit
from pega_tune.autotune.compiling.laws import Array, Shapes, law_of, terms
from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan, KernelOptions, PlanPair, Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape

SHAPES = Shapes.of(
    [TransferShape(1 << n, 1 << (n + s), Direction.H2D) for n in range(0, 15, 2) for s in range(8, 21, 2)]
)
TRUTH = np.array([6e-6, 2.4e-6, 1 / 50e9])


def _curve(at: Array, times_s: Array) -> Curve:
    found = fit(at, times_s)
    assert isinstance(found, Curve), found
    return found


def test_a_true_line_is_found_again() -> None:
    at = terms(direct(), SHAPES)
    curve = _curve(at, at @ TRUTH)
    assert curve.coefficients == pytest.approx(TRUTH, rel=1e-4)
    assert curve.residual < 1e-4
    assert curve.at(at) == pytest.approx(at @ TRUTH, rel=1e-4)


def test_the_intervals_hold_the_truth() -> None:
    at = terms(direct(), SHAPES)
    held = np.zeros((20, len(TRUTH)))
    for seed in range(len(held)):
        noise = np.random.default_rng(seed).normal(0, 0.03, len(at))
        low, high = _curve(at, at @ TRUTH * np.exp(noise)).intervals.T
        held[seed] = (low <= TRUTH) & (high >= TRUTH)
    # At 95 % less than 16 of 20 happens once in 400 times.
    assert held.sum(axis=0).min() >= 16


def test_noise_widens_the_intervals() -> None:
    at, noise = terms(direct(), SHAPES), np.random.default_rng(1).normal(0, 1, len(SHAPES.ranges))
    widths = [np.ptp(_curve(at, at @ TRUTH * np.exp(s * noise)).intervals, axis=1) for s in (0.01, 0.05)]
    assert np.all(widths[1] > 2 * widths[0])


def test_few_points_that_lie_far_off_do_not_move_a_curve() -> None:
    at = terms(direct(), SHAPES)
    times_s = at @ TRUTH
    times_s[[5, 25, 45]] *= 2
    assert _curve(at, times_s).coefficients == pytest.approx(TRUTH, rel=0.05)


@pytest.mark.parametrize(
    ("plan", "trip_s"), [(kernel(Variant.BLOCK, 512, 256), 2e-6), (kernel(Variant.WARP, 8, 256), 1e-6)]
)
def test_too_few_bytes_in_flight_are_seen(plan: CopyPlan, trip_s: float) -> None:
    at = terms(plan, SHAPES)
    truth = np.array([15e-6, 1e-9, 1 / 48e9, trip_s])
    assert _curve(at, at @ truth).coefficients[[0, 2, 3]] == pytest.approx(truth[[0, 2, 3]], rel=1e-2)


def test_staging_counts_host_runs() -> None:
    staged = CopyPlan(Backend.STAGED, Variant.WARP, 256, KernelOptions(264))
    shape = TransferShape(1024, 1 << 24, Direction.H2D, host_runs=64)
    assert law_of(staged).parameters[1] == "per_run_s"
    assert terms(staged, Shapes.of([shape])).tolist() == [[1, 64, 1 << 24, 1024]]


def test_a_pair_is_as_slow_as_its_narrowest_kernel() -> None:
    narrow, wide = kernel(Variant.WARP, 1, 256), kernel(Variant.WARP, 64, 256)
    plans: list[AnyPlan] = [PlanPair(wide, narrow), PlanPair(narrow, narrow), PlanPair(wide, wide)]
    mixed, slow, fast = (terms(plan, SHAPES)[:, 3] for plan in plans)
    assert np.array_equal(mixed, slow)
    assert np.any(fast < slow)


@pytest.mark.parametrize("count", range(4))
def test_no_curve_from_too_few_shapes(count: int) -> None:
    at = terms(direct(), SHAPES)[:count].repeat(3, axis=0)
    found = fit(at, np.linspace(1e-5, 2e-5, len(at)))
    assert isinstance(found, NoFit)
    assert f"has {count}" in found.reason


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda t: np.full_like(t, 1e-5), "all times are equal"),
        (lambda t: np.where(np.arange(len(t)) == 3, np.nan, t), "no positive numbers"),
        (lambda t: np.where(np.arange(len(t)) == 3, 0.0, t), "no positive numbers"),
        (lambda t: np.where(np.arange(len(t)) == 3, np.inf, t), "no positive numbers"),
        (lambda t: np.where(np.arange(len(t)) == 3, 1e6 * t, t), "misses the measured times"),
        (lambda t: 10.0 ** np.random.default_rng(1).uniform(-6, -1, len(t)), "misses the measured times"),
    ],
    ids=["equal", "nan", "zero", "infinite", "outlier", "noise"],
)
def test_what_is_no_fit_says_why(spoil: Callable[[Array], Array], reason: str) -> None:
    at = terms(direct(), SHAPES)
    found = fit(at, spoil(at @ TRUTH))
    assert isinstance(found, NoFit)
    assert reason in found.reason


def test_counts_up_to_two_to_the_40_are_fitted() -> None:
    huge = Shapes.of([TransferShape(1 << n, 1 << (n + s), Direction.H2D) for n in range(0, 41, 5) for s in (0, 8, 16)])
    at = terms(direct(), huge)
    assert _curve(at, at @ TRUTH).at(at) == pytest.approx(at @ TRUTH, rel=1e-3)
