"""Poisons a context on purpose, in a process of its own, and prints what the library makes of it as JSON."""

import json
import sys

import numpy as np

from pega_tune.autotune.cuda.compile_cache import user_compile_cache
from pega_tune.autotune.cuda.engine import CudaEngine
from pega_tune.autotune.engine import EngineLostError
from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES
from pega_tune.kernels.driver import DriverCallError, DriverTable
from pega_tune.kernels.event_pool import EventPool
from pega_tune.kernels.executor import Execution
from pega_tune.kernels.memory import DeviceMemory, PinnedMemory
from pega_tune.kernels.plan import Variant
from pega_tune.kernels.probe import list_devices
from pega_tune.kernels.program import Launch, ProgramBuilder, Route
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.stream import Stream
from tests.helpers.engines import transfer_block
from tests.helpers.gpu import Rig

NOWHERE = 16  # in the first page, which no allocation gets


def main() -> None:
    """Runs a kernel on a bad address beside an open engine."""
    facts = list_devices()[0]
    engine = CudaEngine(facts.uuid, 256 << 20, 256 << 20, user_compile_cache())
    found: dict[str, object] = {}
    with Rig(facts) as rig:
        staging, descriptors, stream = PinnedMemory(4096), DeviceMemory(4096), Stream()
        staging.view().view(np.uint64)[:3] = (NOWHERE, NOWHERE + 4096, 4096)
        events = EventPool()
        builder = ProgramBuilder(Route(stream.handle, stream.handle, events))
        builder.copy(Direction.H2D, (descriptors.address, staging.address), DESCRIPTOR_BYTES)
        builder.launch(Launch(rig.functions[Variant.WARP].handle, 1, 32, (descriptors.address, 1)))
        execution = Execution(DriverTable.resolve(), builder.finish())
        try:
            execution.advance()  # what is recorded behind the kernel may already see how it ended
            stream.synchronize()
        except DriverCallError as error:
            found |= {"function": error.function, "name": error.name, "sticky": error.is_sticky}
        try:
            list(engine.transfer(transfer_block()))
        except EngineLostError as error:
            found["engine"] = error.message
        for owner in (events, stream, descriptors, staging):
            owner.close()
    engine.close()
    found["closed"] = True
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
