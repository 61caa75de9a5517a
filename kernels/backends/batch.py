"""The `batch` backend: all merged ranges in few calls of `cuMemcpyBatchAsync`."""

from pega_tune.kernels.backends.base import UnsupportedPlanError, require
from pega_tune.kernels.batch_call import LEGACY_STREAMS, MAX_COPIES_PER_CALL, BatchAttributes, BatchSignature
from pega_tune.kernels.chunks import CopyColumns, cut
from pega_tune.kernels.descriptors import sides
from pega_tune.kernels.plan import Backend, CopyPlan
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.program import Lease, Op, Program, ProgramBuilder, Route, address_of
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction

_ADDRESS_BYTES = 8
_OPS = {BatchSignature.V1: Op.BATCH_V1, BatchSignature.V2: Op.BATCH_V2}


class BatchBackend:
    """Leaves it to the driver how to move the ranges. See `TransferBackend`.

    The copies of a call have no order among them. Use it only where `batch_probe` has found that it works.
    """

    def __init__(self, signature: BatchSignature, workspace: Workspace, prefer_overlap: bool = False) -> None:
        """Keeps what is needed to run.

        Args:
            signature: of the driver's function.
            workspace: for this backend alone.
            prefer_overlap: asks the driver to keep SMs out of it (a hint).
        """
        self._op = _OPS[signature]
        self._attributes = BatchAttributes(signature, prefer_overlap)
        self._workspace = workspace
        self._lease = Lease()

    def prepare(self, batch: RangeBatch, direction: Direction, plan: CopyPlan, route: Route) -> Program:
        """As `TransferBackend.prepare`.

        Raises:
            UnsupportedPlanError: so, or the stream is the legacy default stream.
        """
        require(plan, Backend.BATCH)
        if route.stream in LEGACY_STREAMS:
            hint = "use a stream made with cuStreamCreate"
            raise UnsupportedPlanError("batched copies cannot run in the legacy default stream", hint)
        self._lease.revoked, self._lease = True, Lease()
        merged = self._workspace.merge(batch)
        columns: CopyColumns = (*sides(merged.device, merged.host, direction), merged.nbytes)
        parts = [(0, len(merged))]
        if plan.chunk_bytes is not None:
            chunks = cut(columns, plan.chunk_bytes)
            columns, parts = chunks.columns, chunks.parts
        builder = ProgramBuilder(route)
        builder.keep(columns, self._attributes)
        bases = [address_of(column) for column in columns]
        for first, count in parts:
            if first and plan.backpressure:
                builder.complete_first()
            self._add_calls(builder, bases, (first, count))
        return builder.finish(self._lease)

    def _add_calls(self, builder: ProgramBuilder, bases: list[int], part: tuple[int, int]) -> None:
        first, count = part
        for start in range(first, first + count, MAX_COPIES_PER_CALL):
            arrays = (base + start * _ADDRESS_BYTES for base in bases)
            copies = min(MAX_COPIES_PER_CALL, first + count - start)
            builder.batch(self._op, (*arrays, copies, *self._attributes.arguments))
