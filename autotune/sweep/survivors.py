"""Which candidates of a transfer block are worth measuring beside decode: no other is at least as good in every way."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from pega_tune.autotune.sweep.dma_commands import largest_dma_bytes
from pega_tune.autotune.sweep.plans import launched_ctas, legs_of
from pega_tune.kernels.plan import AnyPlan, CopyPlan, PlanPair
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.store.records import CellRecord, Metric


@dataclass(frozen=True, slots=True)
class MeasuredPlan:
    """A plan at one shape, with the five things that decode may suffer from.

    Attributes:
        plan: what was measured.
        transfer_s: transfer time in seconds.
        resident_ctas: CTAs that its kernels launch, both directions together.
        span_s: kernel-resident time in seconds; None if unknown.
        largest_dma_bytes: its largest single DMA command.
        sm_s: SM-seconds; None if unknown.
    """

    plan: AnyPlan
    transfer_s: float
    resident_ctas: int
    span_s: float | None
    largest_dma_bytes: int
    sm_s: float | None

    @classmethod
    def of(cls, cell: CellRecord, shape: TransferShape) -> "MeasuredPlan | None":
        """From a cell of a transfer block; None if it was not timed."""
        known = {record.metric: median(record.samples) for record in cell.measurements if record.samples}
        if Metric.TRANSFER not in known:
            return None
        return cls(
            plan=cell.plan,
            transfer_s=known[Metric.TRANSFER],
            resident_ctas=sum(launched_ctas(leg, shape) for leg in legs_of(cell.plan)),
            span_s=known.get(Metric.SPAN),
            largest_dma_bytes=largest_dma_bytes(cell.plan, shape),
            sm_s=known.get(Metric.SM),
        )

    @property
    def measures(self) -> tuple[float, int, float | None, int, float | None]:
        """All five, less being better of each."""
        return self.transfer_s, self.resident_ctas, self.span_s, self.largest_dma_bytes, self.sm_s


def prune(candidates: Sequence[MeasuredPlan]) -> tuple[MeasuredPlan, ...]:
    """The candidates that no other one dominates, in their order, and their variants in priority and partition.

    One dominates another if it is no worse in all five measures. Of those that are alike in all, the first stays. What
    is unknown cannot be compared: who lacks a measure neither dominates nor is dominated.
    """
    kept = {
        family(candidate.plan)
        for place, candidate in enumerate(candidates)
        if not any(_dominates(other, candidate, at < place) for at, other in enumerate(candidates) if at != place)
    }
    return tuple(candidate for candidate in candidates if family(candidate.plan) in kept)


def _dominates(one: MeasuredPlan, other: MeasuredPlan, first: bool) -> bool:
    """Whether `one` is no worse in anything, and better in something or else the first."""
    pairs = [(a, b) for a, b in zip(one.measures, other.measures, strict=True) if a is not None and b is not None]
    if len(pairs) < len(one.measures) or any(a > b for a, b in pairs):
        return False
    return first or any(a < b for a, b in pairs)


def family(plan: AnyPlan) -> AnyPlan:
    """What a plan is a variant of: without what decode may tell apart, but no measure does.

    That is priority, partition, and what the driver is asked for.
    """
    if isinstance(plan, PlanPair):
        return replace(plan, load=_plain(plan.load), save=_plain(plan.save))
    return _plain(plan)


def _plain(leg: CopyPlan) -> CopyPlan:
    return replace(leg, stream_priority=0, sm_partition=None, prefer_overlap=False)
