"""When bursts are due: a clock that is told the time, and how long a period has to be."""

from dataclasses import dataclass
from math import floor, inf
from random import Random
from typing import Final

from pega_tune.autotune.serving import LATENESS
from pega_tune.errors import UsageError

UNDISTURBED_STEPS: Final = 3
"""Steps that the shortest period leaves alone, so that disturbed and undisturbed ones can be told apart (design 5)."""

GOLDEN: Final = (5**0.5 - 1) / 2
"""The multiples of no number lie more evenly, modulo 1: the terms of its continued fraction are the smallest. The
discrepancy of the first N is of the order of log(N) / N (Kuipers and Niederreiter, Uniform Distribution of Sequences,
chapter 2, theorem 3.4), that of any N in a row likewise."""


@dataclass(frozen=True, slots=True)
class Jitter:
    """How far due times lie behind their grid, so that bursts come at all phases of what goes on beside them.

    Without it a period of about a whole number of decode steps meets the same phase of a step again and again.

    The offsets are an additive recurrence that begins anywhere, so that each by itself is uniform (Cranley and
    Patterson, Randomization of number theoretic methods for multiple integration, SIAM J. Numer. Anal. 13(6), 1976).

    Attributes:
        spread_s: offsets are at least 0 and less than this; 0 for none.
        start: the first offset, as a fraction of it.
        increment: from one offset to the next, as a fraction of it, modulo 1; at least 0.
    """

    spread_s: float = 0.0
    start: float = 0.0
    increment: float = GOLDEN

    @classmethod
    def over_a_step(cls, step_s: float, period_s: float, seed: str) -> "Jitter":
        """Offsets by which the phases of due times, in steps of equal length, are spread as multiples of `GOLDEN` are.

        The period itself moves the phase from one due time to the next, too. Were the golden ratio added to that, a
        period of 15.38 steps would undo it, so it is the sum that is the golden ratio. Steps that take more than half
        the period are covered in part: due times stay half a period apart.

        Args:
            step_s: duration of an undisturbed step, a typical one; positive.
            period_s: of the grid.
            seed: of the start, another one for every segment.
        """
        start = Random(seed).random()
        if step_s > period_s / 2:
            return cls(period_s / 2, start)
        return cls(step_s, start, (GOLDEN - period_s / step_s) % 1.0)

    def offset_s(self, number: int) -> float:
        """That of a due time; they are numbered from 0 on."""
        return (self.start + number * self.increment) % 1.0 * self.spread_s


NO_JITTER: Final = Jitter()


class PacedClock:
    """Due times on a grid: the first one a period after the start, then one every period, each with its jitter.

    Bursts do not overlap: what is due while one runs waits for it. Then one burst goes at once, as the latest of the
    due times that have come meanwhile; the earlier ones are passed over. So nothing is made up for by bursts back to
    back, a transfer that is slower than the period runs as often as it can, and later due times stay on the grid.

    It reads no clock: whoever paces bursts waits until `due_s`, and says what happens when.
    """

    def __init__(self, start_s: float, period_s: float, jitter: Jitter = NO_JITTER) -> None:
        """Begins.

        Args:
            start_s: time at which it begins.
            period_s: from one due time to the next, but for their jitter.
            jitter: spread over half a period at most, so that due times ascend.

        Raises:
            UsageError: the period is not positive and finite, or the jitter is spread too far.
        """
        if not 0 < period_s < inf:
            raise UsageError(f"a burst period is positive and finite, not {period_s:g} s")
        if not 0 <= jitter.spread_s <= period_s / 2:
            raise UsageError(f"jitter of {jitter.spread_s:g} s is not within half a period of {period_s:g} s")
        self._jitter = jitter
        self._start_s = start_s
        self._period_s = period_s
        self._number = 1
        self._missed = 0
        self._busy = False
        self._completed_s = start_s

    @property
    def due_s(self) -> float:
        """When the next burst is due, whether or not one still runs."""
        return self._at(self._number)

    @property
    def missed(self) -> int:
        """Deadlines at which no burst could be submitted, so far; as `Segment.missed`."""
        return self._missed

    def wait_s(self, now_s: float) -> float:
        """Seconds until the next burst is due; 0 if it is."""
        return max(0.0, self.due_s - now_s)

    def submit(self, now_s: float) -> float:
        """Takes note that a burst is submitted now.

        Returns:
            When it was due: the latest due time that has come.

        Raises:
            ValueError: no burst is due, the one before still runs, or the time is before its completion.
        """
        if self._busy or now_s < max(self.due_s, self._completed_s):
            raise ValueError(f"no burst may be submitted at {now_s:g} s: due at {self.due_s:g} s, busy: {self._busy}")
        number = self._latest(now_s)
        due_s = self._at(number)
        self._missed += number - self._number + (now_s - due_s > self._period_s * LATENESS)
        self._number = number + 1
        self._busy = True
        self._completed_s = now_s
        return due_s

    def complete(self, now_s: float) -> None:
        """Takes note that the completion of the burst that runs is seen now.

        Raises:
            ValueError: none runs, or the time is before its submission.
        """
        if not self._busy or now_s < self._completed_s:
            raise ValueError(f"no burst can have completed at {now_s:g} s")
        self._busy = False
        self._completed_s = now_s

    def _at(self, number: int) -> float:
        return self._start_s + number * self._period_s + self._jitter.offset_s(number - 1)

    def _latest(self, now_s: float) -> int:
        """The latest due time that has come, from the next one on."""
        number = max(self._number, floor((now_s - self._start_s) / self._period_s))
        while self._at(number + 1) <= now_s:  # the division may have rounded, and knows no jitter
            number += 1
        while number > self._number and self._at(number) > now_s:
            number -= 1
        return number


def shortest_period_s(step_s: float, completion_s: float) -> float:
    """The shortest period in which at least three steps begin after a burst and end before the next one.

    Whatever its phase, a gap holds one whole step less than it is steps long; and jitter over a step makes a gap
    shorter than the period by up to a step.

    Args:
        step_s: duration of an undisturbed step, one of the longer ones.
        completion_s: from submission of a burst to its completion, one of the longer ones.

    Raises:
        UsageError: a duration is not positive and finite.
    """
    if not (0 < step_s < inf and 0 < completion_s < inf):
        raise UsageError(f"steps and bursts take positive, finite times, not {step_s:g} s and {completion_s:g} s")
    return completion_s + (UNDISTURBED_STEPS + 2) * step_s
