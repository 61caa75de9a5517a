"""Whether the times of a segment can be: a clock that jumps or a probe that reports nonsense must not win."""

from collections.abc import Iterator

import numpy as np

from pega_tune.autotune.engine import Status
from pega_tune.autotune.serving import BASELINE, Segment, failed_segment


def checked(segment: Segment) -> Segment:
    """The segment, or an `INVALID` one in its place that says what is wrong with it."""
    if segment.status is not Status.OK:
        return segment
    wrong = next(_of_steps(segment), "") or next(_of_bursts(segment), "")
    return failed_segment(segment.candidate, Status.INVALID, wrong) if wrong else segment


def _of_steps(segment: Segment) -> Iterator[str]:
    ends = segment.step_ends
    if not np.isfinite(ends).all() or not 0 < segment.period_s < np.inf:
        yield "the times of its steps, or its period, are not finite"
    elif len(ends) < 2:
        yield "it has no decode step"
    elif not (np.diff(ends) > 0).all():
        yield "its decode steps do not end one after another"


def _of_bursts(segment: Segment) -> Iterator[str]:
    due, submitted, completed = segment.due, segment.submitted, segment.completed
    if not len(due) == len(submitted) == len(completed):
        yield f"of {len(due)} bursts, {len(submitted)} were submitted and {len(completed)} completed"
    elif segment.candidate == BASELINE and not len(due):
        return
    elif segment.candidate == BASELINE or not len(due) or segment.moved_bytes < 1:
        yield f"{len(due)} bursts of {segment.moved_bytes} bytes ran"
    elif not np.isfinite([due, submitted, completed]).all():
        yield "the times of its bursts are not finite"
    elif (submitted < due).any() or (np.diff(due) < segment.period_s / 2).any():
        yield "its bursts were submitted before they were due, or due less than half a period after each other"
    elif (np.diff(np.column_stack([submitted, completed]).ravel()) < 0).any():
        yield "its bursts overlap, or completed before they were submitted"
