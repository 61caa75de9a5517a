"""From the segments of a serving block to the records that are stored."""

from collections.abc import Sequence

import numpy as np

from pega_tune.autotune.engine import Candidate, Status
from pega_tune.autotune.measuring.serving.bursts import missed_s, observe, pooled
from pega_tune.autotune.measuring.serving.stalls import stalls
from pega_tune.autotune.measuring.serving.tails import p99_refusal
from pega_tune.autotune.measuring.statistics import outliers
from pega_tune.autotune.serving import BASELINE, Seconds, Segment, ServingBlock, failed_segment
from pega_tune.profiles.store.records import BlockFlag, CellRecord, MeasurementRecord, Metric

TOO_FEW = "too-few"
"""Status of a series of steps of which no p99 may be claimed."""


def collect_segments(block: ServingBlock, segments: Sequence[Segment]) -> tuple[CellRecord, ...]:
    """One cell per candidate, in their order.

    The undisturbed step, with which disturbed ones are compared, is the median one of the baseline: a mean would let a
    single step that the system has held up make every stall look smaller.

    Args:
        block: what was measured.
        segments: all that an engine yielded for it. A candidate is `invalid` if it has none, if none has a whole burst
            period, or if there is no baseline.
    """
    taken: dict[int, list[Segment]] = {index: [] for index in (BASELINE, *range(len(block.candidates)))}
    for segment in segments:
        taken[segment.candidate].append(segment)
    baseline_s = np.concatenate([np.empty(0), *(s.steps_s for s in taken[BASELINE] if s.status is Status.OK)])
    return tuple(_cell(candidate, taken[n], baseline_s) for n, candidate in enumerate(block.candidates))


def segment_flags(segments: Sequence[Segment]) -> tuple[BlockFlag, ...]:
    """What the segments say of their whole block."""
    words = {word for segment in segments for word in segment.flags}
    return tuple(flag for flag in BlockFlag if flag in words)


def used_period_s(segments: Sequence[Segment]) -> float | None:
    """The longest burst period that was used, of the candidates alone; None if none of them ran.

    Where a block leaves the period open, each candidate has its own, the shortest for it: its cell says which.
    """
    used = [s.period_s for s in segments if s.status is Status.OK and s.candidate != BASELINE]
    return max(used, default=None)


def _cell(candidate: Candidate, taken: Sequence[Segment], baseline_s: Seconds) -> CellRecord:
    good = [segment for segment in taken if segment.status is Status.OK]
    measurements = _series(good, baseline_s)
    failure = next((segment for segment in taken if segment.status is not Status.OK), None)
    if failure is None and not measurements:
        why = "never run" if not taken else "no whole burst period was seen, beside a baseline"
        failure = failed_segment(0, Status.INVALID, why)
    return CellRecord(
        name=candidate.name,
        kind=str(candidate.kind),
        plan=candidate.plan,
        status=str(failure.status if failure else Status.OK),
        verified=any(segment.verified for segment in good),
        detail=failure.detail if failure else "",
        measurements=measurements,
    )


def _series(good: Sequence[Segment], baseline_s: Seconds) -> tuple[MeasurementRecord, ...]:
    bursts = pooled(map(observe, good))
    if not len(baseline_s) or not len(bursts.steps_s):
        return ()
    cost = stalls(bursts, float(np.median(baseline_s)))
    status = TOO_FEW if p99_refusal(len(bursts.steps_s), bursts.bursts) else "ok"
    words = {word for segment in good for word in segment.flags}
    missed = np.concatenate([missed_s(segment) for segment in good])
    host_cpu = [s.host_cpu_s / len(s.due) for s in good if s.host_cpu_s is not None]
    return (
        MeasurementRecord(Metric.STEP, tuple(bursts.steps_s.tolist()), status, tuple(sorted(words))),
        MeasurementRecord(Metric.STEP_END, tuple(bursts.end_s.tolist())),
        _flagged(Metric.BASELINE_STEP, baseline_s, TOO_FEW if p99_refusal(len(baseline_s), None) else "ok"),
        _flagged(Metric.STALL, cost.stall_s, status),
        MeasurementRecord(Metric.EXTRA, tuple(cost.extra_s.tolist()), status),
        _flagged(Metric.COMPLETION, bursts.completion_s, status),
        MeasurementRecord(Metric.BURST_PERIOD, tuple(bursts.period_s.tolist())),
        *([MeasurementRecord(Metric.MISSED, tuple(missed.tolist()))] if len(missed) else []),
        *([MeasurementRecord(Metric.HOST_CPU, tuple(host_cpu))] if host_cpu else []),
    )


def _flagged(metric: Metric, samples: Seconds, status: str) -> MeasurementRecord:
    values = tuple(samples.tolist())
    return MeasurementRecord(metric, values, status, ("outliers",) if any(outliers(values)) else ())
