"""The parts of a simulated transfer's time, and what they come to."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransferTimes:
    """Parts of one transfer, in seconds.

    Attributes:
        prepare_s: ordering ranges and writing descriptors.
        submit_s: driver calls.
        start_s: latency before the first and after the last byte.
        device_s: from the first event to the last; overlaps with `submit_s` where copy engines work on early commands.
        transfer_s: all of it, as the caller sees it.
        sm_s: SM-seconds of its kernels; None if nobody knows.
        span_s: from the beginning of their first CTA to the end of their last one; None if nobody knows.
    """

    prepare_s: float
    submit_s: float
    start_s: float
    device_s: float
    transfer_s: float
    sm_s: float | None = 0.0
    span_s: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Leg:
    """One direction: submissions of two legs add up, their flows overlap. Times as in `TransferTimes`.

    Attributes:
        flow_s: from the last submission to the last byte.
        moving_s: the part of it in which copy engines move bytes.
        commands: DMA commands.
        parts: parts of a staged transfer.
    """

    prepare_s: float
    submit_s: float
    start_s: float
    flow_s: float
    device_s: float
    sm_s: float | None = 0.0
    span_s: float | None = 0.0
    moving_s: float = 0.0
    commands: int = 0
    parts: int = 0


def together(legs: Sequence[Leg], flow_s: float) -> TransferTimes:
    """One or two directions at once, whose bytes take so long."""
    prepare_s = sum(leg.prepare_s for leg in legs)
    submit_s = sum(leg.submit_s for leg in legs)
    start_s = max(leg.start_s for leg in legs)
    device_s = max(flow_s, *(leg.device_s for leg in legs))
    transfer_s = prepare_s + submit_s + start_s + flow_s
    sm_s, span_s = _known([leg.sm_s for leg in legs]), _known([leg.span_s for leg in legs])
    return TransferTimes(
        prepare_s,
        submit_s,
        start_s,
        device_s,
        transfer_s,
        sm_s=None if sm_s is None else sum(sm_s),
        span_s=None if span_s is None else max(span_s),
    )


def _known(times_s: list[float | None]) -> list[float] | None:
    """The times, if all of them are known."""
    known = [time_s for time_s in times_s if time_s is not None]
    return known if len(known) == len(times_s) else None
