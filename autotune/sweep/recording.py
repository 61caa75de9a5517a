"""From a measured block to its record, and from the records of a sweep to a profile."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median

from pega_tune.autotune.engine import CandidateKind, Conditions, Measurement, Status, TransferBlock
from pega_tune.autotune.measuring.cells import collect, flags_of
from pega_tune.autotune.measuring.serving.cells import collect_segments, segment_flags, used_period_s
from pega_tune.autotune.serving import Segment, ServingBlock
from pega_tune.autotune.sweep.gate import Verdict
from pega_tune.autotune.sweep.observations import transfer_samples, usable
from pega_tune.autotune.sweep.policy import Learnt
from pega_tune.kernels.facts import DeviceFacts, Link
from pega_tune.profiles.policy.compiled import digest, encode
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.ids import new_id
from pega_tune.profiles.store.records import BlockRecord, CellRecord, Metric, ProfileRecord, SweepRecord


@dataclass(frozen=True, slots=True)
class Measured:
    """A block as it ran: its measurements in order, and what the device went through."""

    block: TransferBlock
    measurements: tuple[Measurement, ...]
    conditions: Conditions


def block_record(measured: Measured, max_link: Link | None) -> BlockRecord:
    """What is stored of a block, without its wall time, which whoever runs it knows.

    Args:
        measured: the block.
        max_link: the best that device and slot can train; None if unknown.
    """
    block, conditions = measured.block, measured.conditions
    return BlockRecord(
        key=block.key,
        shape=block.layout.described(block.shape),
        colocation=Colocation.IDLE,
        seed=block.seed,
        seconds=0.0,
        cells=collect(block, measured.measurements),
        flags=flags_of(conditions, max_link),
        sm_clock_hz=conditions.sm_clock_hz,
        link=conditions.link,
        temperature_c=conditions.temperature_c,
        throttle_reasons=conditions.throttle_reasons,
        telemetry_note=conditions.unknown,
    )


@dataclass(frozen=True, slots=True)
class MeasuredServing:
    """A serving block as it ran: its segments in order, and what the device went through."""

    block: ServingBlock
    segments: tuple[Segment, ...]
    conditions: Conditions


def serving_record(measured: MeasuredServing, max_link: Link | None) -> BlockRecord:
    """As `block_record`."""
    block, conditions = measured.block, measured.conditions
    flags = dict.fromkeys((*flags_of(conditions, max_link), *segment_flags(measured.segments)))
    return BlockRecord(
        key=block.key,
        shape=block.layout.described(block.shape),
        colocation=block.colocation,
        seed=block.seed,
        seconds=0.0,
        cells=collect_segments(block, measured.segments),
        flags=tuple(flags),
        sm_clock_hz=conditions.sm_clock_hz,
        link=conditions.link,
        temperature_c=conditions.temperature_c,
        throttle_reasons=conditions.throttle_reasons,
        telemetry_note=conditions.unknown,
        period_s=used_period_s(measured.segments),
        decode=block.decode.key,
    )


def profile_record(
    sweep: SweepRecord, learnt: Learnt, verdict: Verdict, links: Iterable[Link], now: datetime
) -> ProfileRecord:
    """What a sweep has learnt, as it is stored.

    Args:
        sweep: where it was learnt.
        learnt: tables and curves.
        verdict: of the gate.
        links: as sampled under load, one per block that knows; the commonest becomes the profile's trained link.
        now: aware, UTC.
    """
    compiled = encode(learnt.policy)
    return ProfileRecord(
        profile_id=new_id(),
        sweep_id=sweep.sweep_id,
        device=_as_trained(sweep.device, links),
        state=verdict.state,
        reasons=verdict.reasons,
        created_at=now,
        compiled=compiled,
        digest=digest(compiled),
        kernel_digest=sweep.kernel_digest,
        method_version=sweep.method_version,
        fits=learnt.fits,
    )


def best_cell(record: BlockRecord) -> tuple[str | None, float | None]:
    """Name of the plan with the least median time, and its speed over the ceiling's; None for what is not known.

    Beside decode it is the one with the least stall, and there is no ceiling.
    """
    if record.colocation is not Colocation.IDLE:
        stalls = {c.name: series for c in record.cells if c.status == Status.OK and (series := _stalls(c))}
        return min(stalls, key=lambda name: median(stalls[name]), default=None), None
    times = {c.name: median(transfer_samples(c)) for c in record.cells if usable(c)}
    if not times:
        return None, None
    best = min(times, key=times.__getitem__)
    ceiling = _ceiling(record)
    return best, median(ceiling) / times[best] if ceiling else None


def _stalls(cell: CellRecord) -> Sequence[float]:
    return next((m.samples for m in cell.measurements if m.metric is Metric.STALL), ())


def _ceiling(record: BlockRecord) -> Sequence[float]:
    cells = (c for c in record.cells if c.kind == CandidateKind.CEILING and c.status == Status.OK)
    return next(map(transfer_samples, cells), ())


def _as_trained(device: DeviceFacts, links: Iterable[Link]) -> DeviceFacts:
    commonest = Counter(links).most_common(1)
    if not commonest:
        return device
    return replace(device, staleness=replace(device.staleness, trained_link=commonest[0][0]))
