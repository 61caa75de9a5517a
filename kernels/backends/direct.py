"""The `direct` backend: one asynchronous DMA memcpy per merged range."""

from pega_tune.kernels.backends.base import nothing, require
from pega_tune.kernels.chunks import CopyColumns, cut
from pega_tune.kernels.descriptors import sides
from pega_tune.kernels.plan import Backend, CopyPlan
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.program import Lease, Program, ProgramBuilder, Route
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction


class DirectBackend:
    """Runs on copy engines alone; with a batch of one range it is the contiguous ceiling. See `TransferBackend`."""

    def __init__(self, workspace: Workspace) -> None:
        """Keeps what is needed to run.

        Args:
            workspace: for this backend alone.
        """
        self._workspace = workspace
        self._lease = Lease()

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan, route: Route) -> Program:
        """As `TransferBackend.prepare`."""
        require(plan, Backend.DIRECT)
        self._lease.revoked, self._lease = True, Lease()
        merged = self._workspace.merge(batch)
        destination, source = sides(merged.device, merged.host, direction)
        if not len(batch):
            return nothing(route, self._lease)
        builder = ProgramBuilder(route)
        builder.keep(batch, self._workspace)
        if plan.chunk_bytes is not None and batch.total_bytes > plan.chunk_bytes:
            _add_chunks(builder, direction, (destination, source, merged.nbytes), plan)
        elif len(merged) == 1:
            builder.copy(direction, (int(destination[0]), int(source[0])), int(merged.nbytes[0]))
        else:
            builder.copies(direction, (destination, source, merged.nbytes))
        return builder.finish(self._lease)


def _add_chunks(builder: ProgramBuilder, direction: Direction, columns: CopyColumns, plan: CopyPlan) -> None:
    assert plan.chunk_bytes is not None
    chunks = cut(columns, plan.chunk_bytes)
    if not plan.backpressure:
        builder.copies(direction, chunks.columns)
        return
    for first, count in chunks.parts:
        if first:
            builder.complete_first()
        builder.copies(direction, chunks.columns, (first, count))
