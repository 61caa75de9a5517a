"""What was recorded of one candidate, measurement by measurement."""

from collections.abc import Iterator
from statistics import median
from typing import Final

import numpy as np

from pega_tune.autotune.engine import Measurement, Phase, Status
from pega_tune.autotune.measuring.serving.bursts import Indices, restored
from pega_tune.autotune.serving import BASELINE, Seconds, Segment, failed_segment
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.store.records import CellRecord, Metric

_JOINT_S: Final = 1e-8
"""Two steps that are apart by more did not follow each other: a recording rounds to nanoseconds, and a clock is read
once for the end of a step and the begin of the next."""

_NONE: Final[Seconds] = np.empty(0, np.float64)


def measurements(cell: CellRecord, candidate: int) -> Iterator[Measurement]:
    """What an engine yields of the candidate with that index: its verification, then its timed rounds.

    A cell that has failed ends with that, and other ones when there is no more of them.
    """
    failure = Measurement(candidate, Phase.VERIFY, Status(cell.status), detail=cell.detail)
    if not cell.verified:
        yield failure if failure.status is not Status.OK else _unverified(candidate)
        return
    yield Measurement(candidate, Phase.VERIFY)
    series = {record.metric: record.samples for record in cell.measurements}
    for index in range(len(series.get(Metric.TRANSFER, ()))):
        yield _timed(series, index, candidate)
    if failure.status is not Status.OK:
        yield Measurement(candidate, Phase.TIMED, failure.status, detail=failure.detail)


def segments(cell: CellRecord, candidate: int, shape: TransferShape, flags: tuple[str, ...]) -> Iterator[Segment]:
    """What an engine yields of the candidate in a serving block, segment by segment, as far as it is known.

    A recording has whole burst periods alone. So the step that reaches past the last one is given the median length;
    bursts are taken to have been submitted when they were due, which leaves no deadline missed; and the period of a
    segment is that of its last burst.
    """
    series = {record.metric: np.array(record.samples) for record in cell.measurements}
    metrics = (Metric.STEP, Metric.STEP_END, Metric.COMPLETION, Metric.BURST_PERIOD)
    steps_s, end_s, completion_s, period_s = (series.get(metric, _NONE) for metric in metrics)
    if len(steps_s) and len(completion_s):
        burst = restored(steps_s, end_s, completion_s, period_s).burst
        begin_s = np.cumsum(period_s) - period_s
        first_steps = np.flatnonzero(np.append(True, np.abs(np.diff(end_s) - steps_s[1:]) > _JOINT_S))
        cpu_s = series.get(Metric.HOST_CPU, _NONE)
        for number, (at, bursts) in enumerate(_spans(first_steps, burst, len(completion_s))):
            over_s = begin_s[bursts][-1] + period_s[bursts][-1]
            ends = np.concatenate([[end_s[at][0] - steps_s[at][0]], end_s[at], [over_s + median(steps_s)]])
            yield Segment(
                candidate=candidate,
                step_ends=ends,
                due=begin_s[bursts],
                submitted=begin_s[bursts],
                completed=begin_s[bursts] + completion_s[bursts],
                moved_bytes=shape.moved_bytes,
                period_s=float(period_s[bursts][-1]),
                host_cpu_s=float(cpu_s[number]) * len(begin_s[bursts]) if number < len(cpu_s) else None,
                flags=flags,
                verified=cell.verified,
            )
    if cell.status != Status.OK:
        yield failed_segment(candidate, Status(cell.status), cell.detail)


def baseline_segments(cell: CellRecord, count: int) -> Iterator[Segment]:
    """The steps without transfers, as so many segments of equal length; all cells of a block have the same ones."""
    steps_s = next((r.samples for r in cell.measurements if r.metric is Metric.BASELINE_STEP), ())
    for part in np.array_split(np.array(steps_s), count):
        if len(part):
            yield Segment(BASELINE, np.append(0.0, np.cumsum(part)), _NONE, _NONE, _NONE, 0, 1.0)


def _unverified(candidate: int) -> Measurement:
    return Measurement(candidate, Phase.VERIFY, Status.INVALID, detail="recorded without having been verified")


def _timed(series: dict[Metric, tuple[float, ...]], index: int, candidate: int) -> Measurement:
    def sample(metric: Metric) -> float | None:
        samples = series.get(metric, ())
        return samples[index] if index < len(samples) else None

    return Measurement(
        candidate=candidate,
        phase=Phase.TIMED,
        transfer_s=series[Metric.TRANSFER][index],
        prepare_s=sample(Metric.PREPARE) or 0.0,
        submit_s=sample(Metric.SUBMIT) or 0.0,
        device_s=sample(Metric.DEVICE),
        wait_cpu_s=sample(Metric.HOST_CPU),
        sm_s=sample(Metric.SM),
        span_s=sample(Metric.SPAN),
        moving_s=sample(Metric.MOVING),
    )


def _spans(first_steps: Indices, burst: Indices, bursts: int) -> Iterator[tuple[slice, slice]]:
    """Steps and bursts of each segment, given the first step of each."""
    last_steps = [*first_steps[1:], len(burst)]
    first_bursts = [0, *(int(burst[step]) for step in first_steps[1:])]
    for begin, end, first, last in zip(first_steps, last_steps, first_bursts, [*first_bursts[1:], bursts], strict=True):
        yield slice(int(begin), int(end)), slice(first, last)
