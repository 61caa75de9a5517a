"""What the tables of a sweep choose where it was measured, and at which of these shapes that tells the most."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot, log2
from statistics import median
from typing import Final

from pega_tune.autotune.engine import Candidate, CandidateKind, SamplingLimits, TransferBlock
from pega_tune.autotune.sweep.keys import block_seed, layout_of
from pega_tune.autotune.sweep.observations import hint_of, transfer_samples, usable
from pega_tune.autotune.sweep.plans import CEILING, launched, legs_of
from pega_tune.autotune.sweep.shapes import FULL_COUNTS
from pega_tune.kernels.plan import AnyPlan, PlanPair, direct
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.choose import Demand, choose
from pega_tune.profiles.policy.rule import rule
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import Colocation, Hint, Objective, Runtime
from pega_tune.profiles.store.records import BlockRecord, CellRecord

# Below it a transfer is latency alone, which differs from process to process; above it, verifying costs too much.
LEAST_BYTES: Final = 64 << 10
MOST_BYTES: Final = 64 << 20

# Whatever it takes: the question is which plan is fastest.
_FASTEST: Final = Demand(Objective.THROUGHPUT, period_s=1e9)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the tables choose at a measured shape.

    Attributes:
        key: of the block that measured it.
        shape: what is moved.
        plan: the choice of `throughput` for a runtime that can run everything.
        margin: relative difference of times that is noise.
    """

    key: str
    shape: TransferShape
    plan: AnyPlan
    margin: float


def chosen_at(policy: CompiledPolicy, shapes: Mapping[str, TransferShape]) -> tuple[Chosen, ...]:
    """The choices at shapes, by the keys of their blocks; a shape for which there is no table is left out."""
    return tuple(found for key, shape in shapes.items() if (found := _choice(policy, key, shape)) is not None)


def _choice(policy: CompiledPolicy, key: str, shape: TransferShape) -> Chosen | None:
    hint = hint_of(shape)
    table = hint and policy.find(shape.direction, Colocation.IDLE, Runtime.FULL, hint)
    if not table:
        return None
    options = table.look_up(shape.merged_ranges, shape.average_range_bytes)
    return Chosen(key, shape, choose(options, _FASTEST, table.margin).option.plan, table.margin)


def worth_measuring(shapes: Iterable[TransferShape]) -> Iterator[TransferShape]:
    """Shapes that take more than latency, and not too long."""
    return (shape for shape in shapes if LEAST_BYTES <= shape.total_bytes <= MOST_BYTES)


def telling(chosen: Sequence[Chosen], boundary: int, middle: int) -> tuple[Chosen, ...]:
    """Some of the choices of one direction and hint: the canonical shape, so many at boundaries, so many in the middle.

    At a boundary the nearest shape with more or fewer ranges, or with larger or smaller ones, has a choice of another
    kind. Each further shape is the farthest from those before it, so that with larger numbers there are more of the
    same. Where there are too few of one kind, there are more of the other.
    """
    rest = [one for one in chosen if one.shape in set(worth_measuring(c.shape for c in chosen))]
    if not rest:
        return ()
    kept = [max(rest, key=lambda one: (_is_canonical(one.shape), one.shape.total_bytes, one.shape.merged_ranges))]
    edges = [one for one in rest if _at_boundary(one, rest)]
    others = [one for one in rest if one not in edges]
    for first, second, count in ((edges, others, boundary), (others, edges, middle)):
        for _ in range(count):
            left = [one for one in first if one not in kept] or [one for one in second if one not in kept]
            if left:
                kept.append(max(left, key=lambda one: (min(_apart(one, other) for other in kept), one.key)))
    return tuple(kept)


def among(chosen: Iterable[Chosen], direction: Direction, hint: Hint = Hint.NONE) -> tuple[Chosen, ...]:
    """Those of one direction whose ranges lie in one way."""
    return tuple(one for one in chosen if one.shape.direction is direction and hint_of(one.shape) is hint)


def cell_of(block: BlockRecord, plan: AnyPlan) -> CellRecord | None:
    """The usable cell of a block in which a plan, or one that launches the same, was measured; None without one."""
    wanted = launched(plan, block.shape)
    return next((c for c in block.cells if usable(c) and launched(c.plan, block.shape) == wanted), None)


def rivals(block: BlockRecord, plan: AnyPlan) -> Iterator[AnyPlan]:
    """The plans of a block but for this one, the fastest first, each launch once."""
    cells = (cell for cell in block.cells if usable(cell))
    first: dict[AnyPlan, AnyPlan] = {}
    for cell in sorted(cells, key=lambda cell: (median(transfer_samples(cell)), cell.name)):
        first.setdefault(launched(cell.plan, block.shape), cell.plan)
    first.pop(launched(plan, block.shape), None)
    yield from first.values()


def fallback(block: BlockRecord) -> Iterator[AnyPlan]:
    """What would be done without a profile, if that was measured in the block."""
    plan, _ = rule(block.shape, Objective.THROUGHPUT, Runtime.FULL)
    if cell_of(block, plan):
        yield plan


def block_at(chosen: Chosen, key: str, plans: Iterable[AnyPlan], limits: SamplingLimits, seed: int) -> TransferBlock:
    """A block that compares plans, and the contiguous copy, at the shape of a choice, with ranges that lie alike."""
    plain = replace(chosen.shape, host_runs=None, alignment=None, pitch=None)
    compared = candidates_of(chosen.shape, plans)
    return TransferBlock(key, plain, compared, limits, block_seed(seed, key), layout=layout_of(chosen.key))


def candidates_of(shape: TransferShape, plans: Iterable[AnyPlan]) -> tuple[Candidate, ...]:
    """The ceiling, and these plans, each launch once."""
    both = shape.direction is Direction.BOTH
    first: dict[AnyPlan, AnyPlan] = {}
    for plan in plans:
        first.setdefault(launched(plan, shape), plan)
    ceiling = Candidate(CEILING, CandidateKind.CEILING, PlanPair(direct(), direct()) if both else direct())
    return (ceiling, *(Candidate(plan.key, CandidateKind.PLAN, plan) for plan in first.values()))


def kind_of(plan: AnyPlan) -> str:
    """How a plan moves its bytes, whatever its bounds: `kernel/warp`, or `kernel/warp + direct` for a mixed pair."""
    legs = (str(leg.backend) if leg.variant is None else f"{leg.backend}/{leg.variant}" for leg in legs_of(plan))
    return " + ".join(dict.fromkeys(legs))


def is_mixed(plan: AnyPlan) -> bool:
    """Whether a pair loads in one way and saves in another."""
    return len({(leg.backend, leg.variant) for leg in legs_of(plan)}) > 1


def _is_canonical(shape: TransferShape) -> bool:
    return (shape.merged_ranges, shape.average_range_bytes) in FULL_COUNTS


def _at_boundary(one: Chosen, chosen: Sequence[Chosen]) -> bool:
    return any(kind_of(other.plan) != kind_of(one.plan) for other in _neighbours(one, chosen))


def _neighbours(one: Chosen, chosen: Sequence[Chosen]) -> Iterator[Chosen]:
    """The nearest shape each way that differs in ranges alone, or in their size alone."""
    ranges, size = one.shape.merged_ranges, one.shape.average_range_bytes
    row = {c.shape.average_range_bytes: c for c in chosen if c.shape.merged_ranges == ranges}
    column = {c.shape.merged_ranges: c for c in chosen if c.shape.average_range_bytes == size}
    for line, place in ((row, size), (column, ranges)):
        below, above = [x for x in line if x < place], [x for x in line if x > place]
        yield from (line[x] for x in (*sorted(below)[-1:], *sorted(above)[:1]))


def _apart(one: Chosen, other: Chosen) -> float:
    """Distance in octaves of ranges and of their size."""
    a, b = one.shape, other.shape
    return hypot(
        log2(a.merged_ranges / b.merged_ranges),
        log2(a.total_bytes / a.merged_ranges) - log2(b.total_bytes / b.merged_ranges),
    )
