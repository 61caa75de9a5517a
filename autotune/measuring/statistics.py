"""Distribution-free statistics of samples: order-statistic intervals, and outliers that are flagged, never dropped."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, isfinite, lgamma, log, log1p
from statistics import fmean, median

MODIFIED_Z_LIMIT = 3.5
"""Iglewicz and Hoaglin, How to Detect and Handle Outliers, ASQC 1993: label beyond 3.5."""

_MAD_TO_SIGMA = 1.4826  # 1 / 0.6745, the normal distribution's third quartile (Iglewicz and Hoaglin)
_MEAN_DEVIATION_TO_SIGMA = 1.253314  # sqrt(pi / 2)


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval of a quantile, in the unit of the samples.

    Attributes:
        estimate: the quantile of the samples.
        low: lower order statistic.
        high: upper order statistic.
    """

    estimate: float
    low: float
    high: float

    @property
    def relative_width(self) -> float:
        """`(high - low) / |estimate|`; infinite if the estimate is 0."""
        return (self.high - self.low) / abs(self.estimate) if self.estimate else inf


def median_interval(samples: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Interval of the median from order statistics; None below the samples needed (6 for 95 %)."""
    return quantile_interval(samples, 0.5, confidence)


def quantile_interval(samples: Sequence[float], quantile: float, confidence: float = 0.95) -> Interval | None:
    """Two-sided interval of a quantile whose bounds are order statistics of the samples.

    The number of samples below a quantile is binomial whatever the distribution, so the coverage is exact, at least
    `confidence` (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2).

    Args:
        samples: finite, in any order.
        quantile: between 0 and 1, both excluded.
        confidence: least coverage, between 0 and 1, both excluded.

    Returns:
        The interval, or None if there are fewer than `needed_samples`: a bound would lie outside what was seen.
    """
    ranks = _ranks(len(samples), quantile, confidence)
    if ranks is None:
        return None
    ordered = _ordered(samples)
    low, high = ranks
    return Interval(_quantile(ordered, quantile), ordered[low - 1], ordered[high - 1])


def needed_samples(quantile: float, confidence: float = 0.95) -> int:
    """Fewest samples that bound a quantile on both sides: 6 for a median, 368 for p99 at 95 %."""
    rarer = min(quantile, 1 - quantile)
    # The extreme sample is a bound if all n samples fall on one side with probability at most half the error.
    # The small excess keeps an exact power from being rounded up by the logarithms.
    exact = log((1 - confidence) / 2) / log1p(-rarer)
    return int(exact) + (exact > int(exact) + 1e-9)


def separated(a: Interval, b: Interval) -> bool:
    """Whether the intervals do not touch."""
    return a.high < b.low or b.high < a.low


def outliers(samples: Sequence[float], limit: float = MODIFIED_Z_LIMIT) -> tuple[bool, ...]:
    """For each sample, whether its modified z-score exceeds `limit`.

    The spread is the median absolute deviation; if more than half of the samples are equal, that is 0 and the mean
    absolute deviation takes its place.
    """
    if not samples:
        return ()
    centre = median(_ordered(samples))
    deviations = [abs(sample - centre) for sample in samples]
    sigma = _MAD_TO_SIGMA * median(deviations) or _MEAN_DEVIATION_TO_SIGMA * fmean(deviations)
    return tuple(deviation > limit * sigma for deviation in deviations)


def _ordered(samples: Sequence[float]) -> list[float]:
    if not all(map(isfinite, samples)):
        raise ValueError("samples are finite")
    return sorted(samples)


def _quantile(ordered: Sequence[float], quantile: float) -> float:
    """Linear between order statistics (type 7 of Hyndman and Fan, The American Statistician 50(4), 1996)."""
    position = quantile * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


@lru_cache(maxsize=1024)
def _ranks(count: int, quantile: float, confidence: float) -> tuple[int, int] | None:
    """One-based ranks of the two bounds, each cutting off at most half of the error; None if there are too few."""
    if not (0 < quantile < 1 and 0 < confidence < 1):
        raise ValueError(f"quantile and confidence lie between 0 and 1: {quantile}, {confidence}")
    if count < needed_samples(quantile, confidence):
        return None
    half_error = (1 - confidence) / 2
    low, cumulative = 1, 0.0
    for rank in range(1, count + 1):
        cumulative += _binomial(count, rank - 1, quantile)  # P(X <= rank - 1), X samples lying below the quantile
        if cumulative <= half_error:
            low = rank
        if cumulative >= 1 - half_error:
            return low, rank
    return low, count


def _binomial(count: int, successes: int, probability: float) -> float:
    """P(X = successes) of a binomial X, through logarithms so that large counts neither overflow nor vanish."""
    ways = lgamma(count + 1) - lgamma(successes + 1) - lgamma(count - successes + 1)
    return exp(ways + successes * log(probability) + (count - successes) * log1p(-probability))
