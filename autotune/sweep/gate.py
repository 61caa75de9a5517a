"""Whether what a sweep has learnt may be used: published, or kept as a draft or a part with the reasons."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pega_tune.autotune.engine import Status
from pega_tune.autotune.sweep.confirming import disagreements, second_pass
from pega_tune.autotune.sweep.observations import usable
from pega_tune.autotune.sweep.shapes import DIRECTIONS, Shortage
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.table import CompiledPolicy
from pega_tune.profiles.policy.terms import ProfileState
from pega_tune.profiles.store.records import BlockFlag, BlockRecord

DISTURBED = (BlockFlag.THROTTLED, BlockFlag.CONTENDED, BlockFlag.SLOW_LINK, BlockFlag.SERIALISED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a profile, and why it is not published; if it is, what it knows nothing of."""

    state: ProfileState
    reasons: tuple[str, ...]

    def with_caveat(self, caveat: str) -> "Verdict":
        """The verdict with one more reason not to publish; itself if that is empty."""
        if not caveat:
            return self
        state = ProfileState.DRAFT if self.state is ProfileState.PUBLISHED else self.state
        return Verdict(state, (*self.reasons, caveat))


def judge(
    policy: CompiledPolicy, blocks: Sequence[BlockRecord], missing: Sequence[str], shortage: Shortage | None = None
) -> Verdict:
    """Applies the publish gate. A simulated device may pass; its profile stays marked.

    Args:
        policy: compiled from the first pass of `blocks`.
        blocks: all that the sweep has stored, those of the second pass included.
        missing: why planned blocks were not measured; empty if all were.
        shortage: what memory left out of the plan, which keeps nothing from being published; None if nothing.
    """
    left_out = () if shortage is None else (shortage.words,)
    flaws = (
        *_mismatches(blocks),
        *_disturbances(blocks),
        *_unproven(policy, blocks),
        *_holes(policy),
        *disagreements(second_pass(policy, blocks)),
    )
    if missing:
        return Verdict(ProfileState.PARTIAL, (*missing, *flaws, *left_out))
    return Verdict(ProfileState.DRAFT if flaws else ProfileState.PUBLISHED, (*flaws, *left_out))


def is_disturbed(block: BlockRecord) -> bool:
    """Whether something was wrong with the device while a block was measured."""
    return any(flag in DISTURBED for flag in block.flags)


def _mismatches(blocks: Iterable[BlockRecord]) -> Iterable[str]:
    wrong = sorted({c.plan.key for b in blocks for c in b.cells if c.status == Status.MISMATCH})
    return [f"{key} moved wrong bytes" for key in wrong]


def _disturbances(blocks: Sequence[BlockRecord]) -> Iterable[str]:
    for flag in DISTURBED:
        count = sum(flag in block.flags for block in blocks)
        if count:
            yield f"{count} of {len(blocks)} blocks were measured {_while(flag)}"


def _while(flag: BlockFlag) -> str:
    words = {
        BlockFlag.THROTTLED: "while the device was throttled",
        BlockFlag.CONTENDED: "while other processes used the device",
        BlockFlag.SLOW_LINK: "over a link slower than the device's",
        BlockFlag.SERIALISED: "where transfers and decode do not run at once",
    }
    return words[flag]


def _unproven(policy: CompiledPolicy, blocks: Iterable[BlockRecord]) -> Iterable[str]:
    """Plans in the tables without a cell in which every byte of theirs was compared and right."""
    proven = {(b.shape.direction, c.plan) for b in blocks for c in b.cells if usable(c)}
    named: set[tuple[Direction, AnyPlan]] = {
        (table.direction, option.plan) for table in policy.tables for options in table.cells for option in options
    }
    return [f"{plan.key} was never verified {direction}" for direction, plan in sorted(named - proven, key=str)]


def _holes(policy: CompiledPolicy) -> Iterable[str]:
    measured = {table.direction for table in policy.tables}
    return [f"no plan could be measured {direction}" for direction in DIRECTIONS if direction not in measured]
