"""What each burst costs decode."""

from dataclasses import dataclass

import numpy as np

from pega_tune.autotune.measuring.serving.bursts import BurstSteps, Indices
from pega_tune.autotune.serving import Seconds


@dataclass(frozen=True, slots=True, eq=False)
class Stalls:
    """What b bursts cost, in seconds. Nothing is clipped: noise may make what cost nothing slightly negative.

    Attributes:
        stall_s: (b,) the largest extra time over the disturbed steps of each burst; 0 if it has none.
        extra_s: (b,) the extra time of all of them.
        steps: (b,) how many there are.
    """

    stall_s: Seconds
    extra_s: Seconds
    steps: Indices


def stalls(bursts: BurstSteps, step_s: float) -> Stalls:
    """Compares disturbed steps with an undisturbed one.

    A burst without a step of its own, because the step in which it ran ended beside a later burst, costs nothing: the
    later one has it all.

    Args:
        bursts: the steps.
        step_s: duration of an undisturbed step.
    """
    disturbed = bursts.disturbed
    owner, extra = bursts.burst[disturbed], bursts.steps_s[disturbed] - step_s
    largest = np.full(bursts.bursts, -np.inf)
    np.maximum.at(largest, owner, extra)
    steps = np.bincount(owner, minlength=bursts.bursts)
    total = np.bincount(owner, weights=extra, minlength=bursts.bursts).astype(np.float64)
    return Stalls(np.where(steps > 0, largest, 0.0), total, steps)
