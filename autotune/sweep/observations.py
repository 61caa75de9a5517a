"""From stored blocks to what a policy is made of: one transfer time per plan and shape, and the noise of the sweep."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import inf
from statistics import median

from pega_tune.autotune.engine import CandidateKind, Status
from pega_tune.autotune.measuring.statistics import median_interval
from pega_tune.autotune.sweep.keys import confirms
from pega_tune.autotune.sweep.plans import launched
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation, Hint
from pega_tune.profiles.store.records import BlockRecord, CellRecord, Metric

# The stopping rule resolves no smaller difference: see `SamplingLimits.settled_width`.
LEAST_MARGIN = 0.02

# From so many ranges per host run on, the hint tells of host runs.
RANGES_PER_RUN = 16


@dataclass(frozen=True, slots=True)
class Observations:
    """What was seen without decode, in one direction, of ranges that lie in one way.

    Attributes:
        direction, hint: where.
        shapes: S measured shapes, ascending.
        keys: of their blocks, (S,).
        plans: plans that were measured and verified at one shape or more, by key.
        times_s: for each plan, median transfer times in seconds by index into `shapes`. A shape at which the plan
            would launch exactly what another one did has that one's time; a shape at which it failed has none.
        margin: relative difference of times that is noise.
    """

    direction: Direction
    hint: Hint
    shapes: tuple[TransferShape, ...]
    keys: tuple[str, ...]
    plans: tuple[AnyPlan, ...]
    times_s: tuple[dict[int, float], ...]
    margin: float


def observe(blocks: Iterable[BlockRecord]) -> tuple[Observations, ...]:
    """Sorts blocks without decode by direction and by what is known of the ranges; without usable cells, no entry.

    Blocks that were measured a second time to confirm the first are no part of it.
    """
    alone = [b for b in blocks if b.colocation is Colocation.IDLE and not confirms(b.key)]
    known = [b for b in alone if hint_of(b.shape) is not None]
    ordered = sorted(known, key=lambda b: (*_group(b), b.shape.merged_ranges, b.shape.total_bytes, b.key))
    groups = (_observations(tuple(members)) for _, members in groupby(ordered, key=_group))
    return tuple(group for group in groups if group.plans)


def hint_of(shape: TransferShape) -> Hint | None:
    """Which tables learn from a shape; None if none do, since its host runs are as many as to tell nothing."""
    if shape.pitch is not None:
        return Hint.STRIDED
    if shape.host_runs is None:
        return Hint.NONE
    if shape.host_runs == 1:
        return Hint.HOST_ORDERED
    return Hint.HOST_RUNS if shape.merged_ranges >= RANGES_PER_RUN * shape.host_runs else None


def is_plain(shape: TransferShape) -> bool:
    """Whether nothing is known of how the ranges lie."""
    return shape.host_runs is None and shape.pitch is None


def usable(cell: CellRecord) -> bool:
    """Whether the cell is a plan that may be chosen: it ended well, every byte was right, and it has times."""
    chosen = cell.kind in (CandidateKind.PLAN, CandidateKind.STATIC)
    samples = transfer_samples(cell)
    timed = bool(samples) and all(0 < sample < inf for sample in samples)
    return chosen and cell.status == Status.OK and cell.verified and timed


def transfer_samples(cell: CellRecord) -> tuple[float, ...]:
    """Transfer times of a cell in seconds, in the order taken; empty if it was not timed."""
    return next((m.samples for m in cell.measurements if m.metric is Metric.TRANSFER), ())


def _group(block: BlockRecord) -> tuple[str, str]:
    return str(block.shape.direction), str(hint_of(block.shape))


def _observations(blocks: tuple[BlockRecord, ...]) -> Observations:
    first = blocks[0]
    shapes = tuple(block.shape for block in blocks)
    by_launch = [{launched(c.plan, b.shape): _time_s(c) for c in b.cells if usable(c)} for b in blocks]
    plans = sorted({c.plan for b in blocks for c in b.cells if usable(c)}, key=lambda plan: plan.key)
    times_s = tuple(dict(_times(plan, shapes, by_launch)) for plan in plans)
    hint = hint_of(first.shape)
    assert hint is not None
    keys = tuple(block.key for block in blocks)
    return Observations(first.shape.direction, hint, shapes, keys, tuple(plans), times_s, _margin(blocks))


def _times(
    plan: AnyPlan, shapes: tuple[TransferShape, ...], by_launch: list[dict[AnyPlan, float]]
) -> Iterator[tuple[int, float]]:
    for index, shape in enumerate(shapes):
        time_s = by_launch[index].get(launched(plan, shape))
        if time_s is not None:
            yield index, time_s


def _time_s(cell: CellRecord) -> float:
    return median(transfer_samples(cell))


def _margin(blocks: tuple[BlockRecord, ...]) -> float:
    """Median, over the cells, of the relative half-width of the median's interval."""
    intervals = (median_interval(transfer_samples(c)) for b in blocks for c in b.cells if usable(c))
    widths = [interval.relative_width / 2 for interval in intervals if interval is not None]
    return max(LEAST_MARGIN, median(widths)) if widths else LEAST_MARGIN
