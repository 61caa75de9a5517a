"""The batch that a benchmark moves again and again, and what its results are called."""

from dataclasses import dataclass
from typing import Final

from pega_tune.autotune.engine import CandidateKind
from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction, TransferShape

MAX_ROUNDS: Final = 10_000


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """What to move; every benchmark adds how.

    Attributes:
        ranges: number of ranges, per direction.
        range_bytes: bytes of each.
        layout: how they lie.
        seed: of layout, order and data.
    """

    ranges: int = 16_384
    range_bytes: int = 4096
    layout: NamedLayout = SHUFFLED
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**31:
            raise UsageError(f"a seed is 0 to 2^31 - 1, not {self.seed}")

    def shape(self, direction: Direction) -> TransferShape:
        """The shape of the batch in a direction, with what the layout tells.

        Raises:
            UsageError: there is no such shape, or it cannot have that layout.
        """
        return self.layout.described(TransferShape(self.ranges, self.ranges * self.range_bytes, direction))


def require_rounds(rounds: int) -> None:
    """Refuses to run forever, or not at all.

    Raises:
        UsageError: there are none, or more than `MAX_ROUNDS`.
    """
    if not 1 <= rounds <= MAX_ROUNDS:
        raise UsageError(f"a benchmark has 1 to {MAX_ROUNDS:,} rounds, not {rounds}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a result, before it is measured.

    Attributes:
        name: unique within its block.
        kind: plan, static rule or ceiling.
        plan: how it moves the bytes.
        candidate: the candidate of the block that measures it; another one's if both launch the same.
    """

    name: str
    kind: CandidateKind
    plan: AnyPlan
    candidate: str
