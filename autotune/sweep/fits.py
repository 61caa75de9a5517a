"""Curves through the measured times of one plan. They carry the times from the measured shapes to all others.

Notation: P points, C shapes to predict, F features of a shape. A curve is t = X b with X (C, F), b (F,) not negative:
`b = (a0, a1, 1 / BW, 1 / BW_CTA)` for features `(1, ranges, bytes, bytes / CTAs)`. The last one, for kernels, is what
too few CTAs cost; it is there if the points differ in it and are enough. What the curve misses is kept: the ratio of
measured to fitted time is interpolated between the points in log ranges x log size, so that measured times come out
as they were, cliffs too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from pega_tune.autotune.sweep.plans import launched_ctas, legs_of
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape

Array: TypeAlias = NDArray[np.float64]

LEAST_POINTS = 3
SATURATING_POINTS = 6
MAX_RESIDUAL = 0.5
MODEL = "base_s + per_range_s * ranges + per_byte_s * bytes + per_cta_byte_s * bytes / ctas"
PARAMETERS = ("base_s", "per_range_s", "per_byte_s", "per_cta_byte_s")

# Shepard's interpolation: 4 is steep enough for the nearest points to decide on a lattice in two dimensions.
DISTANCE_POWER = 4
SAME_POINT_OCTAVES = 1e-6


@dataclass(frozen=True, slots=True)
class Curve:
    """A fitted curve and what it misses at the points.

    Attributes:
        coefficients: b, (F,).
        residual: root mean square of the relative error of the curve alone.
        log_ratios: natural logarithm of measured over fitted time at the points, (P,).
    """

    coefficients: Array
    residual: float
    log_ratios: Array


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why there is no curve, one line."""

    reason: str


def fit(features: Array, times_s: Array) -> Curve | NoFit:
    """Fits a curve by non-negative least squares on the relative error.

    Args:
        features: X at the points, (P, 4).
        times_s: measured times, (P,), positive.
    """
    distinct = len(np.unique(features, axis=0))
    if distinct < LEAST_POINTS:
        return NoFit(f"it needs at least {LEAST_POINTS} distinct shapes and has {distinct}")
    used = (
        features if distinct >= SATURATING_POINTS and np.ptp(features[:, 3] / features[:, 2]) > 0 else features[:, :3]
    )
    relative = used / times_s[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1.0
    try:
        scaled, _ = nnls(relative / scale, np.ones(len(times_s)))
    except RuntimeError as error:  # SciPy's way to say that it ran out of iterations
        return NoFit(f"it did not converge: {error}")
    coefficients = scaled / scale
    fitted = used @ coefficients
    if not np.all(fitted > 0):
        return NoFit("it predicts no time at all for some shapes")
    residual = float(np.sqrt(np.mean((fitted / times_s - 1) ** 2)))
    if not residual <= MAX_RESIDUAL:
        return NoFit(f"it misses the measured times by {residual:.0%} (root mean square)")
    return Curve(coefficients, residual, np.log(times_s / fitted))


def features_of(plan: AnyPlan, shapes: Sequence[TransferShape]) -> Array:
    """X of a plan at C shapes: (C, 4)."""
    return np.array([(1.0, s.merged_ranges, s.total_bytes, _bytes_per_cta(plan, s)) for s in shapes])


def predict(curve: Curve, features: Array, weights: Array) -> Array:
    """Times at C shapes, in seconds.

    Args:
        curve: of the plan.
        features: X at the shapes, (C, 4).
        weights: of the curve's points at each shape, (C, P), as `point_weights` gives.
    """
    fitted: Array = features[:, : len(curve.coefficients)] @ curve.coefficients
    ratios: Array = np.exp(weights @ curve.log_ratios / weights.sum(axis=1))
    return fitted * ratios


def coordinates(shapes: Sequence[TransferShape]) -> Array:
    """Place of C shapes in octaves of ranges and of average size: (C, 2)."""
    return np.log2([(s.merged_ranges, s.total_bytes / s.merged_ranges) for s in shapes])


def distances(places: Array, points: Array) -> Array:
    """Distances in octaves from (C, 2) places to (P, 2) points: (C, P)."""
    return np.hypot(places[:, None, 0] - points[None, :, 0], places[:, None, 1] - points[None, :, 1])


def point_weights(distances_octaves: Array) -> Array:
    """Interpolation weights of P points at C places, not normalised: (C, P).

    Source: Shepard, A two-dimensional interpolation function for irregularly-spaced data, ACM 1968.
    """
    weights: Array = np.maximum(distances_octaves, SAME_POINT_OCTAVES) ** -DISTANCE_POWER
    return weights


def _bytes_per_cta(plan: AnyPlan, shape: TransferShape) -> float:
    """Bytes that each CTA of the narrowest kernel moves; 0 if there is no kernel."""
    launches = (launched_ctas(leg, shape) for leg in legs_of(plan))
    return max((shape.total_bytes / ctas for ctas in launches if ctas), default=0.0)
