"""What to measure again of a profile, and what is stored of it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pega_tune.autotune.engine import CandidateKind, SamplingLimits, Status, TransferBlock
from pega_tune.autotune.sweep.choices import (
    Chosen,
    among,
    block_at,
    cell_of,
    chosen_at,
    is_mixed,
    kind_of,
    rivals,
    telling,
)
from pega_tune.autotune.sweep.keys import confirms, is_idle, shape_of
from pega_tune.autotune.sweep.observations import hint_of, transfer_samples
from pega_tune.autotune.sweep.shapes import DIRECTIONS
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import Hint
from pega_tune.profiles.store.records import BlockRecord, CellRecord

BOUNDARIES: Final = 2
MIDDLE: Final = 1
MOST_RIVALS: Final = 3

# Fewer samples bound no median. A plan that was slow enough to leave the stored block early has fewer.
_LEAST_SAMPLES: Final = 6

# Nothing leaves early, and nothing ends early: two sets of samples are compared, and no winner is looked for.
_LIMITS: Final = SamplingLimits(budget_s=0.06, min_rounds=14, max_rounds=100, drop_ratio=1e9, settled_width=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """A shape to measure again.

    Attributes:
        chosen: the shape and the plan that the profile chooses there.
        plans: that plan, and the strongest of the other kinds; mixed pairs only if chosen.
        stored: the blocks in which the shape was measured, each in a process of its own.
    """

    chosen: Chosen
    plans: tuple[AnyPlan, ...]
    stored: tuple[BlockRecord, ...] = field(repr=False)

    @property
    def shape(self) -> TransferShape:
        """What is moved."""
        return self.chosen.shape

    def block(self, seed: int, number: int) -> TransferBlock:
        """The block that measures it for the `number`-th time."""
        key = f"canary/{self.chosen.key}/{number}"
        return block_at(self.chosen, key, self.plans, _LIMITS, seed)


def choose_shapes(policy: CompiledPolicy, keys: Iterable[str]) -> tuple[Chosen, ...]:
    """Of the shapes that a sweep's first pass measured, those to measure again: most telling first.

    In each direction the canonical shape, some at boundaries and one in the middle; and one of each layout of which the
    profile has a table.

    Args:
        policy: the tables of the profile.
        keys: of the sweep's blocks.
    """
    shapes = {key: shape_of(key) for key in keys if is_idle(key)}
    chosen = chosen_at(policy, shapes)
    rows = [telling(among(chosen, direction), BOUNDARIES, MIDDLE) for direction in DIRECTIONS]
    firsts = [row[0] for row in rows if row]
    others = [one for row in rows for one in row[1:]]
    return (*firsts, *_hinted(chosen), *others)


def probes_of(chosen: Iterable[Chosen], blocks: Mapping[str, BlockRecord]) -> tuple[Probe, ...]:
    """What to measure at these shapes; without those of which too little is stored.

    Args:
        chosen: the shapes.
        blocks: those of the shapes, and those of the sweep's second pass, by key.
    """
    again = [block for key, block in blocks.items() if confirms(key)]
    return tuple(probe for one in chosen if (probe := _probe(one, blocks, again)) is not None)


def ceiling_of(block: BlockRecord) -> CellRecord | None:
    """The contiguous copy of a block, if it was timed."""
    return next((c for c in block.cells if c.kind == CandidateKind.CEILING and c.status == Status.OK), None)


def _hinted(chosen: Iterable[Chosen]) -> Iterator[Chosen]:
    for hint in Hint:
        if hint is not Hint.NONE:
            yield from telling([one for one in chosen if hint_of(one.shape) is hint], 0, 0)


def _probe(chosen: Chosen, blocks: Mapping[str, BlockRecord], again: Iterable[BlockRecord]) -> Probe | None:
    first = blocks.get(chosen.key)
    if first is None or not _timed(ceiling_of(first)):
        return None
    kinds: dict[str, AnyPlan] = {}
    for plan in (chosen.plan, *rivals(first, chosen.plan)):
        if _timed(cell_of(first, plan)) and (plan == chosen.plan or not is_mixed(plan)):
            kinds.setdefault(kind_of(plan), plan)
    plans = tuple(kinds.values())[: 1 + MOST_RIVALS]
    stored = (first, *(block for block in again if block.shape == chosen.shape))
    return Probe(chosen, plans, stored) if plans else None


def _timed(cell: CellRecord | None) -> bool:
    return cell is not None and len(transfer_samples(cell)) >= _LEAST_SAMPLES
