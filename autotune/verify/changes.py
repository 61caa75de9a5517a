"""What has changed since a profile was measured: pure statistics on stored and new samples.

A *subject* is what may have changed as one: the contiguous copies of a direction, by their own times, and every kind of
plan, by its times over the contiguous copy of the same round. It has a change at each shape: the new median over the
stored one, with an interval. One shape may be odd in one process, so the majority of a subject's shapes decides.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median, median_low
from typing import Final

from pega_tune.autotune.measuring.statistics import Interval, median_interval
from pega_tune.autotune.sweep.confirming import PROCESS_MARGIN

LEAST_MARGIN: Final = PROCESS_MARGIN
"""Relative change up to which nothing has."""

FAR: Final = 0.5
"""Relative change that one shape alone is believed: a cliff may move without anything else."""

Series = Sequence[float]


class State(StrEnum):
    """What is known of a subject.

    `DRIFTED`: its interval lies beyond the margin. `HOLDS`: it does not, and what is measured now is precise enough and
    within twice the margin. How precise the stored side is can no longer be changed.
    """

    HOLDS = "holds"
    DRIFTED = "drifted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Change:
    """A subject at one shape. Changes are factors: 1 is none, 1.1 a tenth slower.

    Attributes:
        stored: what was measured, the widest interval of all processes that did.
        now: what is measured now.
    """

    stored: Interval
    now: Interval

    @property
    def estimate(self) -> float:
        """The new median over the stored one."""
        return self.now.estimate / self.stored.estimate

    @property
    def low(self) -> float:
        """The least factor that the two intervals allow."""
        return self.now.low / self.stored.high

    @property
    def high(self) -> float:
        """The largest factor that the two intervals allow."""
        return self.now.high / self.stored.low

    def state(self, margin: float) -> State:
        """What this shape alone says."""
        return _state(Interval(self.estimate, self.low, self.high), self.precise(margin), margin, 2 * margin)

    def precise(self, margin: float) -> bool:
        """Whether the interval of now is narrower than the margin each way."""
        return self.now.relative_width <= 2 * margin


def change(stored: Iterable[Series], now: Series) -> Change | None:
    """From positive samples: one series per process that measured before, and the one of now.

    None if there are too few samples on a side.
    """
    known = [interval for series in stored if (interval := median_interval(series)) is not None]
    latest = median_interval(now)
    if not known or latest is None:
        return None
    hull = Interval(median(i.estimate for i in known), min(i.low for i in known), max(i.high for i in known))
    return Change(hull, latest)


def ratios(times_s: Series, ceiling_s: Series) -> tuple[float, ...]:
    """A plan's times over those of the contiguous copy, round by round, as long as the plan took part."""
    return tuple(time / ceiling for time, ceiling in zip(times_s, ceiling_s, strict=False))


def state_of(changes: Sequence[Change], margin: float) -> State:
    """What all shapes of a subject say together.

    The medians of the estimates and of the bounds are those of the subject. To hold, more than half of its shapes have
    to be precise, and no more than a third may have drifted. A single shape has to have changed by twice the margin,
    and one that is off by more than `FAR` needs no other.

    Args:
        changes: at least one.
        margin: relative change that is none, at least `LEAST_MARGIN`.
    """
    if any(one.state(FAR) is State.DRIFTED for one in changes):
        return State.DRIFTED
    least = 2 * margin if len(changes) == 1 else margin
    precise = 2 * sum(one.precise(margin) for one in changes) > len(changes)
    drifted = 3 * sum(one.state(least) is State.DRIFTED for one in changes) > len(changes)
    return _state(pooled(changes), precise and not drifted, least, 2 * margin)


def pooled(changes: Sequence[Change]) -> Interval:
    """The change of a subject over all its shapes. Of an even number of bounds the outer one of the middle counts."""
    low = median_low([one.low for one in changes])
    high = -median_low([-one.high for one in changes])
    return Interval(median(one.estimate for one in changes), low, high)


def _state(found: Interval, clear: bool, margin: float, most: float) -> State:
    if found.low > 1 + margin or found.high < 1 / (1 + margin):
        return State.DRIFTED
    return State.HOLDS if clear and 1 / (1 + most) < found.estimate < 1 + most else State.UNDECIDED
