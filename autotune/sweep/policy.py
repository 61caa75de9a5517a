"""Compiles measured blocks into decision tables.

A plan may be chosen in a cell only if it was measured at the measured shape nearest to the cell: there its rivals were
measured in the same block, so that no plan wins by extrapolation from shapes far away. Its time in the cell follows its
curve; without one, it keeps the ratio that it had, in that block, to the best plan that has one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pega_tune.autotune.sweep.fits import (
    MODEL,
    PARAMETERS,
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
from pega_tune.autotune.sweep.lattice import RANGES, SIZES, cell_shapes
from pega_tune.autotune.sweep.observations import Observations, observe
from pega_tune.autotune.sweep.pareto import Offer, pareto
from pega_tune.autotune.sweep.plans import allowed, resident_threads
from pega_tune.autotune.sweep.serving_policy import serving_tables, surveys
from pega_tune.profiles.policy.table import CompiledPolicy, Option, Predicted, Table
from pega_tune.profiles.policy.terms import Runtime
from pega_tune.profiles.store.records import BlockRecord, FitRecord


@dataclass(frozen=True, slots=True)
class Learnt:
    """What blocks have taught.

    Attributes:
        policy: the tables; none if no plan could be measured.
        fits: for each plan and direction, its curve or why there is none.
    """

    policy: CompiledPolicy
    fits: tuple[FitRecord, ...]


def compile_policy(blocks: Iterable[BlockRecord]) -> Learnt:
    """Tables for every direction, colocation and runtime of which a plan was measured, and the curves behind them."""
    tables: list[Table] = []
    fits: list[FitRecord] = []
    blocks = tuple(blocks)
    for seen in observe(blocks):
        compiler = _Compiler(seen)
        fits += compiler.fit_records()
        tables += (table for runtime in Runtime if (table := compiler.table(runtime)))
    tables += serving_tables(tuple(tables), surveys(blocks))
    return Learnt(CompiledPolicy(tuple(tables)), tuple(fits))


class _Compiler:
    """Tables of one direction and colocation. S measured shapes, N plans, C cells."""

    def __init__(self, seen: Observations) -> None:
        self._seen = seen
        self._cells = cell_shapes(seen.direction)
        self._distances = distances(coordinates(self._cells), coordinates(seen.shapes))
        self._measured = np.array([[s in times for s in range(len(seen.shapes))] for times in seen.times_s])  # (N, S)
        self._curves = [self._fit(index) for index in range(len(seen.plans))]
        self._fitted_s = self._predict()  # (N, C), NaN without a curve

    def fit_records(self) -> Iterator[FitRecord]:
        """A record per plan."""
        for plan, curve in zip(self._seen.plans, self._curves, strict=True):
            words = (plan.key, str(self._seen.direction), self._seen.colocation, MODEL)
            if isinstance(curve, NoFit):
                yield FitRecord(*words, reason=curve.reason)
            else:
                values = zip(PARAMETERS, map(float, curve.coefficients), strict=False)
                yield FitRecord(*words, parameters=dict(values), residual=curve.residual)

    def table(self, runtime: Runtime) -> Table | None:
        """The table of a runtime; None if nothing that it can run was measured."""
        plans = [index for index, plan in enumerate(self._seen.plans) if allowed(runtime, plan)]
        columns = [s for s in range(len(self._seen.shapes)) if any(self._measured[index, s] for index in plans)]
        if not columns:
            return None
        nearest = np.array(columns)[np.argmin(self._distances[:, columns], axis=1)]
        options = (self._options(cell, int(s), plans) for cell, s in enumerate(nearest))
        ranges = [self._seen.shapes[s].merged_ranges for s in columns]
        sizes = [self._seen.shapes[s].average_range_bytes for s in columns]
        totals = [n * size for n, size in zip(ranges, sizes, strict=True)]
        return Table(
            direction=self._seen.direction,
            colocation=self._seen.colocation,
            runtime=runtime,
            range_edges=RANGES.edges,
            size_edges=SIZES.edges,
            cells=tuple(options),
            measured_ranges=(min(ranges), max(ranges)),
            measured_sizes=(min(sizes), max(sizes)),
            measured_bytes=(min(totals), max(totals)),
            margin=self._seen.margin,
        )

    def _fit(self, index: int) -> Curve | NoFit:
        times = self._seen.times_s[index]
        shapes = [self._seen.shapes[s] for s in times]
        return fit(features_of(self._seen.plans[index], shapes), np.array(list(times.values())))

    def _predict(self) -> Array:
        predicted = np.full((len(self._curves), len(self._cells)), np.nan)
        weights = point_weights(self._distances)
        for index, curve in enumerate(self._curves):
            if isinstance(curve, Curve):
                features = features_of(self._seen.plans[index], self._cells)
                predicted[index] = predict(curve, features, weights[:, list(self._seen.times_s[index])])
        return predicted

    def _options(self, cell: int, nearest: int, plans: list[int]) -> tuple[Option, ...]:
        offers = [
            Offer(self._seen.plans[i], time_s, resident_threads(self._seen.plans[i], self._cells[cell]))
            for i in plans
            if self._measured[i, nearest]
            for time_s in [self._time_s(i, cell, nearest)]
        ]
        return tuple(Option(o.plan, Predicted(o.time_s)) for o in pareto(offers, self._seen.margin))

    def _time_s(self, index: int, cell: int, nearest: int) -> float:
        """The plan's time in the cell, from its curve or from its ratio to the best plan with one."""
        fitted_s = float(self._fitted_s[index, cell])
        if not np.isnan(fitted_s):
            return fitted_s
        times = self._seen.times_s
        with_curve = [i for i in np.flatnonzero(self._measured[:, nearest]) if isinstance(self._curves[i], Curve)]
        if not with_curve:
            return times[index][nearest]
        reference = min(with_curve, key=lambda i: times[i][nearest])
        return times[index][nearest] / times[reference][nearest] * float(self._fitted_s[reference, cell])
