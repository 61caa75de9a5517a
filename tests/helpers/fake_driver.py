"""A driver made of compiled C functions: logs every call, can fail, and moves bytes between host buffers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

from pega_tune.kernels.driver import DriverFunction, DriverTable

LOGGED_CALLS = 4096
_COUNT, _FAIL_AT, _FAIL_STATUS, _PENDING, _MOVES, _HEADER = range(6)
_WIDTH = 1 + 11 + 2  # function, C arguments, kernel arguments
_NEVER = 2**64 - 1
_NOT_READY = 600

# C functions see nothing but their arguments, so the log lies at an address that is compiled into them.
_state = np.zeros(_HEADER + LOGGED_CALLS * _WIDTH, np.uint64)
_ADDRESS = np.uint64(_state.ctypes.data)
_SIZE = _state.size

i32, u32, u64 = types.int32, types.uint32, types.uint64


class Call(NamedTuple):
    """One call that the fake saw; the arguments of `cuLaunchKernel` end with those of the kernel."""

    function: DriverFunction
    arguments: tuple[int, ...]


class FakeDriver:
    """The one fake of this process; making it anew forgets what went before."""

    def __init__(self) -> None:
        _state[:] = 0
        _state[_FAIL_AT] = _NEVER
        self.table = DriverTable.of({function.symbol: _FAKES[function].address for function in DriverFunction})

    def fail(self, call: int, status: int) -> None:
        """Makes the call of that number, counted from 0, do nothing and return `status`."""
        _state[_FAIL_AT], _state[_FAIL_STATUS] = call, status

    def pend(self, queries: int) -> None:
        """Answers "not ready" to so many queries of an event."""
        _state[_PENDING] = queries

    def move_bytes(self) -> None:
        """Makes copies copy, and launches run their descriptors, between buffers of this process."""
        _state[_MOVES] = 1

    @property
    def calls(self) -> list[Call]:
        """All calls so far."""
        count = int(_state[_COUNT])
        assert count <= LOGGED_CALLS, "more calls than the log holds"
        rows = _state[_HEADER : _HEADER + count * _WIDTH].reshape(count, _WIDTH).tolist()
        return [Call(DriverFunction(row[0]), tuple(row[1 : 1 + _ARGUMENTS[DriverFunction(row[0])]])) for row in rows]


def _to_pointer(_typing_context: Any, _address: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())

    return types.voidptr(u64), codegen


_pointer: Callable[[Any], Any] = intrinsic(_to_pointer)


@njit
def _log(function, arguments):
    """Writes a row, and returns what the call shall answer."""
    state = carray(_pointer(_ADDRESS), _SIZE, np.uint64)
    call = np.int64(state[_COUNT])
    state[_COUNT] += np.uint64(1)
    if call < LOGGED_CALLS:
        row = state[_HEADER + call * _WIDTH : _HEADER + (call + 1) * _WIDTH]
        row[0] = function
        for i in range(len(arguments)):
            row[1 + i] = arguments[i]
    return np.int32(state[_FAIL_STATUS]) if np.uint64(call) == state[_FAIL_AT] else np.int32(0)


@njit
def _move(destination, source, nbytes):
    if carray(_pointer(_ADDRESS), _SIZE, np.uint64)[_MOVES]:
        target = carray(_pointer(destination), np.int64(nbytes), np.uint8)
        target[:] = carray(_pointer(source), np.int64(nbytes), np.uint8)


def _memcpy(function):
    index = int(function)

    @cfunc(i32(u64, u64, u64, u64))
    def fake(destination, source, nbytes, stream):
        status = _log(index, (destination, source, nbytes, stream))
        if status == 0:
            _move(destination, source, nbytes)
        return status

    return fake


_LAUNCH = int(DriverFunction.LAUNCH_KERNEL)
_RECORD = int(DriverFunction.EVENT_RECORD)
_QUERY = int(DriverFunction.EVENT_QUERY)
_SYNCHRONIZE = int(DriverFunction.STREAM_SYNCHRONIZE)


@cfunc(i32(u64, u32, u32, u32, u32, u32, u32, u32, u64, u64, u64))
def _launch(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):  # noqa: PLR0917 - as in cuda.h
    where = carray(_pointer(parameters), 2, np.uint64)
    descriptors = carray(_pointer(where[0]), 1, np.uint64)[0]
    count = carray(_pointer(where[1]), 1, np.uint64)[0]
    grid, block = (u64(gx), u64(gy), u64(gz)), (u64(bx), u64(by), u64(bz))
    logged = (function, *grid, *block, u64(shared), stream, parameters, extra, descriptors, count)
    status = _log(_LAUNCH, logged)
    if status == 0 and carray(_pointer(_ADDRESS), _SIZE, np.uint64)[_MOVES]:
        rows = carray(_pointer(descriptors), (np.int64(count), 3), np.uint64)
        for i in range(rows.shape[0]):
            _move(rows[i, 0], rows[i, 1], rows[i, 2])
    return status


@cfunc(i32(u64, u64))
def _event_record(event, stream):
    return _log(_RECORD, (event, stream))


@cfunc(i32(u64))
def _event_query(event):
    status = _log(_QUERY, (event,))
    state = carray(_pointer(_ADDRESS), _SIZE, np.uint64)
    if status == 0 and state[_PENDING]:
        state[_PENDING] -= np.uint64(1)
        return np.int32(_NOT_READY)
    return status


@cfunc(i32(u64))
def _stream_synchronize(stream):
    return _log(_SYNCHRONIZE, (stream,))


_FAKES = {
    DriverFunction.MEMCPY_HTOD_ASYNC: _memcpy(DriverFunction.MEMCPY_HTOD_ASYNC),
    DriverFunction.MEMCPY_DTOH_ASYNC: _memcpy(DriverFunction.MEMCPY_DTOH_ASYNC),
    DriverFunction.LAUNCH_KERNEL: _launch,
    DriverFunction.EVENT_RECORD: _event_record,
    DriverFunction.EVENT_QUERY: _event_query,
    DriverFunction.STREAM_SYNCHRONIZE: _stream_synchronize,
}
_ARGUMENTS = {
    DriverFunction.MEMCPY_HTOD_ASYNC: 4,
    DriverFunction.MEMCPY_DTOH_ASYNC: 4,
    DriverFunction.LAUNCH_KERNEL: 13,
    DriverFunction.EVENT_RECORD: 2,
    DriverFunction.EVENT_QUERY: 1,
    DriverFunction.STREAM_SYNCHRONIZE: 1,
}
