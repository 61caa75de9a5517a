"""A driver made of compiled C functions whose streams run when they are told to, or on their own, but late.

Calls only enqueue. What a stream has been given happens in order, later: when the test says so (`complete`), or with
`hurry` a little at a time while somebody asks for events. Copies read their source, and launches their descriptors,
when they happen, so memory that changed too early shows as wrong bytes.
"""

from typing import NamedTuple

import numpy as np
from numba import carray, cfunc, njit, types

from pega_tune.kernels.driver import DriverFunction, DriverTable
from pega_tune.kernels.native import pointer

STREAMS = 4  # handles 1 to 4
EVENTS = 8192  # handles 1 to 8191
DEPTH = 1 << 15  # operations that one stream can be given
CALLS = 1 << 17  # calls that the log holds

NOT_READY = 600
INVALID_VALUE = 1
ILLEGAL_ADDRESS = 700

_COUNT, _FAIL_AT, _FAIL_STATUS, _DEAD, _SEED, _HEADER = range(6)
_NEVER = 2**62
_COPY, _LAUNCH, _AWAIT, _MARK = range(4)

# C functions see nothing but their arguments, so the state lies at addresses that are compiled into them.
_state = np.zeros(_HEADER, np.int64)
_given = np.zeros(STREAMS + 1, np.int64)
_happened = np.zeros(STREAMS + 1, np.int64)
_operations = np.zeros((STREAMS + 1, DEPTH, 4), np.uint64)  # kind and three operands
_recorded = np.zeros((EVENTS, 2), np.int64)  # the stream, and what it must have done
_log = np.zeros((CALLS, 5), np.uint64)  # function and arguments

i32, u32, u64 = types.int32, types.uint32, types.uint64


class LateCall(NamedTuple):
    """One call that the driver saw, a launch with its kernel's arguments alone."""

    function: DriverFunction
    arguments: tuple[int, ...]


class LateDriver:
    """The one late driver of this process; making it anew forgets what went before."""

    def __init__(self) -> None:
        for array in (_state, _given, _happened, _recorded):
            array[:] = 0
        _state[_FAIL_AT] = _NEVER
        self.table = DriverTable.of({function: _FAKES[function].address for function in DriverFunction})

    def fail(self, call: int, status: int) -> None:
        """Makes the call of that number, counted from 0, do nothing and fail; after 700 all later ones do too."""
        _state[_FAIL_AT], _state[_FAIL_STATUS] = call, status

    def hurry(self, seed: int) -> None:
        """Lets streams go on, by chance, whenever somebody asks for an event."""
        _state[_SEED] = seed | 1

    def complete(self, stream: int, operations: int = 1) -> int:
        """Lets up to so many operations of a stream happen; how many did."""
        return int(_happen(stream, operations))

    def complete_all(self) -> None:
        """Lets everything happen that was given to any stream."""
        while sum(self.complete(stream, DEPTH) for stream in range(1, STREAMS + 1)):
            pass

    def left(self, stream: int) -> int:
        """Operations that a stream has been given and that have not happened."""
        return int(_given[stream] - _happened[stream])

    @property
    def calls(self) -> list[LateCall]:
        """All calls so far."""
        count = int(_state[_COUNT])
        assert count <= CALLS, "more calls than the log holds"
        rows = _log[:count].tolist()
        return [LateCall(DriverFunction(row[0]), tuple(row[1 : 1 + _ARGUMENTS[row[0]]])) for row in rows]


_STATE, _GIVEN, _HAPPENED = (np.uint64(array.ctypes.data) for array in (_state, _given, _happened))
_OPERATIONS, _RECORDED, _LOG = (np.uint64(array.ctypes.data) for array in (_operations, _recorded, _log))


@njit
def _counters():
    given = carray(pointer(_GIVEN), STREAMS + 1, np.int64)
    return given, carray(pointer(_HAPPENED), STREAMS + 1, np.int64)


@njit
def _answer(function, arguments):
    """Logs a call; what it shall answer."""
    state = carray(pointer(_STATE), _HEADER, np.int64)
    call = state[_COUNT]
    state[_COUNT] += 1
    if call < CALLS:
        row = carray(pointer(_LOG), (CALLS, 5), np.uint64)[call]
        row[0] = function
        for i in range(len(arguments)):
            row[1 + i] = arguments[i]
    if call == state[_FAIL_AT]:
        if state[_FAIL_STATUS] == ILLEGAL_ADDRESS:
            state[_DEAD] = ILLEGAL_ADDRESS
        return np.int32(state[_FAIL_STATUS])
    return np.int32(state[_DEAD])


@njit
def _give(stream, kind, a, b, c):
    """Puts an operation at the end of a stream."""
    given, _ = _counters()
    row = carray(pointer(_OPERATIONS), (STREAMS + 1, DEPTH, 4), np.uint64)[stream, given[stream]]
    row[0], row[1], row[2], row[3] = np.uint64(kind), np.uint64(a), np.uint64(b), np.uint64(c)
    given[stream] += 1


@njit
def _move(destination, source, nbytes):
    target = carray(pointer(destination), np.int64(nbytes), np.uint8)
    target[:] = carray(pointer(source), np.int64(nbytes), np.uint8)


@njit
def _happen(stream, operations):
    """Lets operations of one stream happen until one has to wait for another stream."""
    given, happened = _counters()
    rows = carray(pointer(_OPERATIONS), (STREAMS + 1, DEPTH, 4), np.uint64)
    done = 0
    while done < operations and happened[stream] < given[stream]:
        row = rows[stream, happened[stream]]
        if row[0] == _AWAIT and happened[np.int64(row[1])] < np.int64(row[2]):
            break
        if row[0] == _COPY:
            _move(row[1], row[2], row[3])
        elif row[0] == _LAUNCH:
            descriptors = carray(pointer(row[1]), (np.int64(row[2]), 3), np.uint64)
            for i in range(descriptors.shape[0]):
                _move(descriptors[i, 0], descriptors[i, 1], descriptors[i, 2])
        happened[stream] += 1
        done += 1
    return done


@njit
def _hurry():
    """One step of a xorshift generator (Marsaglia 2003) decides which stream goes on, and how far."""
    state = carray(pointer(_STATE), _HEADER, np.int64)
    if state[_SEED] == 0:
        return
    x = np.uint64(state[_SEED])
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[_SEED] = np.int64(x)
    _happen(1 + np.int64(x % np.uint64(STREAMS)), np.int64((x >> np.uint64(8)) % np.uint64(5)))


def _memcpy(function):
    index = int(function)

    @cfunc(i32(u64, u64, u64, u64))
    def fake(destination, source, nbytes, stream):
        status = _answer(index, (destination, source, nbytes, stream))
        if status == 0:
            _give(np.int64(stream), _COPY, destination, source, nbytes)
        return status

    return fake


_LAUNCH_KERNEL = int(DriverFunction.LAUNCH_KERNEL)
_RECORD = int(DriverFunction.EVENT_RECORD)
_QUERY = int(DriverFunction.EVENT_QUERY)
_WAIT = int(DriverFunction.STREAM_WAIT_EVENT)


@cfunc(i32(u64, u32, u32, u32, u32, u32, u32, u32, u64, u64, u64))
def _launch(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):  # noqa: PLR0917 - as in cuda.h
    where = carray(pointer(parameters), 2, np.uint64)
    descriptors = carray(pointer(where[0]), 1, np.uint64)[0]
    count = carray(pointer(where[1]), 1, np.uint64)[0]
    status = _answer(_LAUNCH_KERNEL, (descriptors, count, stream))
    if status == 0:
        _give(np.int64(stream), _LAUNCH, descriptors, count, u64(0))
    return status


@cfunc(i32(u64, u64))
def _event_record(event, stream):
    status = _answer(_RECORD, (event, stream))
    if status == 0:
        given, _ = _counters()
        _give(np.int64(stream), _MARK, u64(0), u64(0), u64(0))
        recorded = carray(pointer(_RECORDED), (EVENTS, 2), np.int64)
        recorded[np.int64(event), 0] = np.int64(stream)
        recorded[np.int64(event), 1] = given[np.int64(stream)]
    return status


@cfunc(i32(u64, u64, u32))
def _stream_wait_event(stream, event, flags):
    status = _answer(_WAIT, (stream, event))
    if status == 0:
        recorded = carray(pointer(_RECORDED), (EVENTS, 2), np.int64)
        _give(np.int64(stream), _AWAIT, recorded[np.int64(event), 0], recorded[np.int64(event), 1], u64(0))
    return status


@cfunc(i32(u64))
def _event_query(event):
    _hurry()
    status = _answer(_QUERY, (event,))
    _, happened = _counters()
    recorded = carray(pointer(_RECORDED), (EVENTS, 2), np.int64)
    if status == 0 and happened[recorded[np.int64(event), 0]] < recorded[np.int64(event), 1]:
        return np.int32(NOT_READY)
    return status


@cfunc(i32())
def _not_supported():
    return np.int32(801)


_FAKES = dict.fromkeys(DriverFunction, _not_supported) | {
    DriverFunction.MEMCPY_HTOD_ASYNC: _memcpy(DriverFunction.MEMCPY_HTOD_ASYNC),
    DriverFunction.MEMCPY_DTOH_ASYNC: _memcpy(DriverFunction.MEMCPY_DTOH_ASYNC),
    DriverFunction.LAUNCH_KERNEL: _launch,
    DriverFunction.EVENT_RECORD: _event_record,
    DriverFunction.EVENT_QUERY: _event_query,
    DriverFunction.STREAM_WAIT_EVENT: _stream_wait_event,
}
_ARGUMENTS = dict.fromkeys(DriverFunction, 0) | {
    DriverFunction.MEMCPY_HTOD_ASYNC: 4,
    DriverFunction.MEMCPY_DTOH_ASYNC: 4,
    DriverFunction.LAUNCH_KERNEL: 3,
    DriverFunction.EVENT_RECORD: 2,
    DriverFunction.EVENT_QUERY: 1,
    DriverFunction.STREAM_WAIT_EVENT: 2,
}
