"""Tables for a device that does nothing but transfer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.compiling.ground import Ground
from pega_tune.autotune.compiling.laws import Array, Shapes
from pega_tune.autotune.compiling.pareto import Offers, pareto
from pega_tune.autotune.compiling.rounding import rounded
from pega_tune.autotune.compiling.ties import leaders
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.kernels.plan import AnyPlan
from pega_tune.profiles.policy.choose import BY_SIMPLICITY
from pega_tune.profiles.policy.table import Option, Predicted, Table
from pega_tune.profiles.policy.terms import Colocation, Hint, Runtime


def idle_tables(ground: Ground) -> Iterator[Table]:
    """A table per runtime that can run a plan that was measured; with a hint, for the runtime that runs them all."""
    for runtime in Runtime if ground.seen.hint is Hint.NONE else (Runtime.FULL,):
        plans = ground.plans(runtime)
        if len(plans):
            yield _table(ground, runtime, plans)


def simplicity(plans: tuple[AnyPlan, ...]) -> NDArray[np.int64]:
    """Places of plans in the order in which a look-up breaks ties, (N,): fewest threads, simplest backend, key."""

    def burden(index: int) -> tuple[int, int, str]:
        plan = plans[index]
        return plan.resident_threads, _backend(plans[index]), plan.key

    ranks = np.empty(len(plans), dtype=np.int64)
    ranks[sorted(range(len(plans)), key=burden)] = np.arange(len(plans))
    return ranks


def evidence_of(keys: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Sources and evidence of a table, from the key of the block that each cell rests on."""
    places = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    return tuple(places), tuple(places[key] for key in keys)


def _backend(plan: AnyPlan) -> int:
    return max(BY_SIMPLICITY.index(leg.backend) for leg in legs_of(plan))


def _table(ground: Ground, runtime: Runtime, plans: NDArray[np.intp]) -> Table:
    seen = ground.seen
    named = tuple(seen.plans[i] for i in plans)
    times_s, weights = ground.offered(plans), _Weights.of(named, Shapes.of(ground.cells))
    led = leaders(times_s, weights.ranks, seen.margin, len(ground.grid.size_edges))
    sources, evidence = evidence_of([seen.keys[s] for s in ground.nearest(plans)])
    measured = [seen.shapes[s] for s in np.flatnonzero(ground.times.measured[plans].any(axis=0))]
    ranges = [shape.merged_ranges for shape in measured]
    sizes = [shape.average_range_bytes for shape in measured]
    totals = [n * size for n, size in zip(ranges, sizes, strict=True)]
    return Table(
        direction=seen.direction,
        colocation=Colocation.IDLE,
        runtime=runtime,
        range_edges=ground.grid.range_edges,
        size_edges=ground.grid.size_edges,
        cells=tuple(_Cells(named, times_s, weights, seen.margin).options(led)),
        measured_ranges=(min(ranges), max(ranges)),
        measured_sizes=(min(sizes), max(sizes)),
        measured_bytes=(min(totals), max(totals)),
        margin=seen.margin,
        hint=seen.hint,
        sources=sources,
        evidence=evidence,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Weights:
    """How heavy P plans are in C cells: threads (P, C), backends and ranks (P,), as in `Offers`."""

    threads: NDArray[np.int64]
    backends: NDArray[np.int64]
    ranks: NDArray[np.int64]

    @classmethod
    def of(cls, plans: tuple[AnyPlan, ...], cells: Shapes) -> "_Weights":
        threads = np.stack([cells.resident_threads(plan) for plan in plans])
        return cls(threads.astype(np.int64), np.array([_backend(plan) for plan in plans]), simplicity(plans))


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    plans: tuple[AnyPlan, ...]
    times_s: Array
    weights: _Weights
    margin: float

    def options(self, led: NDArray[np.intp]) -> Iterator[tuple[Option, ...]]:
        """What each cell offers, given the plan that leads there."""
        weights = self.weights
        for cell, leader in enumerate(led):
            offered = np.flatnonzero(np.isfinite(self.times_s[:, cell]))
            times_s, threads = self.times_s[offered, cell], weights.threads[offered, cell]
            offers = Offers(times_s, threads, weights.backends[offered], weights.ranks[offered])
            kept = offered[list(pareto(offers, int(np.searchsorted(offered, leader)), self.margin))]
            yield tuple(Option(self.plans[i], Predicted(rounded(self.times_s[i, cell]))) for i in kept)
