"""What every block has on a simulated device: refusals, shapes, and the faults that its candidates meet."""

import os
import signal
import time
from typing import Final

from pega_tune.autotune.engine import TransferBlock
from pega_tune.autotune.serving import ServingBlock
from pega_tune.autotune.sim.faults import SimFaults
from pega_tune.autotune.sim.model import refusal
from pega_tune.autotune.sim.parameters import SimParameters
from pega_tune.autotune.sweep.plans import legs_of
from pega_tune.kernels.plan import Backend, Variant
from pega_tune.kernels.shape import TransferShape
from pega_tune.kernels.stream_options import PartitionSupport

MISMATCH: Final = "rehearsed: byte 0 of range 0 is wrong"


class SimBlock:
    """The candidates of a block, by their index."""

    def __init__(self, parameters: SimParameters, faults: SimFaults, block: TransferBlock | ServingBlock) -> None:
        self._parameters: Final = parameters
        self._faults: Final = faults
        self._block: Final = block

    def refusal(self, index: int) -> str:
        """Why the device cannot run a candidate, one line; empty if it can."""
        plan = self._block.candidates[index].plan
        for leg in legs_of(plan):
            if leg.stream_priority not in self._parameters.priorities:
                return f"there is no stream priority {leg.stream_priority} here"
            if refused := partitions_of(self._parameters).refusal(leg.sm_partition):
                return refused
        return refusal(plan, self.shape(index))

    def shape(self, index: int) -> TransferShape:
        """What a candidate works on: raw ranges if it is of one CTA per range, else merged ones."""
        legs = legs_of(self._block.candidates[index].plan)
        raw = any(leg.backend is Backend.KERNEL and leg.variant is Variant.BLOCK for leg in legs)
        layout, shape = self._block.layout, self._block.shape
        return layout.described(shape) if raw else layout.merged(shape)

    def mismatched(self, index: int) -> bool:
        """Whether a candidate moves wrong bytes."""
        return self._faults.hits(self._faults.mismatch, self._block, index)

    def rehearse(self, index: int) -> None:
        """Crashes or hangs, if that is to be rehearsed with this candidate."""
        if self._faults.hits(self._faults.crash, self._block, index):
            os.kill(os.getpid(), signal.SIGKILL)
        while self._faults.hits(self._faults.hang, self._block, index):
            time.sleep(3600)


def partitions_of(parameters: SimParameters) -> PartitionSupport:
    """The partitions that a device has."""
    sizes = parameters.partitions
    return PartitionSupport(sizes) if sizes else PartitionSupport.no("the model has none")
