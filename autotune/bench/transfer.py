"""One batch by every plan and every rule that systems ship, interleaved in one block per direction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from pega_tune.autotune.bench.batch import BatchRequest, Entry, require_rounds
from pega_tune.autotune.engine import Candidate, CandidateKind, Capabilities, Engine, SamplingLimits, TransferBlock
from pega_tune.autotune.measuring.cells import collect, flags_of
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.autotune.sweep.plans import candidates, launched
from pega_tune.kernels.plan import MAX_THREADS, AnyPlan, Backend
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.store.records import BlockFlag, CellRecord, Metric

_NEVER_HOPELESS: Final = 1e9  # a benchmark shows how slow the slow ones are, too


@dataclass(frozen=True, slots=True)
class TransferBenchRequest(BatchRequest):
    """What to move, and how often.

    Attributes:
        ranges, range_bytes, layout, seed: as in `BatchRequest`.
        directions: a block each, in this order.
        rounds: timed rounds of every candidate, 1 to 10,000.
    """

    directions: tuple[Direction, ...] = tuple(Direction)
    rounds: int = 15

    def __post_init__(self) -> None:
        BatchRequest.__post_init__(self)  # `super()` does not work in classes with slots
        require_rounds(self.rounds)
        for direction in self.directions:
            self.shape(direction)


@dataclass(frozen=True, slots=True)
class BenchBlock:
    """What is measured in one direction, and the entries that come of it."""

    block: TransferBlock
    entries: tuple[Entry, ...]

    @property
    def steps(self) -> int:
        """Measurements that the block takes if nothing fails."""
        return len(self.block.candidates) * (1 + self.block.limits.max_rounds)


@dataclass(frozen=True, slots=True)
class Row:
    """One entry, measured. Times are medians over the rounds, in seconds; None if unknown.

    Attributes:
        name, kind, plan: as in `Entry`.
        direction: which way.
        status: of its cell.
        detail: why that is not `ok`, one line.
        same_as: the entry that it was measured with, because both launch the same; None if it was measured itself.
        rounds: times that it was timed.
        transfer_s: from the submit call to completion seen, preparation included.
        prepare_s: ordering, merging, writing descriptors.
        submit_s: driver calls.
        host_s: CPU for submission and, if the engine knows it, for waiting.
        sm_s: SM-seconds of its own kernels, as `Measurement.sm_s`; of one execution.
        span_s: from the beginning of their first CTA to the end of the last one; of the same execution.
        bytes_per_s: bytes moved, both ways counted, over `transfer_s`.
        bytes_per_s_without_prepare: the same if everything had been prepared before, as `Measurement.moving_s`.
        ratio_to_ceiling: `bytes_per_s` over that of contiguous DMA in the same block.
        ratio_without_prepare: the same of the rates without preparation.
    """

    name: str
    kind: CandidateKind
    plan: AnyPlan
    direction: Direction
    status: str
    detail: str = ""
    same_as: str | None = None
    rounds: int = 0
    transfer_s: float | None = None
    prepare_s: float | None = None
    submit_s: float | None = None
    host_s: float | None = None
    sm_s: float | None = None
    span_s: float | None = None
    bytes_per_s: float | None = None
    bytes_per_s_without_prepare: float | None = None
    ratio_to_ceiling: float | None = None
    ratio_without_prepare: float | None = None


@dataclass(frozen=True, slots=True)
class BenchResult:
    """One direction, measured.

    Attributes:
        rows: the ceiling, then the others by transfer time, then those that have none.
        flags: what was wrong while the block ran.
    """

    rows: tuple[Row, ...]
    flags: tuple[BlockFlag, ...]


def plan_transfer_bench(request: TransferBenchRequest, capabilities: Capabilities) -> tuple[BenchBlock, ...]:
    """One block per direction.

    Plans that the device cannot run are among the candidates: its engine says why, and so does the result.
    """
    asked = replace(capabilities, backends=tuple(Backend), max_threads=MAX_THREADS)
    return tuple(_plan_block(request, direction, asked) for direction in request.directions)


def measure(planned: BenchBlock, engine: Engine) -> BenchResult:
    """Runs a block.

    Raises:
        DeviceError: as `Engine.transfer`.
    """
    block = planned.block
    cells = {cell.name: cell for cell in collect(block, tuple(engine.transfer(block)))}
    rows = [_row(entry, cells[entry.candidate], block.shape) for entry in planned.entries]
    ceiling = next(row for row in rows if row.kind is CandidateKind.CEILING)
    ordered = sorted((_against(row, ceiling) for row in rows), key=_rank)
    return BenchResult(tuple(ordered), flags_of(engine.conditions(), engine.facts.identity.max_link))


def _plan_block(request: TransferBenchRequest, direction: Direction, capabilities: Capabilities) -> BenchBlock:
    shape = request.shape(direction)
    chosen = list(candidates(shape, capabilities, full=True, dense=False, hints=True))
    entries = [Entry(c.name, c.kind, c.plan, c.name) for c in chosen]
    seen = {launched(c.plan, shape): c.name for c in chosen if c.kind is not CandidateKind.CEILING}
    for rule in STATIC_RULES:
        plan = rule.plan(shape)
        name = seen.setdefault(launched(plan, shape), rule.name)
        if name == rule.name and all(c.name != name for c in chosen):
            chosen.append(Candidate(name, CandidateKind.STATIC, plan))
        if all(entry.name != rule.name for entry in entries):
            entries.append(Entry(rule.name, CandidateKind.STATIC, plan, name))
    limits = SamplingLimits(0.0, request.rounds, request.rounds, drop_ratio=_NEVER_HOPELESS)
    key = f"bench/{request.layout}/{direction}/{shape.merged_ranges}x{shape.total_bytes}"
    block = TransferBlock(key, shape, tuple(chosen), limits, request.seed, layout=request.layout)
    return BenchBlock(block, tuple(entries))


def _row(entry: Entry, cell: CellRecord, shape: TransferShape) -> Row:
    same_as = None if entry.candidate == entry.name else entry.candidate
    row = Row(entry.name, entry.kind, entry.plan, shape.direction, cell.status, cell.detail, same_as)
    series = {m.metric: m.samples for m in cell.measurements}
    if cell.status != "ok" or not series:
        return row
    transfer, prepare, submit = (series[m] for m in (Metric.TRANSFER, Metric.PREPARE, Metric.SUBMIT))
    cpu = series.get(Metric.HOST_CPU)
    return replace(
        row,
        rounds=len(transfer),
        transfer_s=median(transfer),
        prepare_s=median(prepare),
        submit_s=median(submit),
        host_s=median(submit) + (median(cpu) if cpu else 0.0),
        sm_s=median(series[Metric.SM]) if Metric.SM in series else None,
        span_s=median(series[Metric.SPAN]) if Metric.SPAN in series else None,
        bytes_per_s=shape.moved_bytes / median(transfer),
        bytes_per_s_without_prepare=_rate(shape.moved_bytes, series.get(Metric.MOVING)),
    )


def _rate(moved_bytes: int, times_s: Sequence[float] | None) -> float | None:
    time_s = median(times_s) if times_s else 0.0
    return moved_bytes / time_s if time_s > 0 else None


def _against(row: Row, ceiling: Row) -> Row:
    return replace(
        row,
        ratio_to_ceiling=_ratio(row.bytes_per_s, ceiling.bytes_per_s),
        ratio_without_prepare=_ratio(row.bytes_per_s_without_prepare, ceiling.bytes_per_s_without_prepare),
    )


def _ratio(rate: float | None, ceiling: float | None) -> float | None:
    return rate / ceiling if rate and ceiling else None


def _rank(row: Row) -> tuple[bool, bool, float]:
    return row.kind is not CandidateKind.CEILING, row.transfer_s is None, row.transfer_s or 0.0
