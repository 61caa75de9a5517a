"""The `batch` backend: all merged ranges in few calls of `cuMemcpyBatchAsync`."""

from typing import NamedTuple

import numpy as np

from pega_tune.errors import UsageError
from pega_tune.kernels.backends.base import UnsupportedPlanError, nothing, require
from pega_tune.kernels.batch_call import (
    COPIES_PER_CALL,
    LEGACY_STREAMS,
    MAX_COPIES_PER_CALL,
    BatchAttributes,
    BatchSignature,
)
from pega_tune.kernels.chunks import CopyColumns, cut
from pega_tune.kernels.commands import COMMAND, WORDS, Op, addresses_of
from pega_tune.kernels.descriptors import sides
from pega_tune.kernels.native import native
from pega_tune.kernels.plan import Backend, CopyPlan
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.program import Lease, Program, ProgramBuilder, Route
from pega_tune.kernels.ranges import Addresses, RangeBatch
from pega_tune.kernels.shape import Direction

_ADDRESS_BYTES = 8
_OP, _STREAM, _ARRAYS, _COPIES = 0, 1, (2, 3, 4), 5  # words of a command
_YIELD = int(Op.YIELD)
_OPS = {BatchSignature.V1: Op.BATCH_V1, BatchSignature.V2: Op.BATCH_V2}


class BatchBackend:
    """Leaves it to the driver how to move the ranges. See `TransferBackend`.

    The copies of a call have no order among them. A program gives way between the calls of a chunk, and of a transfer
    that is not chunked: they take the driver long. Use it only where `batch_probe` has found that it works.
    """

    def __init__(self, signature: BatchSignature, workspace: Workspace, copies_per_call: int = COPIES_PER_CALL) -> None:
        """Keeps what is needed to run.

        Args:
            signature: of the driver's function.
            workspace: for this backend alone.
            copies_per_call: most copies of one call of the driver, 1 to `MAX_COPIES_PER_CALL`. The first bytes move
                when the first call returns, and other programs get a turn before the next one.

        Raises:
            UsageError: a call would have no copies, or too many.
        """
        if not 1 <= copies_per_call <= MAX_COPIES_PER_CALL:
            raise UsageError(f"a call has 1 to {MAX_COPIES_PER_CALL} copies, not {copies_per_call}")
        self._copies_per_call = copies_per_call
        self._op = _OPS[signature]
        self._attributes = {prefers: BatchAttributes(signature, prefers) for prefers in (False, True)}
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
        if not len(batch):
            return nothing(route, self._lease)
        parts = [(0, len(merged))]
        if plan.chunk_bytes is not None:
            chunks = cut(columns, plan.chunk_bytes)
            columns, parts = chunks.columns, chunks.parts
        builder = ProgramBuilder(route)
        attributes = self._attributes[plan.prefer_overlap]
        builder.keep(columns, attributes)
        calls = _Calls(self._op, addresses_of(columns), attributes.arguments)
        for first, count in parts:
            if first and plan.backpressure:
                builder.complete_first()
            calls.add_to(builder, (first, count), self._copies_per_call)
        return builder.finish(self._lease)


class _Calls(NamedTuple):
    """What all calls of a program have in common.

    Attributes:
        op: of their commands.
        bases: addresses of destinations, sources and sizes.
        tail: arguments behind the number of copies.
    """

    op: Op
    bases: tuple[int, int, int]
    tail: tuple[int, ...]

    def add_to(self, builder: ProgramBuilder, part: tuple[int, int], most: int) -> None:
        """Calls for a part (first copy, number of copies), of at most so many copies, between which it gives way."""
        first, count = part
        if count <= most:
            builder.batch(self.op, (*(base + first * _ADDRESS_BYTES for base in self.bases), count, *self.tail))
            return
        stream = builder.route.stream
        given = (self.op, stream, *self.bases, 0, *self.tail)
        command = np.array((*given, *(0,) * (WORDS - len(given))), np.uint64)
        words = np.zeros((2 * -(-count // most) - 1, WORDS), np.uint64)
        _write_calls(command, (first, count, most), words)
        builder.extend(words.reshape(-1).view(COMMAND), stream)


@native
def _write_calls(command: Addresses, part: tuple[int, int, int], words: Addresses) -> None:
    """Writes the command of every call of a part (first copy, number of copies, most copies of a call).

    Between two calls is one that gives way; all of its words must have been 0.
    """
    first, count, most = part
    for row in range(0, words.shape[0], 2):
        words[row, :] = command
        done = row // 2 * most
        for column in _ARRAYS:
            words[row, column] += np.uint64((first + done) * _ADDRESS_BYTES)
        words[row, _COPIES] = min(most, count - done)
    for row in range(1, words.shape[0], 2):
        words[row, _OP], words[row, _STREAM] = _YIELD, command[_STREAM]
