"""From stored blocks to what a policy is made of: one transfer time per plan and shape, and the noise of the sweep."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from pega_tune.autotune.engine import CandidateKind, Status
from pega_tune.autotune.measuring.statistics import median_interval
from pega_tune.autotune.sweep.plans import launched
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockRecord, CellRecord, Metric

# The stopping rule resolves no smaller difference: see `SamplingLimits.settled_width`.
LEAST_MARGIN = 0.02


@dataclass(frozen=True, slots=True)
class Observations:
    """What was seen in one direction at one colocation.

    Attributes:
        direction, colocation: where.
        shapes: S measured shapes, ascending.
        plans: plans that were measured and verified at one shape or more, by key.
        times_s: for each plan, median transfer times in seconds by index into `shapes`. A shape at which the plan
            would launch exactly what another one did has that one's time; a shape at which it failed has none.
        margin: relative difference of times that is noise.
    """

    direction: Direction
    colocation: Colocation
    shapes: tuple[TransferShape, ...]
    plans: tuple[AnyPlan, ...]
    times_s: tuple[dict[int, float], ...]
    margin: float


def observe(blocks: Iterable[BlockRecord]) -> tuple[Observations, ...]:
    """Sorts blocks without decode into what was observed per direction; without usable cells there is no entry.

    Tables are asked by counts alone. So blocks whose ranges lie in a special way, which only some plans can use, are no
    part of it.
    """
    plain = (b for b in blocks if b.colocation is Colocation.IDLE and is_plain(b.shape))
    ordered = sorted(plain, key=lambda b: (*_group(b), b.shape))
    groups = (_observations(tuple(members)) for _, members in groupby(ordered, key=_group))
    return tuple(group for group in groups if group.plans)


def is_plain(shape: TransferShape) -> bool:
    """Whether nothing is known of how the ranges lie."""
    return shape.host_runs is None and shape.pitch is None


def usable(cell: CellRecord) -> bool:
    """Whether the cell is a plan that may be chosen: it ended well, every byte was right, and it has times."""
    chosen = cell.kind in (CandidateKind.PLAN, CandidateKind.STATIC)
    return chosen and cell.status == Status.OK and cell.verified and bool(transfer_samples(cell))


def transfer_samples(cell: CellRecord) -> tuple[float, ...]:
    """Transfer times of a cell in seconds, in the order taken; empty if it was not timed."""
    return next((m.samples for m in cell.measurements if m.metric is Metric.TRANSFER), ())


def _group(block: BlockRecord) -> tuple[str, str]:
    return str(block.shape.direction), str(block.colocation)


def _observations(blocks: tuple[BlockRecord, ...]) -> Observations:
    first = blocks[0]
    shapes = tuple(block.shape for block in blocks)
    by_launch = [{launched(c.plan, b.shape): _time_s(c) for c in b.cells if usable(c)} for b in blocks]
    plans = sorted({c.plan for b in blocks for c in b.cells if usable(c)}, key=lambda plan: plan.key)
    times_s = tuple(dict(_times(plan, shapes, by_launch)) for plan in plans)
    return Observations(first.shape.direction, first.colocation, shapes, tuple(plans), times_s, _margin(blocks))


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
