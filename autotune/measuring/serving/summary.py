"""What is printed of a serving cell: everything from its record, so that a stored one reads as a fresh one does."""

from dataclasses import dataclass

import numpy as np

from pega_tune.autotune.measuring.serving.bursts import BurstSteps, restored
from pega_tune.autotune.measuring.serving.mixing import Mixture
from pega_tune.autotune.measuring.serving.tails import (
    Figure,
    PeriodicSteps,
    Tails,
    burst_mean,
    burst_p99,
    increase,
    tails,
)
from pega_tune.autotune.serving import Seconds
from pega_tune.profiles.store.records import CellRecord, Metric


@dataclass(frozen=True, slots=True)
class Spread:
    """A distribution over bursts, in seconds.

    Attributes:
        p50_s: the median.
        p95_s: what 95 of 100 bursts stay below.
        p99_s: with its interval if there are bursts enough.
        max_s: the largest.
    """

    p50_s: float
    p95_s: float
    p99_s: Figure
    max_s: float


@dataclass(frozen=True, slots=True)
class ServingSummary:
    """One candidate beside decode.

    Attributes:
        steps: decode steps in whole burst periods.
        bursts: their bursts.
        missed: deadlines at which no burst could be submitted.
        step: step times in seconds.
        baseline: step times without transfers in the same block, in seconds.
        delta: increase of the step times over the baseline, as fractions.
        stall: the largest extra time of a step, over bursts.
        stall_mean_s: the mean of that, with its interval: of stalls of two kinds, the median is one kind or the other.
        extra_s: mean extra time of all steps per burst, in seconds.
        itl_cost: that per burst period: the fraction of its time that decode loses.
        completion: from submission to completion seen, over bursts.
        bytes_per_s: bytes moved, all directions together, while bursts were due.
        host_cpu_s: mean processor time of a burst, in seconds; None if not measured.
    """

    steps: int
    bursts: int
    missed: int
    step: Tails
    baseline: Tails
    delta: Tails
    stall: Spread
    stall_mean_s: Figure
    extra_s: float
    itl_cost: float
    completion: Spread
    bytes_per_s: float
    host_cpu_s: float | None


def summarise(cell: CellRecord, moved_bytes: int) -> ServingSummary | None:
    """What a serving cell says; None if it was not measured.

    Args:
        cell: as `collect_segments` makes it, or as it comes out of the store.
        moved_bytes: of one burst, all directions together.
    """
    series, bursts = _series(cell), bursts_of(cell)
    if bursts is None:
        return None
    period_s = float(bursts.period_s.mean())
    step = tails(PeriodicSteps.beside(bursts))
    baseline = tails(PeriodicSteps.baseline(series[Metric.BASELINE_STEP], period_s))
    extra_s = float(series[Metric.EXTRA].mean())
    host_cpu = series.get(Metric.HOST_CPU)
    return ServingSummary(
        steps=len(bursts.steps_s),
        bursts=bursts.bursts,
        missed=len(series.get(Metric.MISSED, ())),
        step=step,
        baseline=baseline,
        delta=increase(step, baseline),
        stall=_spread(series[Metric.STALL]),
        stall_mean_s=burst_mean(series[Metric.STALL]),
        extra_s=extra_s,
        itl_cost=extra_s / period_s,
        completion=_spread(bursts.completion_s),
        bytes_per_s=moved_bytes / period_s,
        host_cpu_s=None if host_cpu is None else float(host_cpu.mean()),
    )


def bursts_of(cell: CellRecord) -> BurstSteps | None:
    """The steps of a serving cell by their bursts; None if it was not measured."""
    series = _series(cell)
    if Metric.STEP not in series:
        return None
    metrics = (Metric.STEP, Metric.STEP_END, Metric.COMPLETION, Metric.BURST_PERIOD)
    return restored(*(series[metric] for metric in metrics))


def mixture_of(cell: CellRecord) -> Mixture | None:
    """What predicts the steps at longer periods; None if the cell was not measured."""
    bursts = bursts_of(cell)
    return None if bursts is None else Mixture.of(bursts, _series(cell)[Metric.BASELINE_STEP])


def _series(cell: CellRecord) -> dict[Metric, Seconds]:
    return {record.metric: np.array(record.samples) for record in cell.measurements}


def _spread(samples: Seconds) -> Spread:
    median_s, p95_s = np.quantile(samples, (0.5, 0.95))
    return Spread(float(median_s), float(p95_s), burst_p99(samples), float(samples.max()))
