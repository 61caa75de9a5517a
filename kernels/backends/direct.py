"""The `direct` backend: one asynchronous DMA memcpy per merged range."""

from dataclasses import dataclass

from pega_tune.kernels.backends.base import StaleError, require
from pega_tune.kernels.descriptors import sides
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.plan import Backend, CopyPlan
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.submit import CopyCommands, submit_copies


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCopies:
    """A batch ready for DMA.

    Attributes:
        commands: one per merged range, ascending by host address.
        serial: which preparation of its backend this is.
    """

    commands: CopyCommands
    serial: int


class DirectBackend:
    """Runs on copy engines alone; with a batch of one range it is the contiguous ceiling. See `TransferBackend`."""

    def __init__(self, table: DriverTable, workspace: Workspace) -> None:
        """Keeps what is needed to run.

        Args:
            table: the driver.
            workspace: for this backend alone.
        """
        self._table = table
        self._workspace = workspace
        self._serial = 0

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan) -> PreparedCopies:
        """As `TransferBackend.prepare`; the batch must stay as it is until `submit`."""
        require(plan, Backend.DIRECT)
        self._serial += 1
        merged = self._workspace.merge(batch)
        destination, source = sides(merged.device, merged.host, direction)
        return PreparedCopies(CopyCommands(direction, destination, source, merged.nbytes), self._serial)

    def submit(self, prepared: PreparedCopies, stream: int) -> None:
        """As `TransferBackend.submit`."""
        if prepared.serial != self._serial:
            raise StaleError("another batch has been prepared since")
        submit_copies(self._table, prepared.commands, stream)
