"""Records of blocks, cells and measurements to rows and back."""

import json

from pega_tune.kernels.facts import Link
from pega_tune.kernels.plan import plan_from_json
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store import models
from pega_tune.profiles.store.records import BlockFlag, BlockRecord, CellRecord, MeasurementRecord, Metric
from pega_tune.profiles.store.values import decode_samples, encode_json, encode_samples, readable, settled


def block_row(sweep_id: str, record: BlockRecord) -> models.Block:
    """The row of a block, with those of its cells and measurements."""
    shape, link = record.shape, record.link
    block = models.Block(
        sweep_id=sweep_id,
        key=record.key,
        merged_ranges=shape.merged_ranges,
        total_bytes=shape.total_bytes,
        direction=shape.direction,
        host_runs=shape.host_runs,
        alignment=shape.alignment,
        pitch=shape.pitch,
        colocation=record.colocation,
        period_s=record.period_s,
        decode=record.decode,
        seed=record.seed,
        seconds=record.seconds,
        flags=encode_json(record.flags, "block.flags"),
        sm_clock_hz=record.sm_clock_hz,
        link_generation=link.generation if link else None,
        link_width=link.width if link else None,
        temperature_c=record.temperature_c,
        throttle_reasons=encode_json(record.throttle_reasons, "block.throttle_reasons"),
        telemetry_note=record.telemetry_note,
    )
    block.cells = [_cell_row(position, cell) for position, cell in enumerate(record.cells)]
    return settled(block)


def block_record(row: models.Block) -> BlockRecord:
    """Inverse of `block_row`."""
    with readable(f"block {row.key} of sweep {row.sweep_id}"):
        known_link = row.link_generation is not None and row.link_width is not None
        return BlockRecord(
            key=row.key,
            shape=TransferShape(
                merged_ranges=row.merged_ranges,
                total_bytes=row.total_bytes,
                direction=Direction(row.direction),
                host_runs=row.host_runs,
                alignment=row.alignment,
                pitch=row.pitch,
            ),
            colocation=Colocation(row.colocation),
            seed=row.seed,
            seconds=row.seconds,
            cells=tuple(_cell_record(cell) for cell in row.cells),
            flags=tuple(BlockFlag(flag) for flag in json.loads(row.flags)),
            sm_clock_hz=row.sm_clock_hz,
            link=Link(row.link_generation or 0, row.link_width or 0) if known_link else None,
            temperature_c=row.temperature_c,
            throttle_reasons=tuple(json.loads(row.throttle_reasons)),
            telemetry_note=row.telemetry_note,
            period_s=row.period_s,
            decode=row.decode,
        )


def _cell_row(position: int, record: CellRecord) -> models.Cell:
    cell = models.Cell(
        position=position,
        name=record.name,
        kind=record.kind,
        plan_key=record.plan.key,
        plan=encode_json(record.plan.to_json(), "cell.plan"),
        status=record.status,
        verified=int(bool(record.verified)),
        detail=record.detail,
    )
    cell.measurements = [_measurement_row(record.name, measurement) for measurement in record.measurements]
    return settled(cell)


def _cell_record(row: models.Cell) -> CellRecord:
    return CellRecord(
        name=row.name,
        kind=row.kind,
        plan=plan_from_json(json.loads(row.plan)),
        status=row.status,
        verified=bool(row.verified),
        detail=row.detail,
        measurements=tuple(_measurement_record(measurement) for measurement in row.measurements),
    )


def _measurement_row(cell: str, record: MeasurementRecord) -> models.Measurement:
    return settled(
        models.Measurement(
            metric=record.metric,
            count=len(record.samples),
            samples=encode_samples(record.samples, f"{record.metric} samples of cell {cell}"),
            status=record.status,
            flags=encode_json(record.flags, "measurement.flags"),
        )
    )


def _measurement_record(row: models.Measurement) -> MeasurementRecord:
    return MeasurementRecord(
        metric=Metric(row.metric),
        samples=decode_samples(row.samples, row.count, f"measurement {row.measurement_id}"),
        status=row.status,
        flags=tuple(json.loads(row.flags)),
    )
