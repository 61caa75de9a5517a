"""The backends that need no more than ranges and descriptors, over one fake driver."""

import numpy as np

from pega_tune.kernels.backends.base import TransferBackend
from pega_tune.kernels.backends.direct import DirectBackend
from pega_tune.kernels.backends.kernel import KernelBackend
from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.plan import Backend, CopyPlan, Variant
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.program import Program
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from tests.helpers.fake_driver import Call, FakeDriver
from tests.helpers.programs import STREAM, route, run

END = 2**63 + 98
FUNCTIONS = {Variant.BLOCK: 2**63 + 1, Variant.WARP: 2**63 + 2}
SCATTERED = [(i * 8192, (7 - i) * 8192, (7 - i) * 8192 + 2**20, 4096, 0, 0) for i in range(8)]


class Rig:
    """Both backends over one fake driver; descriptors are uploaded to a buffer of this process."""

    def __init__(self, ranges: int = 64, descriptors: int = 256) -> None:
        self.driver = FakeDriver()
        self.pinned = np.zeros((descriptors, 3), np.uint64)
        self.scratch = np.zeros((descriptors, 3), np.uint64)
        self.device_address = self.scratch.ctypes.data
        self.space = DescriptorSpace(self.pinned, self.pinned.ctypes.data, self.device_address, descriptors)
        self._backends: dict[Backend, TransferBackend] = {
            Backend.DIRECT: DirectBackend(Workspace(ranges)),
            Backend.KERNEL: KernelBackend(FUNCTIONS, self.space),
        }

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan) -> Program:
        return self._backends[plan.backend].prepare(batch, direction, plan, route(end=END))

    def calls(self, batch: RangeBatch, direction: Direction, plan: CopyPlan) -> list[Call]:
        """What a plan asks of the driver before its end."""
        run(self.driver.table, self.prepare(batch, direction, plan))
        *calls, end, query = self.driver.calls
        assert (end.arguments, query.arguments) == ((END, STREAM), (END,))
        return calls
