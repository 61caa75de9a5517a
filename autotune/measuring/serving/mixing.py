"""What steps would look like if bursts were rarer: what a burst disturbs stays, and more undisturbed steps join."""

from dataclasses import dataclass
from math import inf

import numpy as np

from pega_tune.autotune.measuring.serving.bursts import BurstSteps
from pega_tune.autotune.serving import Seconds
from pega_tune.errors import UsageError

_SLACK = 0.01  # a period that is this much shorter than the measured one is the same: submission has some jitter


@dataclass(frozen=True, slots=True)
class MixedSteps:
    """The predicted distribution of step times, in seconds.

    Attributes:
        period_s: from one burst to the next.
        mean_s, p50_s, p90_s, p99_s: of the steps.
        disturbed: fraction of the steps that overlap a burst.
    """

    period_s: float
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    disturbed: float


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The two kinds of steps, from which the distribution at any longer period follows.

    It takes a burst to cost the same whenever it comes, and to come at any phase of a step.

    Attributes:
        disturbed_s: durations of the steps that overlap a burst.
        bursts: how many bursts disturbed them, at least one.
        undisturbed_s: durations of steps that overlap none, at least one.
        period_s: the period at which they were measured.
    """

    disturbed_s: Seconds
    bursts: int
    undisturbed_s: Seconds
    period_s: float

    @classmethod
    def of(cls, bursts: BurstSteps, baseline_s: Seconds) -> "Mixture":
        """From the steps beside bursts, and those of the baseline."""
        return cls(bursts.steps_s[bursts.disturbed], bursts.bursts, baseline_s, float(bursts.period_s.mean()))

    def at(self, period_s: float) -> MixedSteps:
        """The steps that a burst every `period_s` leaves.

        Each burst has its disturbed steps, and the rest of its period holds undisturbed ones.

        Raises:
            UsageError: the period is shorter than the measured one, at which bursts may cost more, or not finite.
        """
        if not self.period_s * (1 - _SLACK) <= period_s < inf:
            measured = f"{self.period_s:g} s"
            raise UsageError(f"bursts measured every {measured} tell nothing of a period of {period_s:g} s")
        rest_s = max(0.0, period_s - float(self.disturbed_s.sum()) / self.bursts)
        undisturbed = rest_s / float(self.undisturbed_s.mean())  # of each burst
        disturbed = len(self.disturbed_s) / self.bursts
        values = np.concatenate([self.disturbed_s, self.undisturbed_s])
        counts = np.repeat(
            [1 / self.bursts, undisturbed / len(self.undisturbed_s)], [len(self.disturbed_s), len(self.undisturbed_s)]
        )
        p50, p90, p99 = _quantiles(values, counts, np.array([0.5, 0.9, 0.99]))
        mean_s = float(values @ counts) / (disturbed + undisturbed)
        return MixedSteps(period_s, mean_s, p50, p90, p99, disturbed / (disturbed + undisturbed))


def _quantiles(values: Seconds, weights: Seconds, fractions: Seconds) -> list[float]:
    """The least values that so large a fraction of the weight does not exceed."""
    order = np.argsort(values)
    upto = np.cumsum(weights[order])
    found = np.searchsorted(upto, fractions * upto[-1] * (1 - 1e-12))
    quantiles: list[float] = values[order][found].tolist()
    return quantiles
