"""Curves through measured times: `t = X b` with terms X (P, F) and coefficients b (F,), none of them negative.

The relative error is what counts, so logarithms are fitted, and points that lie far off count less the farther they are
(soft L1). A curve that cannot be had, or that misses what was measured, is no curve, with a reason.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from scipy.optimize import least_squares, nnls
from scipy.stats import t as student

from pega_tune.autotune.compiling.laws import Array

MAX_RESIDUAL: Final = 0.5
"""Root mean square of the logarithm of measured over fitted time, above which a curve tells nothing."""

_OFF: Final = 0.1
"""Relative error from which on a point counts as far off: several times the noise of a median."""

_CONFIDENCE: Final = 0.95
_LEAST_TIME_S: Final = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A fitted curve.

    Attributes:
        coefficients: b, (F,).
        intervals: 95 % confidence intervals of b from the Jacobian, (F, 2); none begins below 0.
        residual: root mean square of the logarithm of measured over fitted time.
        points: how many it was fitted to.
    """

    coefficients: Array
    intervals: Array
    residual: float
    points: int

    def at(self, terms: Array) -> Array:
        """Times in seconds, (C,), for terms (C, F)."""
        times_s: Array = np.maximum(terms @ self.coefficients, _LEAST_TIME_S)
        return times_s


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why there is no curve, one line."""

    reason: str


Fit: TypeAlias = Curve | NoFit


def fit(terms: Array, times_s: Array) -> Fit:
    """Fits a curve.

    Args:
        terms: X at the points, (P, F), not negative.
        times_s: measured times, (P,).
    """
    flaw = _flaw(terms, times_s)
    if flaw:
        return NoFit(flaw)
    scale = (terms / times_s[:, None]).max(axis=0)
    scale[scale == 0] = 1.0
    scaled = terms / scale

    def misses(b: Array) -> Array:
        missed: Array = np.log(np.maximum(scaled @ b, _LEAST_TIME_S) / times_s)
        return missed

    def slopes(b: Array) -> Array:
        sloped: Array = scaled / np.maximum(scaled @ b, _LEAST_TIME_S)[:, None]
        return sloped

    start = _start(scaled, times_s)
    found = least_squares(misses, start, jac=slopes, bounds=(0, np.inf), loss="soft_l1", f_scale=_OFF)
    residual = float(np.sqrt(np.mean(misses(found.x) ** 2)))
    if not found.success or not np.isfinite(residual):
        return NoFit(f"it did not converge: {found.message}")
    if residual > MAX_RESIDUAL:
        return NoFit(f"it misses the measured times by {residual:.0%} (root mean square of the logarithm)")
    half = _half_widths(slopes(found.x), misses(found.x))
    low, high = np.maximum(found.x - half, 0.0), found.x + half
    return Curve(found.x / scale, np.stack([low, high], axis=1) / scale[:, None], residual, len(times_s))


def _flaw(terms: Array, times_s: Array) -> str:
    """What is wrong with the points; empty if nothing is."""
    if not (np.all(np.isfinite(terms)) and np.all(np.isfinite(times_s)) and np.all(times_s > 0)):
        return "some times are no positive numbers"
    wanted, distinct = terms.shape[1] + 1, len(np.unique(terms, axis=0))
    if distinct < wanted:
        return f"it needs at least {wanted} distinct shapes and has {distinct}"
    if np.ptp(times_s) == 0:
        return "all times are equal, so they do not tell what they depend on"
    return ""


def _start(scaled: Array, times_s: Array) -> Array:
    """Coefficients to start from, inside the bounds: least squares of the relative error, outliers and all."""
    try:
        start, _ = nnls(scaled / times_s[:, None], np.ones(len(times_s)))
    except RuntimeError:  # SciPy's way to say that it ran out of iterations
        start = np.zeros(scaled.shape[1])
    inside: Array = np.maximum(start, 1e-3 / scaled.shape[1])
    return inside


def _half_widths(slopes: Array, misses: Array) -> Array:
    """Half of the confidence intervals, (F,), by linear propagation of a robust estimate of the scatter."""
    spare = len(misses) - slopes.shape[1]
    scatter = max(1.4826 * float(np.median(np.abs(misses))), float(np.sqrt(np.mean(np.minimum(misses**2, _OFF**2)))))
    covariance = np.linalg.pinv(slopes.T @ slopes) * scatter**2 * len(misses) / spare
    width: Array = np.sqrt(np.maximum(np.diag(covariance), 0.0)) * student.ppf((1 + _CONFIDENCE) / 2, spare)
    return width
