"""What may be said of the distribution of step times, and how sure it is."""

from dataclasses import dataclass
from math import exp, hypot, log
from typing import Final

import numpy as np
from scipy.special import betaincinv

from pega_tune.autotune.measuring.serving.bursts import BurstSteps, Indices
from pega_tune.autotune.measuring.statistics import Interval, needed_samples, quantile_interval
from pega_tune.autotune.serving import Seconds

QUANTILES: Final = (0.5, 0.9, 0.99)

MIN_STEPS: Final = needed_samples(0.99)
"""Fewest steps for a claim about their p99: 368. With fewer the interval would end outside of what was seen."""

MIN_BURSTS: Final = 100
"""Fewest bursts for a claim about the p99 of steps beside them (design 5)."""

MIN_WORTH: Final = 230
"""Independent steps that the steps must be worth for a claim about their p99. Where all steps of a burst suffer alike,
a hundred bursts are worth little more than a hundred steps, the longest of which often lies below p99; that of 230
does with a probability of 10 % (0.99 ** 230)."""

MIN_PERIODS: Final = 20
"""Fewest periods for an interval of a mean. Resampling treats the spread that was seen as the true one, which makes
intervals too narrow: by 3 % with 20 periods, by more with fewer (the factor is sqrt((n - 1) / n))."""

RESAMPLES: Final = 999
"""Enough for the ends of a 95 % interval: Davison and Hinkley, Bootstrap Methods and their Application, section 5.2."""

_CONFIDENCE = 0.95
_HALF_ERROR = (1 - _CONFIDENCE) / 2


@dataclass(frozen=True, slots=True, eq=False)
class PeriodicSteps:
    """Steps in periods, which are independent of each other as single steps are not.

    Attributes:
        steps_s: (n,) durations; at least one.
        period: (n,) number of the period of each.
        bursts: how many bursts ran beside them; None for a baseline, which has none.
    """

    steps_s: Seconds
    period: Indices
    bursts: int | None = None

    @classmethod
    def beside(cls, bursts: BurstSteps) -> "PeriodicSteps":
        """The steps of burst periods."""
        return cls(bursts.steps_s, bursts.burst, bursts.bursts)

    @classmethod
    def baseline(cls, steps_s: Seconds, period_s: float) -> "PeriodicSteps":
        """Steps without bursts, cut into stretches of about a period; what is left over joins the last one."""
        ends = np.cumsum(steps_s)
        last = max(0, round(float(ends[-1]) / period_s) - 1) if len(ends) else 0
        return cls(steps_s, np.minimum((ends - steps_s / 2) // period_s, last).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, and how sure it is.

    Attributes:
        value: of the samples.
        interval: for 95 %; None if nothing is claimed.
        no_claim: why not; empty if there is an interval.
    """

    value: float
    interval: Interval | None
    no_claim: str = ""


@dataclass(frozen=True, slots=True)
class Tails:
    """Step times in seconds, or their increase over a baseline as a fraction.

    Attributes:
        mean, p50, p90, p99: with their intervals.
        max: the longest step; of one sample nothing more can be said.
    """

    mean: Figure
    p50: Figure
    p90: Figure
    p99: Figure
    max: float


def tails(steps: PeriodicSteps, resamples: int = RESAMPLES, seed: int = 0) -> Tails:
    """The step times in seconds.

    The interval of the mean is that of resampled periods. Those of quantiles are order statistics, as for independent
    steps, of which there are as many as resampled periods vary like, if that is fewer than there are steps (Korn and
    Graubard, Confidence intervals for proportions with small expected number of positive counts estimated from survey
    data, Survey Methodology 24(2), 1998). Resampling the quantiles themselves would be surer of a p99 than it may be:
    of a hundred bursts, few reach that far. What changes from process to process is in no interval.

    Args:
        steps: at least one.
        resamples: how often periods are drawn.
        seed: of the draws; equal steps have equal intervals.
    """
    ordered = np.sort(steps.steps_s)
    quantiles = np.quantile(ordered, QUANTILES)
    means, *fractions = _draws(steps, quantiles, resamples, np.random.default_rng(seed))
    few = _few_periods(steps)
    mean = _figure(steps.steps_s.mean(), np.quantile(means, [_HALF_ERROR, 1 - _HALF_ERROR]), few)
    worths = [_worth(len(ordered), *each) for each in zip(QUANTILES, fractions, strict=True)]
    refusals = (few, few, p99_refusal(len(ordered), steps.bursts) or few or _alike(len(ordered), worths[-1]))
    p50, p90, p99 = (
        _figure(value, _order_statistics(ordered, quantile, worth), refusal)
        for value, quantile, worth, refusal in zip(quantiles, QUANTILES, worths, refusals, strict=True)
    )
    return Tails(mean, p50, p90, p99, float(ordered[-1]))


def increase(step: Tails, baseline: Tails) -> Tails:
    """What the step times are above those of a baseline, as a fraction of these.

    The intervals of both make that of their ratio, as the square root of the sum of squared distances of their ends, on
    a logarithmic scale (Zou and Donner, Construction of confidence limits about effect measures: a general approach,
    Statistics in Medicine 27(10), 2008).
    """
    pairs = (
        (step.mean, baseline.mean),
        (step.p50, baseline.p50),
        (step.p90, baseline.p90),
        (step.p99, baseline.p99),
    )
    mean, p50, p90, p99 = (_increase(*pair) for pair in pairs)
    return Tails(mean, p50, p90, p99, step.max / baseline.max - 1)


def p99_refusal(steps: int, bursts: int | None) -> str:
    """Why no p99 of so many steps may be claimed; empty if it may.

    Args:
        steps: how many.
        bursts: that ran beside them; None for a baseline, which has none.
    """
    if steps < MIN_STEPS:
        return f"p99 needs {MIN_STEPS} steps, not {steps}"
    if bursts is not None and bursts < MIN_BURSTS:
        return f"p99 needs {MIN_BURSTS} bursts, not {bursts}"
    return ""


def burst_p99(samples: Seconds) -> Figure:
    """The p99 of something that each burst has once; a claim needs 368 bursts, as bursts are independent."""
    value = float(np.quantile(samples, 0.99))
    interval = quantile_interval(samples.tolist(), 0.99, _CONFIDENCE)
    refusal = "" if interval else f"a p99 over bursts needs {needed_samples(0.99)} of them, not {len(samples)}"
    return Figure(value, interval, refusal)


def burst_mean(samples: Seconds) -> Figure:
    """The mean of something that each burst has once; its interval is that of resampled bursts."""
    return tails(PeriodicSteps(samples, np.arange(len(samples)), len(samples))).mean


def _few_periods(steps: PeriodicSteps) -> str:
    """Why there are no intervals at all; empty if there are."""
    periods = len(np.unique(steps.period))
    return "" if periods >= MIN_PERIODS else f"an interval needs {MIN_PERIODS} burst periods, not {periods}"


def _alike(steps: int, worth: float) -> str:
    """Why no p99 of dependent steps may be claimed; empty if it may."""
    if worth >= MIN_WORTH:
        return ""
    return f"p99 needs more bursts: {steps} steps are as good as {worth:.0f} independent ones"


def _draws(steps: PeriodicSteps, limits: Seconds, resamples: int, rng: np.random.Generator) -> list[Seconds]:
    """Of as many periods as there are, drawn with replacement: mean step, and fraction of steps up to each limit.

    Returns:
        (resamples,) of each.
    """
    periods, period = np.unique(steps.period, return_inverse=True)
    weights = (None, steps.steps_s, *(steps.steps_s <= limit for limit in limits))
    counts, *sums = (np.bincount(period, weights=each, minlength=len(periods)) for each in weights)
    chosen = rng.multinomial(len(periods), np.full(len(periods), 1 / len(periods)), size=resamples)
    return [chosen @ each / (chosen @ counts) for each in sums]


def _worth(count: int, quantile: float, fractions: Seconds) -> float:
    """Independent steps of which the fraction up to a quantile varies as it does over resamples; `count` at most."""
    spread = float(fractions.var())
    return min(float(count), quantile * (1 - quantile) / spread) if spread > 0 else float(count)


def _order_statistics(ordered: Seconds, quantile: float, worth: float) -> Seconds:
    """(2,) ends of the interval of a quantile of ascending steps that are worth so many independent ones."""
    up_to = quantile * worth
    low = betaincinv(up_to, worth - up_to + 1, _HALF_ERROR)  # Clopper and Pearson's interval of a proportion
    high = betaincinv(up_to + 1, worth - up_to, 1 - _HALF_ERROR)
    last = len(ordered) - 1
    return ordered[[max(0, int(low * len(ordered)) - 1), min(last, int(np.ceil(high * len(ordered))))]]


def _figure(value: float, ends: Seconds, refusal: str) -> Figure:
    estimate, low, high = float(value), float(ends[0]), float(ends[1])
    if refusal:
        return Figure(estimate, None, refusal)
    return Figure(estimate, Interval(estimate, min(low, estimate), max(high, estimate)))


def _increase(step: Figure, baseline: Figure) -> Figure:
    value = step.value / baseline.value - 1
    if step.interval is None or baseline.interval is None:
        return Figure(value, None, step.no_claim or f"baseline: {baseline.no_claim}")
    a, b = step.interval, baseline.interval
    down = hypot(log(a.estimate / a.low), log(b.high / b.estimate))
    up = hypot(log(a.high / a.estimate), log(b.estimate / b.low))
    return Figure(value, Interval(value, (1 + value) * exp(-down) - 1, (1 + value) * exp(up) - 1))
