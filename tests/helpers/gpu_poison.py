"""An engine of a real GPU that runs a kernel on a bad address, for whoever has to replace it."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from pega_tune.autotune.cuda.engine import CudaEngine
from pega_tune.autotune.engine import Measurement, TransferBlock
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.event_pool import EventPool
from pega_tune.kernels.executor import Execution
from pega_tune.kernels.memory import DeviceMemory, PinnedMemory
from pega_tune.kernels.plan import Variant
from pega_tune.kernels.probe import list_devices
from pega_tune.kernels.program import Launch, ProgramBuilder, Route
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.stream import Stream
from tests.helpers.gpu import Rig

NOWHERE = 16  # in the first page, which no allocation gets
LIMIT_BYTES = 256 << 20


class PoisonedEngine(CudaEngine):
    """Loses its context before the first candidate of a block, until that one is excluded."""

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        """As `Engine.transfer`."""
        if not block.excluded:
            poison()
        return super().transfer(block)


@dataclass(frozen=True)
class PoisonedFactory:
    """Makes it in another process."""

    uuid: str

    def __call__(self) -> PoisonedEngine:
        return PoisonedEngine(self.uuid, LIMIT_BYTES, LIMIT_BYTES)


def poison() -> None:
    """Makes a kernel write to an illegal address; what it ran on is left to the process that ends."""
    rig, host, device, stream = Rig(list_devices()[0]), PinnedMemory(4096), DeviceMemory(4096), Stream()
    host.view().view(np.uint64)[:3] = (NOWHERE, NOWHERE + 4096, 4096)
    builder = ProgramBuilder(Route(stream.handle, stream.handle, EventPool()))
    builder.copy(Direction.H2D, (device.address, host.address), 24)
    builder.launch(Launch(rig.functions[Variant.WARP].handle, 1, 32, (device.address, 1)))
    with suppress(DriverCallError):
        Execution(rig.machinery.table, builder.finish()).advance()
        stream.synchronize()
