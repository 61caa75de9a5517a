"""A driver made of compiled C functions: logs every call, can fail, moves bytes between host buffers, and is late."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

from pega_tune.kernels.driver import DriverFunction, DriverTable

LOGGED_CALLS = 4096
EVENTS = 64  # that can be late at a time
TIMED = 2**40  # bit of the functions that write down spans, as many nanoseconds from the number of the call on:
CALL_NS, SPAN_NS = 1000, 100
_COUNT, _FAIL_AT, _FAIL_STATUS, _PENDING, _MOVES, _LATE, _HEADER = range(7)
_WIDTH = 1 + 11 + 2  # function, C arguments, kernel arguments
_NEVER = 2**64 - 1
_NOT_READY = 600

# C functions see nothing but their arguments, so the log lies at an address that is compiled into them.
_state = np.zeros(_HEADER + LOGGED_CALLS * _WIDTH, np.uint64)
_ADDRESS = np.uint64(_state.ctypes.data)
_SIZE = _state.size
_late = np.zeros((EVENTS, 2), np.uint64)  # events, and the queries until they have happened
_LATE_ADDRESS = np.uint64(_late.ctypes.data)

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
        _late[:] = 0
        self.table = DriverTable.of({function: _FAKES[function].address for function in DriverFunction})

    def fail(self, call: int, status: int) -> None:
        """Makes the call of that number, counted from 0, do nothing and return `status`."""
        _state[_FAIL_AT], _state[_FAIL_STATUS] = call, status

    def pend(self, queries: int) -> None:
        """Answers "not ready" to so many queries of an event."""
        _state[_PENDING] = queries

    def delay(self, queries: int) -> None:
        """Lets every event, once recorded, answer "not ready" to so many queries; waiting for it ends that at once."""
        _state[_LATE] = queries

    def forget(self) -> None:
        """Empties the log."""
        _state[_COUNT] = 0

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
_AWAIT = int(DriverFunction.STREAM_WAIT_EVENT)
_SLEEP = int(DriverFunction.EVENT_SYNCHRONIZE)
_COPY_2D = int(DriverFunction.MEMCPY_2D_ASYNC)
_BATCH_V1 = int(DriverFunction.MEMCPY_BATCH_ASYNC_V1)
_BATCH_V2 = int(DriverFunction.MEMCPY_BATCH_ASYNC_V2)
_GRAPH_LAUNCH = int(DriverFunction.GRAPH_LAUNCH)
_HOST = 1  # CU_MEMORYTYPE_HOST


@njit
def _write_spans(argument, blocks):
    begin = carray(_pointer(_ADDRESS), _SIZE, np.uint64)[_COUNT] * np.uint64(CALL_NS)
    spans = carray(_pointer(carray(_pointer(argument), 1, np.uint64)[0]), (np.int64(blocks), 2), np.uint64)
    spans[:, 0] = begin
    spans[:, 1] = begin + np.uint64(SPAN_NS)


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
    if status == 0 and function & u64(TIMED):
        _write_spans(carray(_pointer(parameters), 3, np.uint64)[2], gx)
    return status


@cfunc(i32(u64, u64))
def _copy_2d(parameters, stream):
    """Logs, in place of the address of a CUDA_MEMCPY2D, what is in it."""
    words = carray(_pointer(parameters), 16, np.uint64)
    source = (words[3] if words[2] & 0xFFFFFFFF == _HOST else words[4]) + words[0] + words[1] * words[6]
    destination = (words[10] if words[9] & 0xFFFFFFFF == _HOST else words[11]) + words[7] + words[8] * words[13]
    status = _log(_COPY_2D, (destination, words[13], source, words[6], words[14], words[15], stream))
    if status == 0:
        for row in range(np.int64(words[15])):
            _move(destination + np.uint64(row) * words[13], source + np.uint64(row) * words[6], words[14])
    return status


@njit
def _move_all(destinations, sources, sizes, count):
    if not carray(_pointer(_ADDRESS), _SIZE, np.uint64)[_MOVES]:
        return
    columns = (_pointer(destinations), _pointer(sources), _pointer(sizes))
    for i in range(np.int64(count)):
        _move(
            carray(columns[0], i + 1, np.uint64)[i],
            carray(columns[1], i + 1, np.uint64)[i],
            carray(columns[2], i + 1, np.uint64)[i],
        )


@cfunc(i32(*(u64,) * 9))
def _batch_v1(to, at, sizes, count, attributes, indices, kinds, failed, stream):  # noqa: PLR0917 - as in cuda.h
    status = _log(_BATCH_V1, (to, at, sizes, count, attributes, indices, kinds, failed, stream))
    if status == 0:
        _move_all(to, at, sizes, count)
    return status


@cfunc(i32(*(u64,) * 8))
def _batch_v2(to, at, sizes, count, attributes, indices, kinds, stream):  # noqa: PLR0917 - as in cuda.h
    status = _log(_BATCH_V2, (to, at, sizes, count, attributes, indices, kinds, stream))
    if status == 0:
        _move_all(to, at, sizes, count)
    return status


@njit
def _lateness(event, create):
    """(1,) queries left of an event; that of a free place if it has none and shall have one, else of none."""
    events = carray(_pointer(_LATE_ADDRESS), (EVENTS, 2), np.uint64)
    for i in range(EVENTS):
        if events[i, 0] == event:
            return events[i, 1:]
    for i in range(EVENTS):
        if create and not events[i, 0]:
            events[i, 0] = event
            return events[i, 1:]
    return events[0, :0]


@cfunc(i32(u64, u64))
def _event_record(event, stream):
    status = _log(_RECORD, (event, stream))
    left = _lateness(event, True)
    if status == 0 and left.size:
        left[0] = carray(_pointer(_ADDRESS), _SIZE, np.uint64)[_LATE]
    return status


@cfunc(i32(u64))
def _event_query(event):
    status = _log(_QUERY, (event,))
    state = carray(_pointer(_ADDRESS), _SIZE, np.uint64)
    if status == 0 and state[_PENDING]:
        state[_PENDING] -= np.uint64(1)
        return np.int32(_NOT_READY)
    left = _lateness(event, False)
    if status == 0 and left.size and left[0]:
        left[0] -= np.uint64(1)
        return np.int32(_NOT_READY)
    return status


@cfunc(i32(u64))
def _event_synchronize(event):
    status = _log(_SLEEP, (event,))
    left = _lateness(event, False)
    if left.size:
        left[0] = 0
    return status


@cfunc(i32(u64))
def _stream_synchronize(stream):
    return _log(_SYNCHRONIZE, (stream,))


@cfunc(i32(u64, u64, u32))
def _stream_wait_event(stream, event, flags):
    return _log(_AWAIT, (stream, event, u64(flags)))


@cfunc(i32(u64, u64))
def _graph_launch(graph, stream):
    return _log(_GRAPH_LAUNCH, (graph, stream))


_FAKES = {
    DriverFunction.MEMCPY_HTOD_ASYNC: _memcpy(DriverFunction.MEMCPY_HTOD_ASYNC),
    DriverFunction.MEMCPY_DTOH_ASYNC: _memcpy(DriverFunction.MEMCPY_DTOH_ASYNC),
    DriverFunction.LAUNCH_KERNEL: _launch,
    DriverFunction.EVENT_RECORD: _event_record,
    DriverFunction.EVENT_QUERY: _event_query,
    DriverFunction.STREAM_SYNCHRONIZE: _stream_synchronize,
    DriverFunction.STREAM_WAIT_EVENT: _stream_wait_event,
    DriverFunction.EVENT_SYNCHRONIZE: _event_synchronize,
    DriverFunction.MEMCPY_2D_ASYNC: _copy_2d,
    DriverFunction.MEMCPY_BATCH_ASYNC_V1: _batch_v1,
    DriverFunction.MEMCPY_BATCH_ASYNC_V2: _batch_v2,
    DriverFunction.GRAPH_LAUNCH: _graph_launch,
}
_ARGUMENTS = {
    DriverFunction.MEMCPY_HTOD_ASYNC: 4,
    DriverFunction.MEMCPY_DTOH_ASYNC: 4,
    DriverFunction.LAUNCH_KERNEL: 13,
    DriverFunction.EVENT_RECORD: 2,
    DriverFunction.EVENT_QUERY: 1,
    DriverFunction.STREAM_SYNCHRONIZE: 1,
    DriverFunction.STREAM_WAIT_EVENT: 3,
    DriverFunction.EVENT_SYNCHRONIZE: 1,
    DriverFunction.MEMCPY_2D_ASYNC: 7,
    DriverFunction.MEMCPY_BATCH_ASYNC_V1: 9,
    DriverFunction.MEMCPY_BATCH_ASYNC_V2: 8,
    DriverFunction.GRAPH_LAUNCH: 2,
}
