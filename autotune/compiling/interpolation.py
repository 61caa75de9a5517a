"""Interpolation between measured shapes, with how far it can be trusted: kriging of what the curves miss.

Places are log2 of ranges and log2 of the average size. Two shapes are alike if they are near in size, in total bytes,
and, half as much, in ranges: what a curve misses are above all cliffs of the range size and saturation, which the total
decides. Source of the method: Rasmussen and Williams, Gaussian Processes for Machine Learning, section 2.2 and, for the
covariance, equation 4.17 (Matern, 3/2). The constants are those that predict best, on an H200, shapes left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pega_tune.autotune.compiling.laws import Array
from pega_tune.kernels.shape import TransferShape

LENGTH_OCTAVES: Final = 4.0
NOISE: Final = 0.02
_RANGES_COUNT: Final = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """How P measured points make up C places.

    Attributes:
        weights: (C, P); a value at a place is `weights @ values`, and tends to 0 far from all points.
        doubt: (C,), 0 at a measured point and up to 1 far from all: the standard deviation of what is not known, as a
            fraction of that of the values.
    """

    weights: Array
    doubt: Array


def places(shapes: Sequence[TransferShape]) -> Array:
    """Places of C shapes: (C, 2)."""
    return np.log2([(s.merged_ranges, s.total_bytes / s.merged_ranges) for s in shapes]).reshape(-1, 2)


def distances(at: Array, points: Array) -> Array:
    """Distances in octaves from (C, 2) places to (P, 2) points: (C, P)."""
    apart = at[:, None, :] - points[None, :, :]
    return np.hypot(apart[..., 0], apart[..., 1])


def interpolate(at: Array, points: Array) -> Weights:
    """Weights of (P, 2) points at (C, 2) places; P may be 0."""
    if not len(points):
        return Weights(np.zeros((len(at), 0)), np.ones(len(at)))
    factor = cho_factor(_alike(points, points) + NOISE * np.eye(len(points)))
    near = _alike(at, points)
    weights: Array = cho_solve(factor, near.T).T
    known = np.einsum("cp,cp->c", weights, near)
    return Weights(weights, np.sqrt(np.clip(1.0 - known, 0.0, 1.0)))


def _alike(one: Array, other: Array) -> Array:
    apart = one[:, None, :] - other[None, :, :]
    ranges, size = apart[..., 0], apart[..., 1]
    far = np.sqrt(3 * (_RANGES_COUNT * ranges**2 + size**2 + (ranges + size) ** 2)) / LENGTH_OCTAVES
    alike: Array = (1 + far) * np.exp(-far)
    return alike
