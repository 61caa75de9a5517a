"""How much slower a choice was than the best there was, with no noise counted against it. Pure.

Whoever picks the fastest of several plans by the samples that he then judges by, picks luck as well: the best looks
better than it is, and a plan just as good seems to lose. So the rounds of a block are split in two halves, of even and
of odd number, through which everything that drifts goes alike. The best is picked in one half and timed in the other,
beside the choice that is judged; then the other way round; the two are averaged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean, median

import numpy as np

_EVEN, _ODD = attrgetter("even_s"), attrgetter("odd_s")


@dataclass(frozen=True, slots=True)
class Halves:
    """One candidate's median over the rounds of even and over those of odd number, in seconds."""

    even_s: float
    odd_s: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Halves | None":
        """From the samples of a candidate, one per round, in their order; None if one of the halves has none."""
        return cls(median(samples[::2]), median(samples[1::2])) if len(samples) > 1 else None


@dataclass(frozen=True, slots=True)
class Spread:
    """Regrets over shapes, as fractions.

    Attributes:
        mean: of all.
        p95: what 95 of 100 stay below.
        max: the largest.
        n: how many shapes.
    """

    mean: float
    p95: float
    max: float
    n: int

    @classmethod
    def of(cls, regrets: Sequence[float]) -> "Spread | None":
        """From the regret of each shape; None if there are none."""
        if not regrets:
            return None
        return cls(fmean(regrets), float(np.quantile(regrets, 0.95)), max(regrets), len(regrets))


def cross_regret(chosen: Halves, contenders: Sequence[Halves]) -> float:
    """t(chosen) / t(best) - 1, the best picked in one half of the rounds and timed in the other; of both ways the mean.

    Args:
        chosen: what is judged.
        contenders: at least one; the best is one of them.

    Returns:
        Its expectation is that of the true times of the two: 0 for an equal plan. Noise can make it negative.
    """
    by_even, by_odd = min(contenders, key=_EVEN), min(contenders, key=_ODD)
    return fmean((chosen.odd_s / by_even.odd_s, chosen.even_s / by_odd.even_s)) - 1


def noise_floor(contenders: Sequence[Halves]) -> float:
    """What picking by half of the rounds costs, in the other half, against the pick of that half; of both the mean.

    Nobody who picks by measurements as good as these does better. It is never negative, and 0 if both halves pick
    the same.

    Args:
        contenders: at least one.
    """
    by_even, by_odd = min(contenders, key=_EVEN), min(contenders, key=_ODD)
    return fmean((by_even.odd_s / by_odd.odd_s, by_odd.even_s / by_even.even_s)) - 1
