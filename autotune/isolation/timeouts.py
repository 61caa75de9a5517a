"""How long a child may be silent."""

from dataclasses import dataclass
from typing import Final

from pega_tune.autotune.engine import TransferBlock
from pega_tune.autotune.serving import ServingBlock

_UNKNOWN_PERIOD_S: Final = 1.0
"""Taken for a period that is yet to be measured: longer than steps and transfers are."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the child may be silent, in seconds.

    Attributes:
        start_s: until its engine is ready, compiling included; the same again until decode runs beside it.
        step_s: from one measurement to the next, preparing the block included; beside what a segment has to take.
        close_s: to end when asked.
    """

    start_s: float = 180.0
    step_s: float = 60.0
    close_s: float = 2.0

    def before(self, block: TransferBlock | ServingBlock, first: bool) -> float:
        """Seconds until the next measurement, or segment, of a block."""
        if isinstance(block, TransferBlock):
            return self.step_s
        pacing = block.pacing
        segment_s = (pacing.bursts + 2) * (pacing.period_s or _UNKNOWN_PERIOD_S)
        return self.step_s + segment_s + (self.start_s if first else 0.0)
