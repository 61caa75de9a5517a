"""Decode steps by the burst that they run beside. In shapes: n steps, b bursts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.serving import Seconds, Segment

Indices: TypeAlias = NDArray[np.int64]

_ROUNDING_S = 1e-9  # of times that have been added up; no step is so short


@dataclass(frozen=True, slots=True, eq=False)
class BurstSteps:
    """The steps of whole burst periods, each of which reaches from one burst's submission to the next one's.

    A step belongs to the period in which it ends, so to one burst only, however many it overlaps: it is *disturbed* if
    it began before that burst had completed, and undisturbed otherwise.

    Attributes:
        steps_s: (n,) durations.
        phase_s: (n,) from the submission of its burst to the end of each step.
        burst: (n,) index of the burst, ascending; a burst may have no step.
        completion_s: (b,) from submission to completion seen.
        period_s: (b,) from submission to the next submission.
    """

    steps_s: Seconds
    phase_s: Seconds
    burst: Indices
    completion_s: Seconds
    period_s: Seconds

    @property
    def bursts(self) -> int:
        """How many bursts."""
        return len(self.completion_s)

    @property
    def begin_s(self) -> Seconds:
        """(b,) when each burst is submitted, if the periods are laid end to end from 0."""
        return np.cumsum(self.period_s) - self.period_s

    @property
    def end_s(self) -> Seconds:
        """(n,) when each step ends, if the periods are laid end to end from 0."""
        return self.begin_s[self.burst] + self.phase_s

    @property
    def disturbed(self) -> NDArray[np.bool_]:
        """(n,) whether each step overlaps its burst."""
        return self.phase_s - self.steps_s < self.completion_s[self.burst]


def observe(segment: Segment) -> BurstSteps:
    """Sorts the steps of a segment into burst periods.

    The last period ends a period after the last burst was due, or with that burst if that is later. A period that
    the steps do not cover from end to end is left out with its burst: what is left of it is not a fair share of
    disturbed and undisturbed steps.
    """
    submitted, completed, ends = segment.submitted, segment.completed, segment.step_ends
    if not len(submitted) or len(ends) < 2:
        return pooled(())
    over = np.append(submitted[1:], max(segment.due[-1] + segment.period_s, completed[-1]))
    whole = np.flatnonzero((submitted >= ends[0]) & (over <= ends[-1]))
    if not len(whole):
        return pooled(())
    first, last = whole[0], whole[-1]
    burst = np.searchsorted(submitted, ends[1:], side="left") - 1  # the last one submitted before the step ended
    kept = (burst >= first) & (burst <= last) & (ends[1:] <= over[last])
    burst = burst[kept]
    return BurstSteps(
        steps_s=segment.steps_s[kept],
        phase_s=ends[1:][kept] - submitted[burst],
        burst=burst - first,
        completion_s=(completed - submitted)[whole],
        period_s=(over - submitted)[whole],
    )


def pooled(parts: Iterable[BurstSteps]) -> BurstSteps:
    """Several segments as one, their bursts numbered on."""
    steps, phases, bursts, completions, periods = [_NONE], [_NONE], [_NO_INDEX], [_NONE], [_NONE]
    count = 0
    for part in parts:
        steps.append(part.steps_s)
        phases.append(part.phase_s)
        bursts.append(part.burst + count)
        completions.append(part.completion_s)
        periods.append(part.period_s)
        count += part.bursts
    steps_s, phase_s, completion_s, period_s = map(np.concatenate, (steps, phases, completions, periods))
    return BurstSteps(steps_s, phase_s, np.concatenate(bursts), completion_s, period_s)


def restored(steps_s: Seconds, end_s: Seconds, completion_s: Seconds, period_s: Seconds) -> BurstSteps:
    """Inverse of what is stored: the attributes of `BurstSteps`, and its `end_s`."""
    begin_s = np.cumsum(period_s) - period_s
    burst = np.searchsorted(begin_s + _ROUNDING_S, end_s, side="left") - 1
    return BurstSteps(steps_s, end_s - begin_s[burst], burst, completion_s, period_s)


def missed_s(segment: Segment) -> Seconds:
    """(m,) for each deadline of a segment at which no burst could be submitted, seconds until one was.

    These are the bursts submitted late by more than `Segment.tolerance_s`, and the due times that were passed over. Of
    the latter a segment does not tell the jitter: they are taken to be whole periods before the next one that was kept,
    so their seconds are right up to one decode step; their number is exact.
    """
    if not len(segment.due):
        return _NONE
    late = segment.submitted - segment.due
    gaps = np.rint(np.diff(segment.due) / segment.period_s).astype(np.int64) - 1
    following = np.repeat(np.arange(1, len(segment.due)), gaps)
    # The passed deadlines before a burst, the latest of them one period before it was due.
    back = np.concatenate([np.arange(gap, 0, -1) for gap in gaps if gap > 0] or [_NO_INDEX])
    passed = segment.submitted[following] - segment.due[following] + back * segment.period_s
    return np.concatenate([late[late > segment.tolerance_s], passed])


_NONE: Seconds = np.empty(0, np.float64)
_NO_INDEX: Indices = np.empty(0, np.int64)
