import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pega_tune.autotune.sweep.fits import (
    Array,
    Curve,
    NoFit,
    coordinates,
    distances,
    features_of,
    fit,
    point_weights,
    predict,
)
from pega_tune.kernels.plan import Variant, direct, kernel
from pega_tune.kernels.shape import Direction, TransferShape

SHAPES = [TransferShape(1 << n, 1 << (n + s), Direction.H2D) for n in range(0, 15, 2) for s in range(8, 21, 2)]


def _curve(features: Array, times_s: Array) -> Curve:
    curve = fit(features, times_s)
    assert isinstance(curve, Curve)
    return curve


def _times(plan_shapes: list[TransferShape], curve: Curve, targets: list[TransferShape]) -> Array:
    weights = point_weights(distances(coordinates(targets), coordinates(plan_shapes)))
    return predict(curve, features_of(direct(), targets), weights)


def test_a_true_line_is_found_again() -> None:
    features = features_of(direct(), SHAPES)
    curve = _curve(features, features @ np.array([6e-6, 2.4e-6, 1 / 50e9, 0.0]))
    assert curve.coefficients[:3] == pytest.approx([6e-6, 2.4e-6, 1 / 50e9], rel=1e-6)
    assert curve.residual < 1e-9


def test_too_few_ctas_are_seen() -> None:
    plan = kernel(Variant.BLOCK, 512, 256)
    features = features_of(plan, SHAPES)
    truth = np.array([15e-6, 1e-9, 1 / 48e9, 1 / 2e9])
    assert _curve(features, features @ truth).coefficients == pytest.approx(truth, rel=1e-3)


@given(st.lists(st.floats(0.6, 1.5), min_size=len(SHAPES), max_size=len(SHAPES)))
def test_measured_times_come_out_as_they_were_cliffs_too(cliffs: list[float]) -> None:
    features = features_of(direct(), SHAPES)
    times_s = features @ np.array([6e-6, 2.4e-6, 1 / 50e9, 0.0]) * np.array(cliffs)
    assert _times(SHAPES, _curve(features, times_s), SHAPES) == pytest.approx(times_s, rel=1e-9)


def test_between_points_the_miss_stays_between_theirs() -> None:
    features = features_of(direct(), SHAPES)
    line_s = features @ np.array([6e-6, 2.4e-6, 1 / 50e9, 0.0])
    curve = _curve(features, line_s * np.where(features[:, 1] > 100, 1.3, 1.0))
    between = [TransferShape(n, n * 3000, Direction.H2D) for n in (3, 90, 700, 3000)]
    ratios = _times(SHAPES, curve, between) / (features_of(direct(), between)[:, :3] @ curve.coefficients)
    low, high = np.exp(curve.log_ratios.min()), np.exp(curve.log_ratios.max())
    assert np.all((ratios >= low - 1e-12) & (ratios <= high + 1e-12))


def test_no_curve_from_too_few_shapes() -> None:
    for count in (0, 1, 2):
        shapes = SHAPES[:count] * 3
        outcome = fit(features_of(direct(), shapes).reshape(-1, 4), np.full(len(shapes), 1e-5))
        assert isinstance(outcome, NoFit)
        assert f"has {count}" in outcome.reason


def test_no_curve_through_noise() -> None:
    times_s = 10.0 ** np.random.default_rng(1).uniform(-6, -1, len(SHAPES))
    outcome = fit(features_of(direct(), SHAPES), times_s)
    assert isinstance(outcome, NoFit)
    assert "misses the measured times" in outcome.reason


def test_equal_times_make_a_constant() -> None:
    curve = _curve(features_of(direct(), SHAPES), np.full(len(SHAPES), 1e-5))
    assert curve.coefficients == pytest.approx([1e-5, 0, 0], abs=1e-12)


def test_units_do_not_matter() -> None:
    features = features_of(direct(), SHAPES)
    times_s = features @ np.array([6e-6, 2.4e-6, 1 / 50e9, 0.0]) * 1.1 ** np.sin(np.arange(len(SHAPES)))
    scaled = features * np.array([1, 1, 2**20, 1])
    plain, other = _curve(features, times_s), _curve(scaled, times_s)
    assert other.coefficients * np.array([1, 1, 2**20]) == pytest.approx(plain.coefficients, rel=1e-6)
    assert other.residual == pytest.approx(plain.residual, rel=1e-6)
