"""From the measurements of a block to the records that are stored."""

from collections.abc import Sequence

from pega_tune.autotune.engine import Candidate, Conditions, Measurement, Phase, Status, TransferBlock
from pega_tune.kernels.facts import Link
from pega_tune.profiles.store.records import BlockFlag, CellRecord, MeasurementRecord, Metric


def collect(block: TransferBlock, measurements: Sequence[Measurement]) -> tuple[CellRecord, ...]:
    """One cell per candidate, in their order, each with the samples that it was timed for.

    Args:
        block: what was measured.
        measurements: all that an engine yielded for it. A candidate without any is `invalid`.
    """
    taken: list[list[Measurement]] = [[] for _ in block.candidates]
    for measurement in measurements:
        taken[measurement.candidate].append(measurement)
    return tuple(map(_cell, block.candidates, taken))


def flags_of(conditions: Conditions, max_link: Link | None = None) -> tuple[BlockFlag, ...]:
    """What was wrong while a block ran.

    Args:
        conditions: as sampled under load.
        max_link: the best link that device and slot can train; None if unknown, then no link is called slow.
    """
    flags = []
    if conditions.throttle_reasons:
        flags.append(BlockFlag.THROTTLED)
    if conditions.other_processes:
        flags.append(BlockFlag.CONTENDED)
    if _slower(conditions.link, max_link):
        flags.append(BlockFlag.SLOW_LINK)
    if conditions.unknown:
        flags.append(BlockFlag.NO_TELEMETRY)
    return tuple(flags)


def _slower(link: Link | None, best: Link | None) -> bool:
    if link is None or best is None:
        return False
    return link.generation < best.generation or link.width < best.width


def _cell(candidate: Candidate, taken: Sequence[Measurement]) -> CellRecord:
    failure = next((m for m in taken if m.status is not Status.OK), None)
    if failure is None and not taken:
        failure = Measurement(0, Phase.VERIFY, Status.INVALID, detail="never run")
    return CellRecord(
        name=candidate.name,
        kind=str(candidate.kind),
        plan=candidate.plan,
        status=str(failure.status if failure else Status.OK),
        verified=any(m.phase is Phase.VERIFY and m.status is Status.OK for m in taken),
        detail=failure.detail if failure else "",
        measurements=_series([m for m in taken if m.phase is Phase.TIMED and m.status is Status.OK]),
    )


def _series(timed: Sequence[Measurement]) -> tuple[MeasurementRecord, ...]:
    if not timed:
        return ()
    optional = (
        (Metric.DEVICE, [m.device_s for m in timed]),
        (Metric.HOST_CPU, [m.wait_cpu_s for m in timed]),
        (Metric.SM, [m.sm_s for m in timed]),
        (Metric.SPAN, [m.span_s for m in timed]),
        (Metric.MOVING, [m.moving_s for m in timed]),
    )
    known = ((metric, tuple(s for s in samples if s is not None)) for metric, samples in optional)
    return (
        MeasurementRecord(Metric.TRANSFER, tuple(m.transfer_s for m in timed)),
        MeasurementRecord(Metric.PREPARE, tuple(m.prepare_s for m in timed)),
        MeasurementRecord(Metric.SUBMIT, tuple(m.submit_s for m in timed)),
        *(MeasurementRecord(metric, samples) for metric, samples in known if samples),
    )
