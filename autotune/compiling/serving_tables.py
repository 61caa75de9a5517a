"""Tables for a device that decodes: those of the idle one, with what was measured beside decode, and what follows.

The cell of a shape that was measured beside decode holds what was measured. Other cells that the idle table was
measured around hold the claims of the fits, if there are any, marked as fitted; no claim, no evidence.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.compiling.burdens import Burdens, Moving, link_bytes_per_s, residences
from pega_tune.autotune.compiling.decode import Costs, DecodeFits
from pega_tune.autotune.compiling.ground import Ground
from pega_tune.autotune.compiling.idle_tables import evidence_of, simplicity
from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.compiling.rounding import rounded, rounded_up
from pega_tune.autotune.sweep.observations import hint_of
from pega_tune.autotune.sweep.plans import allowed, launched
from pega_tune.autotune.sweep.serving_policy import Survey, measured_options
from pega_tune.profiles.policy.choose import DEFAULT_BUDGET, DEFAULT_PERIOD_S, MAX_ITL_COST, Demand, choose
from pega_tune.profiles.policy.table import MAX_OPTIONS, Option, Predicted, Table
from pega_tune.profiles.policy.terms import Colocation, Objective
from pega_tune.profiles.store.records import BlockRecord

HEAVY_STALL: Final = 0.25
"""Stall in decode steps that is more than copies without a kernel cost, unless a whole transfer is one command: on an
H200 the p95 over bursts was 2 to 23 % of a step, for batched copies and for pitched ones in chunks."""

# Whatever it takes: the question is which plan is fastest.
_FASTEST = Demand(Objective.THROUGHPUT, period_s=1e9)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a plan may be chosen, and what decode suffers from there.

    Attributes:
        index: of the plan.
        cells: indices, (c,).
        burdens: in those cells.
    """

    index: int
    cells: NDArray[np.intp]
    burdens: Burdens


def places_of(ground: Ground, blocks: Sequence[BlockRecord]) -> Iterator[Place]:
    """Of each plan of which all is known that decode may suffer from, where it may be chosen.

    How long kernels are there follows from the nearest shape at which that was measured.
    """
    link = link_bytes_per_s(blocks)
    if link is None:
        return
    offered = np.isfinite(ground.offered(np.arange(len(ground.seen.plans), dtype=np.intp)))
    by_key = {block.key: residences(block) for block in blocks if block.colocation is Colocation.IDLE}
    measured = [by_key[key] for key in ground.seen.keys]
    for index, plan in enumerate(ground.seen.plans):
        cells = np.flatnonzero(offered[index])
        launches = [(s, launched(plan, ground.seen.shapes[s])) for s in ground.seen.times_s[index]]
        known = {s: measured[s][launch] for s, launch in launches if launch in measured[s]}
        if known and len(cells):
            columns = np.array(list(known))
            nearest = columns[np.argmin(ground.times.apart[np.ix_(cells, columns)], axis=1)]
            shapes = [ground.cells[cell] for cell in cells]
            times_s = ground.times.times_s[index, cells]
            moving = Moving(plan, shapes, times_s, [known[int(s)] for s in nearest], link)
            yield Place(index, cells, Burdens.of(moving))


def claims(ground: Ground, fits: DecodeFits, places: Iterable[Place]) -> Costs:
    """What the fits claim of every plan in every cell."""
    costs = Costs.unknown(len(ground.seen.plans), len(ground.cells))
    for place in places:
        at = (place.index, place.cells)
        claimed = fits.claim(ground.seen.plans[place.index], place.burdens, ground.times.times_s[at])
        if claimed is not None:
            costs.stall_s[at], costs.extra_s[at], costs.latency_s[at] = claimed
    return costs


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of one kind of transfer beside decode in one colocation.

    Attributes:
        ground: what is known without decode.
        fits: of the colocation.
        costs: what they claim.
        surveys: those of the colocation, whatever the shape.
    """

    ground: Ground
    fits: DecodeFits
    costs: Costs
    surveys: Sequence[Survey]

    @property
    def is_known(self) -> bool:
        """Whether anything is known of such transfers: ranges that lie like theirs were measured, or a fit tells."""
        measured = any(hint_of(survey.shape) is self.ground.seen.hint for survey in self.surveys)
        return measured or bool(np.isfinite(self.costs.stall_s).any())

    def table(self, idle: Table) -> Table:
        """The table in place of an idle one of the ground."""
        step_s = median(survey.step_s for survey in self.surveys)
        cells = self._fitted(idle, step_s)
        keys = [idle.sources[index] for index in idle.evidence]
        for survey in self.surveys:
            costs = tuple(cost for cost in survey.costs if allowed(idle.runtime, cost.plan))
            alike = survey.shape.direction is idle.direction and hint_of(survey.shape) is idle.hint
            if alike and costs:
                cell = idle.index(survey.shape.merged_ranges, survey.shape.average_range_bytes)
                cells[cell] = measured_options(replace(survey, costs=costs), idle.cells[cell])
                keys[cell] = survey.key
        sources, evidence = evidence_of(keys)
        where = self.fits.colocation
        return replace(idle, colocation=where, cells=tuple(cells), step_s=step_s, sources=sources, evidence=evidence)

    def _fitted(self, idle: Table, step_s: float) -> list[tuple[Option, ...]]:
        plans = self.ground.plans(idle.runtime)
        plans = plans[np.argsort(simplicity(tuple(self.ground.seen.plans[i] for i in plans)))]
        picks = self._picks(plans, self.ground.offered(plans), step_s)
        index = {plan: i for i, plan in enumerate(self.ground.seen.plans)}
        cells = []
        for cell, (shape, old) in enumerate(zip(self.ground.cells, idle.cells, strict=True)):
            taken = [int(plans[pick]) for pick in picks[:, cell] if pick >= 0]
            covered = idle.covers(shape.merged_ranges, shape.average_range_bytes)
            first = choose(old, _FASTEST, idle.margin).option
            rest = [index[option.plan] for option in (first, *old)] if taken and covered else []
            cells.append(self._options(cell, [rest[0], *taken, *rest]) if rest else old)
        return cells

    def _picks(self, plans: NDArray[np.intp], times_s: Array, step_s: float) -> NDArray[np.intp]:
        """Of each cell, what `balanced`, `tail-bounded` and `strict` take, indices into plans, -1 for none: (3, C).

        A look-up prefers a plan with a claim to one without. So where all claims are heavier than what copies without a
        kernel cost, and nothing is claimed of those, nothing is claimed at all.
        """
        stall_s, extra_s, latency_s = (
            costs[plans] for costs in (self.costs.stall_s, self.costs.extra_s, self.costs.latency_s)
        )
        known = np.isfinite(times_s) & np.isfinite(stall_s + extra_s + latency_s) & (latency_s < DEFAULT_PERIOD_S)
        cheap = known & (extra_s <= MAX_ITL_COST * DEFAULT_PERIOD_S)
        calm = known & (stall_s <= DEFAULT_BUDGET * step_s)
        alone = np.array([self.ground.seen.plans[i].resident_threads == 0 for i in plans])
        shadowed = (times_s[alone] < DEFAULT_PERIOD_S).any(axis=0) & ~known[alone].any(axis=0)
        heavy = ~(known & (stall_s <= HEAVY_STALL * step_s)).any(axis=0)
        useful = ~(heavy & shadowed)
        wanted = ((cheap, latency_s), (calm, latency_s), (known, stall_s))
        return np.stack([_least(costs, allowed_ & useful) for allowed_, costs in wanted])

    def _options(self, cell: int, wanted: Iterable[int]) -> tuple[Option, ...]:
        """The first `MAX_OPTIONS` plans that are wanted, the fastest first, each with what is claimed of it."""
        chosen = list(dict.fromkeys(wanted))[:MAX_OPTIONS]
        options = [self._option(index, cell) for index in chosen]
        return tuple(sorted(options, key=lambda option: option.predicted.time_s))

    def _option(self, index: int, cell: int) -> Option:
        plan, time_s = self.ground.seen.plans[index], rounded(self.ground.times.times_s[index, cell])
        costs = [c[index, cell] for c in (self.costs.stall_s, self.costs.extra_s, self.costs.latency_s)]
        if not np.all(np.isfinite(costs)):
            return Option(plan, Predicted(time_s))
        return Option(plan, Predicted(time_s, *map(rounded_up, costs)), fitted=True)


def _least(costs_s: Array, allowed_: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The plan of least cost in each cell, -1 where none is allowed: (C,)."""
    limited = np.where(allowed_, costs_s, np.inf)
    found: NDArray[np.intp] = np.where(allowed_.any(axis=0), np.argmin(limited, axis=0), -1)
    return found
