"""What a transfer costs decode at most, without a law: no more than those that put at least as much on the device.

That holds whatever the costs depend on, as long as more of it never costs less. It says nothing of a transfer that no
measured one surpasses in all of its loads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Final

import numpy as np

from pega_tune.autotune.compiling.burdens import Burdens
from pega_tune.autotune.compiling.curves import NoFit
from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.compiling.suffering import GRAIN_S, MAX_MISS, Point
from pega_tune.profiles.policy.terms import Colocation

LEAST_POINTS: Final = 8
"""With fewer, leaving one out tells too little of how far another may be off."""

LEAST_BURSTS: Final = 24
"""Fewer bursts may all have been lucky: the largest of so many is above the p90 in 92 % of all cases."""

ENOUGH_BURSTS: Final = ceil(log(0.05) / log(0.95))
"""The largest of so many is above the p95 in 95 % of all cases."""

ENOUGH_PROCESSES: Final = 2
"""All bursts of one process may have been lucky: what a copy of decode waits for differs from process to process."""

SHORT_QUEUE_S: Final = 1e-5
"""Shorter queues are all alike: a fraction of a hundredth of a decode step, and less than a command costs by itself."""

_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Ceiling:
    """P measured transfers, the least cost first.

    Attributes:
        loads: what each put on the device, as `loads_of`, (P, L).
        costs_s: what each cost, (P,), in seconds.
        bursts, processes: in how many that was seen, (P,) each.
        miss: cost over what the other plans say of it, at most; at least 1.
        colocation: where decode ran.
    """

    loads: Array
    costs_s: Array
    bursts: Array
    processes: Array
    miss: float
    colocation: Colocation

    def at(self, burdens: Burdens) -> Array:
        """What C transfers cost at most, in seconds, (C,); NaN where too few put as much on the device."""
        least: Array = self.least(loads_of(burdens, self.colocation)) * self.miss
        return least

    def least(self, loads: Array) -> Array:
        """The same of C loads, without the miss: (C,).

        Of the transfers that put as much on the device, the cheapest count, until they have had bursts enough, one of
        them in processes enough. Where all together have had fewer, all count.
        """
        surpassed = np.all(self.loads[None, :, :] >= loads[:, None, :] * (1 - _SAME), axis=2)
        seen = np.cumsum(np.where(surpassed, self.bursts, 0), axis=1)
        every = seen[:, -1:]
        most = np.maximum.accumulate(np.where(surpassed, self.processes, 0), axis=1)
        enough = (seen >= np.minimum(every, ENOUGH_BURSTS)) & (most >= np.minimum(most[:, -1:], ENOUGH_PROCESSES))
        last = np.argmax(enough, axis=1)
        least: Array = np.where(every[:, 0] >= LEAST_BURSTS, self.costs_s[last], np.nan)
        return least


def loads_of(burdens: Burdens, colocation: Colocation) -> Array:
    """What C transfers put on the device, (C, L): more of any of it never costs decode less.

    Processes that take turns lose what one kernel lasts; side by side, what all of them last. A copy of another process
    waits until a copy engine has nothing left, one of the same context for a command.
    """
    turns, apart = colocation is Colocation.TIME_SLICED, colocation is not Colocation.SAME_CONTEXT
    spans_s = burdens.span_s / np.maximum(burdens.launches, 1) if turns else burdens.span_s
    widths = burdens.sm_s / np.maximum(burdens.span_s, GRAIN_S)
    kernels = (burdens.copies, burdens.gathers, burdens.launches, spans_s, widths)
    waits = [burdens.queue_s, burdens.backlog_s] if apart else [burdens.queue_s]
    waits_s = [np.maximum(wait_s, SHORT_QUEUE_S) for wait_s in waits]
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
        loads=np.concatenate([loads_of(point.burdens, colocation) for point in ordered]),
        costs_s=np.maximum([point.cost_s for point in ordered], GRAIN_S),
        bursts=np.array([point.bursts for point in ordered], dtype=np.float64),
        processes=np.array([point.processes for point in ordered], dtype=np.float64),
        miss=miss,
        colocation=colocation,
    )


def _left_out(points: Sequence[Point], colocation: Colocation) -> Iterator[float]:
    """Of each measurement, cost over what the measurements of other plans say of it, where they say anything."""
    for plan in dict.fromkeys(point.plan for point in points):
        others = [point for point in points if point.plan != plan]
        left = [point for point in points if point.plan == plan]
        if others:
            loads = np.concatenate([loads_of(point.burdens, colocation) for point in left])
            least = _made(others, colocation, 1.0).least(loads)
            ratios = np.maximum([point.cost_s for point in left], GRAIN_S) / least
            yield from map(float, ratios[np.isfinite(ratios)])
