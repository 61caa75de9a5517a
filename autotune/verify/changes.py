"""What has changed since a profile was measured: pure statistics on stored and new samples.

A *subject* is what may have changed as one: the contiguous copies of a direction, by their own times, and every kind of
plan, by its times over the contiguous copy of the same round. It has a change at each shape: the new median over the
stored one. One shape may be odd in one process, so the median over a subject's shapes is what counts, and how far that
may be off where nothing has changed follows from what processes differ by.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, log, log1p, pi, sqrt
from statistics import fmean, median
from typing import Final

from pega_tune.autotune.measuring.statistics import Interval, median_interval
from pega_tune.autotune.sweep.confirming import PROCESS_MARGIN

LEAST_MARGIN: Final = PROCESS_MARGIN
"""Relative change up to which nothing has."""

SOUGHT: Final = 0.15
"""Relative change that must not be missed."""

FAR: Final = 0.5
"""Relative change that one shape alone is believed: a cliff may move without anything else."""

# Standard errors. Some ten subjects are judged at once, and 3 are passed by chance, at either end, by 0.3 % of each.
_BEYOND_DOUBT: Final = 3.0
# What is missed where it is said to hold: one in 20, at one end.
_SURE: Final = 1.645
_INTERVAL: Final = 1.96  # 95 %

_ONE_SIGMA: Final = 0.683

# What the variance of a median is to that of a mean, of a normal distribution.
_MEDIAN_VARIANCE: Final = pi / 2

Series = Sequence[float]


@dataclass(frozen=True, slots=True)
class Spread:
    """By what one process differs from the next one on an unchanged device: standard deviations of logarithms.

    Attributes:
        common: of a subject at all its shapes.
        single: of a shape besides.
        sought: relative change of the subject that must not be missed.
    """

    common: float
    single: float
    sought: float


# Of three sweeps of an H200 (tests/data/h200), between each two: `python -m tests.bench.canary spread`.
PLANS: Final = Spread(common=0.02, single=0.025, sought=SOUGHT)
"""Times over those of a contiguous copy."""

COPIES: Final = Spread(common=0.025, single=0.055, sought=0.25)
"""Times of contiguous copies, which have a level or two, 12 % apart. A link that is narrower doubles them."""


class State(StrEnum):
    """What is known of a subject.

    `DRIFTED`: it has changed beyond doubt, and by more than the margin. `HOLDS`: it has not, and a change that must not
    be missed would have been seen.
    """

    HOLDS = "holds"
    DRIFTED = "drifted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a subject, as a factor: 1 is none, 1.1 a tenth slower.

    Attributes:
        estimate: the new median over the stored one.
        error: standard error of its logarithm, what processes differ by included.
        sought: relative change that must not be missed.
    """

    estimate: float
    error: float
    sought: float

    @property
    def low(self) -> float:
        """The least factor, at 95 %."""
        return self.estimate * exp(-_INTERVAL * self.error)

    @property
    def high(self) -> float:
        """The largest factor, at 95 %."""
        return self.estimate * exp(_INTERVAL * self.error)

    def state(self, margin: float) -> State:
        """What it says, where a relative change up to `margin` is none."""
        size = abs(log(self.estimate))
        if size > max(log1p(margin), _BEYOND_DOUBT * self.error):
            return State.DRIFTED
        return State.HOLDS if size + _SURE * self.error < log1p(max(self.sought, margin)) else State.UNDECIDED

    def is_far(self) -> bool:
        """Whether it is beyond doubt more than `FAR`."""
        return abs(log(self.estimate)) > log1p(FAR) + _BEYOND_DOUBT * self.error


@dataclass(frozen=True, slots=True)
class ShapeChange:
    """A subject at one shape.

    Attributes:
        stored: what was measured, over all processes that did.
        now: what is measured now, likewise.
        noise: variance of the logarithm of the change that comes from what differs from sample to sample.
        processes: 1 / the number of processes that measured before + 1 / that of those now: so many times the variance
            between processes is in the logarithm of the change.
        spread: what processes differ by.
    """

    stored: Interval
    now: Interval
    noise: float
    processes: float
    spread: Spread

    @property
    def alone(self) -> Change:
        """What this shape alone tells of the subject."""
        return pooled([self])

    @property
    def is_noisy(self) -> bool:
        """Whether more samples of the same processes would tell more."""
        return self.noise > self.processes * self.spread.single**2

    @property
    def variance(self) -> float:
        """Of the logarithm of the change, but for what all shapes of the subject have in common."""
        return self.noise + self.processes * self.spread.single**2


def change(stored: Iterable[Series], now: Iterable[Series], spread: Spread) -> ShapeChange | None:
    """From positive samples: one series per process that measured before, and one per process of now.

    None if there are too few samples on a side.
    """
    then, latest = _sided(stored), _sided(now)
    if then is None or latest is None:
        return None
    return ShapeChange(
        then.interval, latest.interval, then.noise + latest.noise, 1 / then.processes + 1 / latest.processes, spread
    )


def ratios(times_s: Series, ceiling_s: Series) -> tuple[float, ...]:
    """A plan's times over those of the contiguous copy, round by round, as long as the plan took part."""
    return tuple(time / ceiling for time, ceiling in zip(times_s, ceiling_s, strict=False))


def pooled(changes: Sequence[ShapeChange]) -> Change:
    """The change of a subject over all its shapes: their median, so that a few odd ones tell nothing.

    Args:
        changes: at least one, all with the same spread.
    """
    spread = changes[0].spread
    single = fmean(one.variance for one in changes) / len(changes)
    common = fmean(one.processes for one in changes) * spread.common**2
    # Of one or two values the median is the mean.
    error = sqrt(common + single * (_MEDIAN_VARIANCE if len(changes) > 2 else 1))
    # A single shape may be odd in one process, and could never be said to hold.
    sought = spread.sought if len(changes) > 1 else 2 * spread.sought
    return Change(exp(median(log(one.now.estimate / one.stored.estimate) for one in changes)), error, sought)


def state_of(changes: Sequence[ShapeChange], margin: float) -> State:
    """What all shapes of a subject say together: their pooled change, or a single one that is off by more than `FAR`.

    It holds only if no more than a third of the shapes have drifted by themselves.

    Args:
        changes: at least one.
        margin: relative change that is none, at least `LEAST_MARGIN`.
    """
    if any(one.alone.is_far() for one in changes):
        return State.DRIFTED
    state = pooled(changes).state(margin)
    odd = sum(one.alone.state(margin) is State.DRIFTED for one in changes)
    return State.UNDECIDED if state is State.HOLDS and 3 * odd > len(changes) else state


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a change: the geometric mean of the medians of all processes, and the variance of its logarithm."""

    interval: Interval
    noise: float
    processes: int


def _sided(series: Iterable[Series]) -> _Side | None:
    known = [(found, samples) for samples in series if (found := median_interval(samples)) is not None]
    if not known:
        return None
    intervals = [interval for interval, _ in known]
    centre = exp(fmean(log(interval.estimate) for interval in intervals))
    hull = Interval(centre, min(i.low for i in intervals), max(i.high for i in intervals))
    return _Side(hull, sum(_noise(samples) for _, samples in known) / len(known) ** 2, len(known))


def _noise(samples: Series) -> float:
    """Variance of the logarithm of the median, whatever the distribution: half its interval of one sigma, squared."""
    found = median_interval(samples, _ONE_SIGMA)
    assert found is not None
    return (log(found.high / found.low) / 2) ** 2
