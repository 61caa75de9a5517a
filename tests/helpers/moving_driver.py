"""A slow driver that moves bytes between buffers of this process at once, and refuses what CUDA would refuse."""

import ctypes
from collections.abc import Callable, Iterable

from pega_tune.kernels.driver import DriverFunction, DriverTable

NOT_READY = 600
INVALID_VALUE = 1
NOT_PERMITTED = 800
MAX_PITCH = 2**31 - 1
HOST, DEVICE = 1, 2
STREAM = 77

_size, _pointer, _handle = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64


class Memcpy2D(ctypes.Structure):
    """CUDA_MEMCPY2D_st of cuda.h."""

    _fields_ = (
        ("srcXInBytes", _size),
        ("srcY", _size),
        ("srcMemoryType", ctypes.c_int),
        ("srcHost", _pointer),
        ("srcDevice", ctypes.c_ulonglong),
        ("srcArray", _pointer),
        ("srcPitch", _size),
        ("dstXInBytes", _size),
        ("dstY", _size),
        ("dstMemoryType", ctypes.c_int),
        ("dstHost", _pointer),
        ("dstDevice", ctypes.c_ulonglong),
        ("dstArray", _pointer),
        ("dstPitch", _size),
        ("WidthInBytes", _size),
        ("Height", _size),
    )


class MemLocation(ctypes.Structure):
    """CUmemLocation_st of cuda.h."""

    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class MemcpyAttributes(ctypes.Structure):
    """CUmemcpyAttributes_st of cuda.h."""

    _fields_ = (
        ("srcAccessOrder", ctypes.c_int),
        ("srcLocHint", MemLocation),
        ("dstLocHint", MemLocation),
        ("flags", ctypes.c_uint),
    )


Call = tuple[DriverFunction, int]  # a copy with its bytes, a batch with its copies, else what it is about


class MovingDriver:
    """Answers every call of a driver table.

    Attributes:
        table: to be called through.
        calls: what was called, in order.
        flags: of the attributes of the batches.
        pending: how many queries of events answer "not ready".
        fault: batch and copy in it, counted from 0, that is spoiled by one byte; None for none.
    """

    def __init__(self, without: Iterable[DriverFunction] = ()) -> None:
        self.calls: list[Call] = []
        self.flags: set[int] = set()
        self.pending = 0
        self.fault: tuple[int, int] | None = None
        self._batches = 0
        absent = set(without)
        fakes: dict[DriverFunction, tuple[int, Callable[..., int]]] = {
            DriverFunction.MEMCPY_HTOD_ASYNC: (4, self._memcpy(DriverFunction.MEMCPY_HTOD_ASYNC)),
            DriverFunction.MEMCPY_DTOH_ASYNC: (4, self._memcpy(DriverFunction.MEMCPY_DTOH_ASYNC)),
            DriverFunction.MEMCPY_2D_ASYNC: (2, self._memcpy_2d),
            DriverFunction.MEMCPY_BATCH_ASYNC_V1: (9, self._batch_v1),
            DriverFunction.MEMCPY_BATCH_ASYNC_V2: (8, self._batch_v2),
            DriverFunction.EVENT_RECORD: (2, self._record),
            DriverFunction.EVENT_QUERY: (1, self._query),
        }
        self._callbacks = {
            function: ctypes.CFUNCTYPE(ctypes.c_int, *[_handle] * count)(fake)
            for function, (count, fake) in fakes.items()
        }
        refuse = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: NOT_PERMITTED)
        self._refuse = refuse
        addresses = {f: _address(self._callbacks.get(f, refuse)) for f in DriverFunction if f not in absent}
        self.table = DriverTable.of(addresses)

    def count(self, function: DriverFunction) -> int:
        """How often a function was called."""
        return sum(called is function for called, _ in self.calls)

    def _memcpy(self, function: DriverFunction) -> Callable[[int, int, int, int], int]:
        def memcpy(destination: int, source: int, nbytes: int, stream: int) -> int:
            self.calls.append((function, nbytes))
            if stream != STREAM:
                return INVALID_VALUE
            ctypes.memmove(destination, source, nbytes)
            return 0

        return memcpy

    def _memcpy_2d(self, parameters: int, stream: int) -> int:
        copy = Memcpy2D.from_address(parameters)
        self.calls.append((DriverFunction.MEMCPY_2D_ASYNC, copy.WidthInBytes * copy.Height))
        if stream != STREAM or {copy.srcMemoryType, copy.dstMemoryType} != {HOST, DEVICE}:
            return INVALID_VALUE
        if not copy.WidthInBytes <= min(copy.srcPitch, copy.dstPitch) <= max(copy.srcPitch, copy.dstPitch) <= MAX_PITCH:
            return INVALID_VALUE
        source = copy.srcHost if copy.srcMemoryType == HOST else copy.srcDevice
        destination = copy.dstHost if copy.dstMemoryType == HOST else copy.dstDevice
        for row in range(copy.Height):
            to = destination + (copy.dstY + row) * copy.dstPitch + copy.dstXInBytes
            at = source + (copy.srcY + row) * copy.srcPitch + copy.srcXInBytes
            ctypes.memmove(to, at, copy.WidthInBytes)
        return 0

    def _batch_v1(self, *arguments: int) -> int:
        failed = arguments[7]
        _words(failed, 1)[0] = 2**64 - 1
        return self._batch(DriverFunction.MEMCPY_BATCH_ASYNC_V1, arguments[:7], arguments[8])

    def _batch_v2(self, *arguments: int) -> int:
        return self._batch(DriverFunction.MEMCPY_BATCH_ASYNC_V2, arguments[:7], arguments[7])

    def _batch(self, function: DriverFunction, arguments: tuple[int, ...], stream: int) -> int:
        destinations, sources, sizes, count, attributes, first_copies, attribute_count = arguments
        self.calls.append((function, count))
        settings = MemcpyAttributes.from_address(attributes)
        self.flags.add(settings.flags)
        if stream != STREAM or not count or attribute_count != 1 or _words(first_copies, 1)[0] != 0:
            return INVALID_VALUE
        if settings.srcAccessOrder != 1 or settings.srcLocHint.type or settings.dstLocHint.type:
            return INVALID_VALUE
        rows = zip(*(_words(array, count) for array in (destinations, sources, sizes)), strict=True)
        for number, (destination, source, nbytes) in enumerate(rows):
            ctypes.memmove(destination, source, nbytes)
            if (self._batches, number) == self.fault:
                ctypes.c_uint8.from_address(destination).value ^= 1
        self._batches += 1
        return 0

    def _record(self, event: int, stream: int) -> int:
        self.calls.append((DriverFunction.EVENT_RECORD, event))
        return 0 if stream == STREAM else INVALID_VALUE

    def _query(self, event: int) -> int:
        self.calls.append((DriverFunction.EVENT_QUERY, event))
        if self.pending:
            self.pending -= 1
            return NOT_READY
        return 0


class CountingEvents:
    """Events with the handles 1, 2, 3 and so on."""

    def __init__(self) -> None:
        self.taken = 0

    def take(self) -> int:
        self.taken += 1
        return self.taken

    def give_back(self, events: Iterable[int]) -> None:
        raise AssertionError(f"a backend never gives events back: {events}")


def _address(callback: object) -> int:
    address = ctypes.cast(callback, _pointer).value  # type: ignore[arg-type]
    assert address
    return address


def _words(address: int, count: int) -> "ctypes.Array[ctypes.c_uint64]":
    return (ctypes.c_uint64 * count).from_address(address)
