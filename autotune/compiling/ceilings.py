"""What a transfer costs decode at most, without a law: no more than those that put at least as much on the device.

That holds whatever the costs depend on, as long as more of it never costs less. It says nothing of a transfer that no
measured one surpasses in all of its loads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.compiling.burdens import Burdens
from pega_tune.autotune.compiling.curves import NoFit
from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.compiling.suffering import GRAIN_S, MAX_MISS, Point
from pega_tune.kernels.plan import AnyPlan
from pega_tune.profiles.policy.terms import Colocation

LEAST_POINTS: Final = 8
"""With fewer, leaving one out tells too little of how far another may be off."""

LEAST_BURSTS: Final = 24
"""Fewer bursts may all have been lucky: the largest of so many is above the p90 in 92 % of all cases."""

ENOUGH_BURSTS: Final = ceil(log(0.05) / log(0.95))
"""The largest of so many is above the p95 in 95 % of all cases."""

ENOUGH_PROCESSES: Final = 2
"""All bursts of one process may have been lucky: what a copy of decode waits for differs from process to process."""

MOST_TIMES: Final = 3
"""How often one after the other a transfer stands for a larger one: two halves cost no more than each by itself."""

SHORT_WAIT_S: Final = 1e-5
"""Shorter waits are all alike: a fraction of a hundredth of a decode step, and less than a command costs by itself."""

NOISE_S: Final = 2e-5
"""Smaller costs are all alike: half a percent of a decode step, which steps differ by without a transfer."""

_SAME: Final = 1e-9

# Columns of `loads_of`.
_KERNEL: Final = slice(0, 2)
_ENGINE: Final = slice(-2, None)


@dataclass(frozen=True, slots=True, eq=False)
class Ceiling:
    """P measured transfers, the least cost first.

    Attributes:
        plans: which.
        loads: what each put on the device, once, twice and so on, as `loads_of`, (T, P, L).
        costs_s: what each cost, (P,), in seconds.
        bursts, processes: in how many that was seen, (P,) each.
        miss: cost over what the other plans say of it, at most; at least 1.
        colocation: where decode ran.
    """

    plans: tuple[AnyPlan, ...]
    loads: Array
    costs_s: Array
    bursts: Array
    processes: Array
    miss: float
    colocation: Colocation

    def at(self, plan: AnyPlan, burdens: Burdens) -> Array:
        """What C transfers of a plan cost at most, in seconds, (C,); NaN where too few put as much on the device."""
        least: Array = self.least(plan, loads_of(burdens, self.colocation)) * self.miss
        return least

    def least(self, plan: AnyPlan, loads: Array) -> Array:
        """The same of C loads, without the miss: (C,). It is the lowest one of three claims.

        1. Of the transfers that put as much on the device, the cheapest count, until they have had bursts enough, one
           of them in processes enough: who is the cheapest of many may have been lucky. Where all together have had
           fewer, all count.
        2. Likewise with those that put as much on the device only when they are there several times. They cost so many
           times as much, and are seen in so many times fewer bursts.
        3. Of the same plan no choice among many is made: as where it was measured, the least bursts will do.

        Nothing is known of what exceeds all that was measured in one of its loads.
        """
        surpassed = np.all(self.loads[None] >= loads[:, None, None, :] * (1 - _SAME), axis=3)
        inside = np.all(loads * (1 - _SAME) <= self.loads[0].max(axis=0), axis=1)
        once, times = surpassed[:, 0], np.argmax(surpassed, axis=1) + 1
        costs_s, bursts = self.costs_s * times, self.bursts / times * self._meetings(loads, times)
        own = once & np.array([other == plan for other in self.plans])
        kinds = ((once, ENOUGH_BURSTS), (surpassed.any(axis=1), ENOUGH_BURSTS), (own, LEAST_BURSTS))
        claims = [self._cheapest(known, costs_s, np.where(known, bursts, 0.0), needed) for known, needed in kinds]
        least: Array = np.where(inside, np.fmin.reduce(claims), np.nan)
        return least

    def _cheapest(self, known: NDArray[np.bool_], costs_s: Array, bursts: Array, needed: int) -> Array:
        """What the cheapest of the known transfers cost that have had the bursts needed, (C,); arrays are (C, P)."""
        limited = np.where(known, costs_s, np.inf)
        order = np.argsort(limited, axis=1, kind="stable")
        seen = np.cumsum(np.take_along_axis(bursts, order, axis=1), axis=1)
        processes = np.take_along_axis(np.where(known, self.processes, 0.0), order, axis=1)
        most = np.maximum.accumulate(processes, axis=1)
        every = seen[:, -1:]
        enough = (seen >= np.minimum(every, needed)) & (most >= np.minimum(most[:, -1:], ENOUGH_PROCESSES))
        last = np.take_along_axis(order, np.argmax(enough, axis=1)[:, None], axis=1)
        cheapest: Array = np.where(every >= LEAST_BURSTS, np.take_along_axis(limited, last, axis=1), np.nan)[:, 0]
        return cheapest

    def _meetings(self, loads: Array, times: NDArray[np.intp]) -> Array:
        """How many bursts of C transfers each burst of P measured ones, which put as much on the device, is: (C, P).

        Without a kernel, decode loses time only if a copy of its own comes while those of the burst are under way. One
        that is at it twice as long, with twice the bytes, has met decode twice as often. Every burst meets a kernel.
        """
        seen: Array = self.loads[times - 1, np.arange(self.loads.shape[1]), _ENGINE]
        wanted = loads[:, None, _ENGINE]
        ratios = np.divide(seen, wanted, out=np.ones_like(seen), where=wanted > 0)
        kernels = loads[:, None, _KERNEL].any(axis=2)
        meetings: Array = np.where(~kernels, np.maximum(ratios.min(axis=2), 1.0), 1.0)
        return meetings


def loads_of(burdens: Burdens, colocation: Colocation) -> Array:
    """What C transfers put on the device, (C, L): more of any of it never costs decode less.

    Processes that take turns lose what one kernel lasts; side by side, what all of them last. A copy of decode waits
    for what was enqueued before it, whoever enqueued that.
    """
    turns = colocation is Colocation.TIME_SLICED
    spans_s = burdens.span_s / np.maximum(burdens.launches, 1) if turns else burdens.span_s
    widths = burdens.sm_s / np.maximum(burdens.span_s, GRAIN_S)
    kernels = (burdens.copies, burdens.gathers, burdens.launches, spans_s, widths)
    waits_s = [np.maximum(wait_s, SHORT_WAIT_S) for wait_s in (burdens.command_s, burdens.backlog_s)]
    return np.stack([*kernels, *waits_s, burdens.engine_s, burdens.moving_s], axis=1)


def ceiling(points: Sequence[Point], colocation: Colocation) -> Ceiling | NoFit:
    """The ceiling that the points make.

    How far each plan exceeds what the others say of it, where they say anything, is how far another one may.
    """
    if len(points) < LEAST_POINTS:
        return NoFit(f"it needs at least {LEAST_POINTS} plans beside decode and has {len(points)}")
    made = _made(points, colocation, 1.0)
    if not (np.all(np.isfinite(made.loads)) and np.all(np.isfinite(made.costs_s))):
        return NoFit("some costs are no numbers")
    miss = max(_left_out(points, colocation), default=1.0)
    if miss > MAX_MISS:
        return NoFit(f"a plan costs {miss:.1f} times as much as one that puts more on the device")
    return _made(points, colocation, max(1.0, miss))


def _made(points: Sequence[Point], colocation: Colocation, miss: float) -> Ceiling:
    ordered = sorted(points, key=lambda point: point.cost_s)
    return Ceiling(
        plans=tuple(point.plan for point in ordered),
        loads=np.stack([_loads(ordered, colocation, times) for times in range(1, MOST_TIMES + 1)]),
        costs_s=np.maximum([point.cost_s for point in ordered], NOISE_S),
        bursts=np.array([point.bursts for point in ordered], dtype=np.float64),
        processes=np.array([point.processes for point in ordered], dtype=np.float64),
        miss=miss,
        colocation=colocation,
    )


def _loads(points: Sequence[Point], colocation: Colocation, times: int = 1) -> Array:
    return np.concatenate([loads_of(point.burdens.repeated(times), colocation) for point in points])


def _left_out(points: Sequence[Point], colocation: Colocation) -> Iterator[float]:
    """Of what is left out, cost over what is left says of it, where that says anything; first with nothing left out.

    A plan is left out with all its measurements, since others will be like none of those measured, and each measurement
    by itself, since the same plan does not cost the same twice. What is heavier than all others in one of its loads is
    said nothing of without itself, and yet no less must be claimed of it than it has cost.
    """
    plans = dict.fromkeys(point.plan for point in points)
    by_plan = [{i for i, point in enumerate(points) if point.plan == plan} for plan in plans]
    whole = _made(points, colocation, 1.0)
    for point in points:
        yield from _missed(whole, [point], colocation)
    for left in (*by_plan, *({i} for i in range(len(points)))):
        others = [point for i, point in enumerate(points) if i not in left]
        missing = [points[i] for i in left]
        if others:
            yield from _missed(_made(others, colocation, 1.0), missing, colocation)


def _missed(made: Ceiling, points: Sequence[Point], colocation: Colocation) -> Iterator[float]:
    """Costs of the points of one plan over what is said of them, where anything is."""
    least = made.least(points[0].plan, _loads(points, colocation))
    ratios = np.maximum([point.cost_s for point in points], NOISE_S) / least
    yield from map(float, ratios[np.isfinite(ratios)])
