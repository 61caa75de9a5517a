"""Batched copies of a few kinds, there and back, every byte of them looked at; to be run where a crash does no harm."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import DeviceError
from pega_tune.kernels.batch_call import MAX_COPIES_PER_CALL, BatchAttributes, BatchSignature
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.ranges import Addresses

COUNTS: Final = (1, 5, 5000)
"""Ranges of the batches: one, a few, and more than one call takes."""

_SIZES: Final = (1, 3, 16, 512, 4096, 4097, 32_768)  # bytes; drivers change their way at some 24 to 28 KiB
_GAP_BYTES = 5
_POISON = 0xA5
_ADDRESS_BYTES = 8

_Bytes: TypeAlias = NDArray[np.uint8]
_Columns: TypeAlias = tuple[Addresses, Addresses, Addresses]  # destinations, sources, sizes


class BatchTrialError(DeviceError):
    """Batched copies are not there, or do not do what they should."""

    code = "batch-trial"


@dataclass(frozen=True, slots=True, eq=False)
class Arena:
    """Memory for a trial, `arena_bytes()` each.

    Attributes:
        device: address of device memory.
        outgoing: (n,) bytes of pinned host memory that are copied to the device.
        returning: (n,) bytes of pinned host memory that they are copied back to.
    """

    device: int
    outgoing: _Bytes
    returning: _Bytes


class BatchCall:
    """Calls `cuMemcpyBatchAsync`, as often as a batch needs."""

    def __init__(self, table: DriverTable, signature: BatchSignature) -> None:
        self._table = table
        self._signature = signature
        self._attributes = BatchAttributes(signature)
        parameters = 4 + len(self._attributes.arguments) + 1
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint64] * parameters)  # all have 64 bits
        self._function = prototype(int(table.address(signature.function)))

    def __call__(self, columns: _Columns, stream: int) -> None:
        """Enqueues the copies of (n,) columns.

        Raises:
            DriverCallError: a call failed.
        """
        total = len(columns[2])
        for start in range(0, total, MAX_COPIES_PER_CALL):
            arrays = (column.ctypes.data + start * _ADDRESS_BYTES for column in columns)
            count = min(MAX_COPIES_PER_CALL, total - start)
            status = self._function(*arrays, count, *self._attributes.arguments, stream)
            self._table.check(self._signature.function, status)


def arena_bytes() -> int:
    """Bytes of each of the three parts of an arena."""
    return int((_sizes(max(COUNTS)) + np.uint64(_GAP_BYTES)).sum())


def exchange(call: BatchCall, arena: Arena, count: int, stream: int, finish: Callable[[], None]) -> None:
    """Copies ranges of mixed sizes to places on the device that are in another order, and back, in a stream.

    Args:
        call: copies.
        arena: memory.
        count: how many ranges.
        stream: CUstream; not the legacy one.
        finish: waits for the stream.

    Raises:
        DriverCallError: a call, or the copies, failed.
        BatchTrialError: wrong bytes came back, or bytes between the ranges were touched.
    """
    random = np.random.default_rng(count)
    sizes = _sizes(count)
    at_host = _places(sizes, np.arange(count))
    at_device = np.uint64(arena.device) + _places(sizes, random.permutation(count))
    arena.outgoing[:] = random.integers(0, 256, len(arena.outgoing), dtype=np.uint8)
    arena.returning[:] = _POISON
    outgoing, returning = (np.uint64(view.ctypes.data) + at_host for view in (arena.outgoing, arena.returning))
    call((at_device, outgoing, sizes), stream)
    call((returning, at_device, sizes), stream)
    finish()
    expected = np.full_like(arena.returning, _POISON)
    for start, size in zip(at_host.tolist(), sizes.tolist(), strict=True):
        expected[start : start + size] = arena.outgoing[start : start + size]
    if not np.array_equal(arena.returning, expected):
        raise BatchTrialError(f"batched copies of {count} ranges moved wrong bytes")


def copy_and_verify(ordinal: int) -> BatchSignature:
    """The whole trial on a device, through the newest signature that its driver has.

    Raises:
        DeviceError: there is no such function, it failed, or it moved wrong bytes.
    """
    from pega_tune.kernels.context import PrimaryContext
    from pega_tune.kernels.memory import DeviceMemory, PinnedMemory
    from pega_tune.kernels.stream import Stream

    table = DriverTable.resolve()
    signature = BatchSignature.newest(table)
    if signature is None:
        raise BatchTrialError("the driver has no cuMemcpyBatchAsync", "it came with CUDA 12.8")
    call = BatchCall(table, signature)
    nbytes = arena_bytes()
    with (
        PrimaryContext(ordinal),
        Stream() as stream,
        DeviceMemory(nbytes) as device,
        PinnedMemory(nbytes) as outgoing,
        PinnedMemory(nbytes) as returning,
    ):
        arena = Arena(device.address, outgoing.view(), returning.view())
        for count in COUNTS:
            exchange(call, arena, count, stream.handle, stream.synchronize)
    return signature


def _sizes(count: int) -> Addresses:
    """(count,) sizes of ranges."""
    return np.resize(np.array(_SIZES, np.uint64), count)


def _places(sizes: Addresses, order: NDArray[np.int64]) -> Addresses:
    """(n,) offsets of ranges that lie one after another in an order, with gaps."""
    steps = sizes[order] + np.uint64(_GAP_BYTES)
    places = np.empty_like(sizes)
    places[order] = np.cumsum(steps) - steps
    return places
