"""Transfer times of every plan in every cell of a table.

A plan's time follows its own curve if it was measured at shapes enough, else that of its family; what the curve misses
at the measured shapes is interpolated between them. Where a cell's centre was measured, the measured time stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.compiling.curves import Curve, Fit, fit
from pega_tune.autotune.compiling.interpolation import Weights, distances, interpolate, places
from pega_tune.autotune.compiling.laws import Array, Shapes, family_of, terms
from pega_tune.autotune.sweep.observations import Observations
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape

OWN_SHAPES: Final = 8
"""Shapes from which on a plan has a curve of its own: twice as many as its law has coefficients."""

_SAME_OCTAVES: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves of one direction.

    Attributes:
        plans: by plan, of those that were measured at shapes enough.
        families: by name, through all plans of a family together.
    """

    plans: Mapping[AnyPlan, Fit]
    families: Mapping[str, Fit]

    def of(self, plan: AnyPlan) -> Curve | None:
        """The plan's own curve, or that of its family; None without any."""
        for found in (self.plans.get(plan), self.families.get(family_of(plan))):
            if isinstance(found, Curve):
                return found
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """N plans, S measured shapes, C cells.

    Attributes:
        times_s: (N, C), seconds; NaN where nothing can be said.
        doubts: (N, C), as `Weights.doubt`.
        apart: (C, S) distances from cells to measured shapes, in octaves.
        measured: (N, S) whether the plan was measured there.
    """

    times_s: Array
    doubts: Array
    apart: Array
    measured: NDArray[np.bool_]


def fit_curves(seen: Observations) -> Curves:
    """Fits the curves of all plans and families."""
    measured = _Points(seen)
    points = {plan: measured.of(index) for index, plan in enumerate(seen.plans)}
    own = {plan: fit(*xy) for plan, xy in points.items() if len(np.unique(xy[0], axis=0)) >= OWN_SHAPES}
    members: dict[str, list[AnyPlan]] = {}
    for plan in seen.plans:
        members.setdefault(family_of(plan), []).append(plan)
    families = {
        name: fit(*(np.concatenate(parts) for parts in zip(*(points[plan] for plan in plans), strict=True)))
        for name, plans in members.items()
    }
    return Curves(own, families)


def forecast(seen: Observations, curves: Curves, cells: Sequence[TransferShape]) -> Forecast:
    """Predicts every plan in every cell."""
    return _Forecaster(seen, curves, cells).forecast()


class _Points:
    """The measured points of all plans: N plans, S shapes."""

    def __init__(self, seen: Observations) -> None:
        shapes = Shapes.of(seen.shapes)
        self.terms = [terms(plan, shapes) for plan in seen.plans]
        self.columns = [np.array(list(times), dtype=np.intp) for times in seen.times_s]
        self.times_s = [np.array(list(times.values()), dtype=np.float64) for times in seen.times_s]

    def of(self, index: int) -> tuple[Array, Array]:
        """Terms (P, F) and times (P,) of a plan at the shapes at which it was measured."""
        return self.terms[index][self.columns[index]], self.times_s[index]


class _Forecaster:
    def __init__(self, seen: Observations, curves: Curves, cells: Sequence[TransferShape]) -> None:
        self._seen = seen
        self._cells = Shapes.of(cells)
        self._at, self._places = places(cells), places(seen.shapes)
        self._apart = distances(self._at, self._places)
        self._weights: dict[tuple[int, ...], Weights] = {}
        self._curves = [curves.of(plan) for plan in seen.plans]
        self._missed = self._misses(_Points(seen))
        self._level = self._levels(curves)

    def forecast(self) -> Forecast:
        count = len(self._seen.shapes)
        measured = np.array([[s in times for s in range(count)] for times in self._seen.times_s])
        times_s = np.array([self._follow(index) for index in range(len(self._seen.plans))])
        self._keep_ratios(times_s, measured)
        self._keep_measured(times_s)
        doubts = np.array([self._weights_of(tuple(times)).doubt for times in self._seen.times_s])
        return Forecast(times_s, doubts, self._apart, measured)

    def _misses(self, points: _Points) -> Array:
        """Logarithm of measured over fitted time, (N, S); NaN where there is none."""
        missed = np.full((len(self._seen.plans), len(self._seen.shapes)), np.nan)
        for index, curve in enumerate(self._curves):
            if curve is not None:
                known, times_s = points.of(index)
                missed[index, points.columns[index]] = np.log(times_s / curve.at(known))
        return missed

    def _levels(self, curves: Curves) -> Array:
        """What the plans that were measured widely miss in a block alike, (S,): how slow it was as a whole.

        It is interpolated for all plans from the same shapes, so that no plan wins for want of a slow block.
        """
        widely = [index for index, plan in enumerate(self._seen.plans) if isinstance(curves.plans.get(plan), Curve)]
        missed = self._missed[widely]
        some = np.isfinite(missed).any(axis=0) if widely else np.zeros(missed.shape[1], dtype=np.bool_)
        level = np.zeros(missed.shape[1])
        level[some] = np.nanmedian(missed[:, some], axis=0)
        return level

    def _weights_of(self, columns: tuple[int, ...]) -> Weights:
        """Of the shapes at which a plan was measured; plans that were measured at the same ones share them."""
        if columns not in self._weights:
            self._weights[columns] = interpolate(self._at, self._places[list(columns)])
        return self._weights[columns]

    def _follow(self, index: int) -> Array:
        """The times of a plan along its curve, (C,); NaN without one."""
        curve, columns = self._curves[index], tuple(self._seen.times_s[index])
        if curve is None:
            return np.full(len(self._at), np.nan)
        level = self._weights_of(tuple(range(len(self._level)))).weights @ self._level
        own = self._weights_of(columns).weights @ (self._missed[index] - self._level)[list(columns)]
        followed: Array = curve.at(terms(self._seen.plans[index], self._cells)) * np.exp(level + own)
        return followed

    def _keep_ratios(self, times_s: Array, measured: NDArray[np.bool_]) -> None:
        """Gives plans without a curve the ratio to the fastest one with a curve that they had where both were measured.

        Without such a rival the time is that at the nearest shape.
        """
        without = np.isnan(times_s).all(axis=1)
        followed = np.flatnonzero(~without)
        for index in np.flatnonzero(without):
            own = self._seen.times_s[index]
            columns = np.array(list(own))
            nearest = columns[np.argmin(self._apart[:, columns], axis=1)]
            for s in np.unique(nearest):
                rivals = [i for i in followed if measured[i, s]]
                fastest = min(rivals, key=lambda i: self._seen.times_s[i][s]) if rivals else None
                at = nearest == s
                scale = 1.0 if fastest is None else times_s[fastest, at] / self._seen.times_s[fastest][s]
                times_s[index, at] = own[s] * scale

    def _keep_measured(self, times_s: Array) -> None:
        for cell, s in zip(*np.nonzero(self._apart < _SAME_OCTAVES), strict=True):
            for index, own in enumerate(self._seen.times_s):
                if s in own:
                    times_s[index, cell] = own[s]
