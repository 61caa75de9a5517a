"""What transfers cost decode in one colocation: the fits through what was measured there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from pega_tune.autotune.compiling.burdens import Burdens, Moving, link_bytes_per_s, residences
from pega_tune.autotune.compiling.ceilings import Ceiling, ceiling
from pega_tune.autotune.compiling.curves import NoFit
from pega_tune.autotune.compiling.latency import Kind, Run, Slowing, kind_of, slowings
from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.compiling.suffering import Bound, Burden, Point, bound, laws_of
from pega_tune.autotune.measuring.statistics import needed_samples
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.plans import launched
from pega_tune.autotune.sweep.serving_costs import ServingCost
from pega_tune.autotune.sweep.serving_policy import Survey
from pega_tune.kernels.plan import AnyPlan
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockRecord, FitRecord


@dataclass(frozen=True, slots=True)
class Fitted:
    """What bounds one kind of cost: a law, and a ceiling that needs none. Either may be missing.

    Attributes:
        law: through what was measured.
        ceiling: made of what was measured.
    """

    law: Bound | NoFit
    ceiling: Ceiling | NoFit

    @classmethod
    def of(cls, burden: Burden, points: Sequence[Point], colocation: Colocation) -> "Fitted":
        """From what was measured."""
        return cls(bound(burden, points), ceiling(points, colocation))

    def at(self, plan: AnyPlan, burdens: Burdens) -> Array:
        """The cost of a plan at C shapes at most, in seconds, (C,): the lower of the two bounds; NaN without any."""
        found = np.full(len(burdens.copies), np.nan)
        if not isinstance(self.law, NoFit):
            found = np.fmin(found, self.law.at(burdens))
        if not isinstance(self.ceiling, NoFit):
            found = np.fmin(found, self.ceiling.at(plan, burdens))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Costs:
    """What N plans cost decode at most in C cells, (N, C) each, in seconds; NaN where nothing is claimed."""

    stall_s: Array
    extra_s: Array
    latency_s: Array

    @classmethod
    def unknown(cls, plans: int, cells: int) -> "Costs":
        """Nothing is claimed."""
        return cls(*(np.full((plans, cells), np.nan) for _ in range(3)))


@dataclass(frozen=True, slots=True)
class DecodeFits:
    """Fits of one colocation.

    Attributes:
        colocation: where decode runs.
        stall, extra: of one burst.
        slowings: by kind of plan, what completion latencies are.
    """

    colocation: Colocation
    stall: Fitted
    extra: Fitted
    slowings: Mapping[Kind, Slowing]

    def claim(self, plan: AnyPlan, burdens: Burdens, times_s: Array) -> tuple[Array, Array, Array] | None:
        """Stall, extra time and latency at most, (C,) each; None if nothing is claimed of such plans.

        Args:
            plan: which.
            burdens: of it at C shapes.
            times_s: its transfer times there without decode, (C,), in seconds.
        """
        slowing = self.slowings.get(kind_of(plan))
        if slowing is None:
            return None
        return self.stall.at(plan, burdens), self.extra.at(plan, burdens), slowing.at(times_s)

    def records(self, direction: str) -> Iterator[FitRecord]:
        """What is stored of the fits."""
        names = zip(("stall", "extra time"), laws_of(self.colocation), (self.stall, self.extra), strict=True)
        for name, burden, found in names:
            words = (name, direction, self.colocation, burden.law.formula)
            if isinstance(found.law, NoFit):
                yield FitRecord(*words, reason=found.law.reason)
            else:
                values = dict(zip(burden.law.parameters, map(float, found.law.coefficients), strict=True))
                yield FitRecord(*words, parameters=values | {"miss": found.law.miss}, residual=found.law.residual)


def fit_decode(surveys: Sequence[Survey], blocks: Sequence[BlockRecord]) -> DecodeFits:
    """Fits what the surveys of one colocation say, each plan of each survey being one point.

    Args:
        surveys: at least one.
        blocks: all; those without decode tell what the plans do alone.
    """
    seen = [each for survey in surveys for each in described(survey, blocks)]
    runs = [run for survey in surveys for run in _runs(survey, _alone(survey, blocks))]
    where = surveys[0].colocation
    stall, extra = laws_of(where)
    stalls = [_point(cost, burdens, _stall_s(cost)) for cost, burdens in seen]
    extras = [_point(cost, burdens, _extra_s(cost)) for cost, burdens in seen]
    return DecodeFits(where, Fitted.of(stall, stalls, where), Fitted.of(extra, extras, where), slowings(runs))


def described(survey: Survey, blocks: Sequence[BlockRecord]) -> Iterator[tuple[ServingCost, Burdens]]:
    """The plans of a survey of which it is known what they put on the device, each with what it cost.

    Args:
        survey: whose.
        blocks: all, as for `fit_decode`.
    """
    idle, link = _alone(survey, blocks), link_bytes_per_s(blocks)
    if idle is None or link is None:
        return
    known, times = residences(idle), _times_s(idle)
    for cost in survey.costs:
        plan = launched(cost.plan, survey.shape)
        if plan in known:
            moving = Moving(cost.plan, (survey.shape,), np.array([times[plan]]), (known[plan],), link)
            yield cost, Burdens.of(moving)


def _alone(survey: Survey, blocks: Sequence[BlockRecord]) -> BlockRecord | None:
    """The block of the same shape without decode."""
    return next((b for b in blocks if b.colocation is Colocation.IDLE and b.shape == survey.shape), None)


def _runs(survey: Survey, idle: BlockRecord | None) -> Iterator[Run]:
    times = {} if idle is None else _times_s(idle)
    for cost in survey.costs:
        alone_s = times.get(launched(cost.plan, survey.shape))
        if alone_s is not None:
            for summary in cost.summaries:
                yield Run(cost.plan, alone_s, summary.completion.p99_s.value)


def _times_s(idle: BlockRecord) -> dict[AnyPlan, float]:
    return {launched(c.plan, idle.shape): median(transfer_samples(c)) for c in idle.cells if usable(c)}


def _point(cost: ServingCost, burdens: Burdens, cost_s: float) -> Point:
    return Point(cost.plan, burdens, cost_s, _bursts(cost), len(cost.summaries))


def _bursts(cost: ServingCost) -> int:
    return sum(summary.bursts for summary in cost.summaries)


def _extra_s(cost: ServingCost) -> float:
    return cost.option.predicted.extra_s or 0.0


def _stall_s(cost: ServingCost) -> float:
    """The p95 of the worst process; the largest stall of all where the bursts are too few to bound a p95."""
    stall_s = cost.option.predicted.stall_s or 0.0
    worst_s = max(summary.stall.max_s for summary in cost.summaries)
    return stall_s if _bursts(cost) >= needed_samples(0.95) else max(stall_s, worst_s)
