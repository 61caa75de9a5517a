"""What a parent knows of a block that a child runs: its order, and with it whose fault the loss of the child is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pega_tune.autotune.engine import Measurement, TransferBlock
from pega_tune.autotune.isolation.worker import Loss
from pega_tune.autotune.measuring.schedule import BlockSchedule
from pega_tune.autotune.measuring.serving.schedule import ServingSchedule
from pega_tune.autotune.serving import BASELINE, Segment, ServingBlock, failed_segment

Block = TypeVar("Block", TransferBlock, ServingBlock)
Taken = TypeVar("Taken", Measurement, Segment)


class Mirror(Protocol[Taken]):
    """Follows one run of a block."""

    def record(self, taken: Taken) -> None:
        """Takes what the child reports next."""

    def blame(self, loss: Loss) -> Taken | None:
        """What is reported of the candidate that ran when the child was lost; None if none did."""


class TransferMirror:
    """Of a block of transfers."""

    def __init__(self, block: TransferBlock) -> None:
        self._schedule = BlockSchedule(block)

    def record(self, taken: Measurement) -> None:
        """As `Mirror.record`."""
        self._schedule.record(taken)

    def blame(self, loss: Loss) -> Measurement | None:
        """As `Mirror.blame`."""
        step = self._schedule.next()
        return None if step is None else Measurement(step.candidate, step.phase, loss.status, detail=loss.detail)


class ServingMirror:
    """Of a serving block, where nobody is to blame for what happens in the baseline."""

    def __init__(self, block: ServingBlock) -> None:
        self._schedule = ServingSchedule(block)

    def record(self, taken: Segment) -> None:
        """As `Mirror.record`."""
        self._schedule.record(taken)

    def blame(self, loss: Loss) -> Segment | None:
        """As `Mirror.blame`."""
        candidate = self._schedule.next()
        if candidate is None or candidate == BASELINE:
            return None
        return failed_segment(candidate, loss.status, loss.detail)


@dataclass(frozen=True, slots=True)
class BlockKind(Generic[Block, Taken]):
    """What differs between the kinds of blocks.

    Attributes:
        mirror: follows a block.
        taken: what the child reports.
        watch: called with each of it; None for nobody.
    """

    mirror: Callable[[Block], Mirror[Taken]]
    taken: type[Taken]
    watch: Callable[[Taken], None] | None
