"""Runs programs: one native function that makes the driver calls of a command array, and its faces.

It runs without the GIL and never waits: at a barrier whose event is pending it returns, and goes on there next time;
where a program gives way it returns, and goes on behind.
"""

from array import array
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
from numba import carray, types
from numpy.typing import NDArray

from pega_tune.kernels.commands import WORDS, Commands, Op
from pega_tune.kernels.driver import NOT_READY, SUCCESS, DriverCallError, DriverFunction, DriverTable
from pega_tune.kernels.native import callback, foreign, native, pointer
from pega_tune.kernels.program import Program, StaleError
from pega_tune.kernels.ranges import Addresses

# In cuda.h CUdeviceptr, CUfunction, CUstream, CUevent, pointers and size_t have 64 bits, unsigned int has 32.
_u32, _u64 = types.uint32, types.uint64
_memcpy_async = foreign(_u64, _u64, _u64, _u64)  # destination, source, bytes, stream
_memcpy_2d_async = foreign(_u64, _u64)  # parameters, stream
_batch_async_v1 = foreign(
    *(_u64,) * 9
)  # destinations, sources, sizes, count, attributes, indices, count, failed, stream
_batch_async_v2 = foreign(*(_u64,) * 8)  # the same without where it failed
_launch_kernel = foreign(  # function, grid x y z, block x y z, shared bytes, stream, parameters, extra
    _u64, _u32, _u32, _u32, _u32, _u32, _u32, _u32, _u64, _u64, _u64
)
_event_record = foreign(_u64, _u64)  # event, stream
_event_query = foreign(_u64)  # event
_stream_wait_event = foreign(_u64, _u64, _u32)  # stream, event, flags
_host_function = foreign(_u64)  # argument

_FUNCTIONS: Final = {
    Op.COPY_TO_DEVICE: DriverFunction.MEMCPY_HTOD_ASYNC,
    Op.COPY_TO_HOST: DriverFunction.MEMCPY_DTOH_ASYNC,
    Op.COPIES_TO_DEVICE: DriverFunction.MEMCPY_HTOD_ASYNC,
    Op.COPIES_TO_HOST: DriverFunction.MEMCPY_DTOH_ASYNC,
    Op.COPY_2D: DriverFunction.MEMCPY_2D_ASYNC,
    Op.BATCH_V1: DriverFunction.MEMCPY_BATCH_ASYNC_V1,
    Op.BATCH_V2: DriverFunction.MEMCPY_BATCH_ASYNC_V2,
    Op.LAUNCH: DriverFunction.LAUNCH_KERNEL,
    Op.RECORD: DriverFunction.EVENT_RECORD,
    Op.AWAIT: DriverFunction.STREAM_WAIT_EVENT,
    Op.BARRIER: DriverFunction.EVENT_QUERY,
}

# Native code takes plain integers.
_COPY_TO_DEVICE, _COPY_TO_HOST = int(Op.COPY_TO_DEVICE), int(Op.COPY_TO_HOST)
_COPIES_TO_DEVICE, _COPIES_TO_HOST = int(Op.COPIES_TO_DEVICE), int(Op.COPIES_TO_HOST)
_COPY_2D, _BATCH_V1, _BATCH_V2 = int(Op.COPY_2D), int(Op.BATCH_V1), int(Op.BATCH_V2)
_LAUNCH, _RECORD, _AWAIT, _BARRIER = int(Op.LAUNCH), int(Op.RECORD), int(Op.AWAIT), int(Op.BARRIER)
_CALL, _YIELD = int(Op.CALL), int(Op.YIELD)
_OPS = len(Op)

_NOT_SUPPORTED: Final = 801  # CUDA_ERROR_NOT_SUPPORTED, which we answer for functions that the driver has not


class Progress(Enum):
    """How far a program has come."""

    PENDING = "pending"
    SUBMITTED = "submitted"


class Execution:
    """One run of a program. It is not thread-safe.

    Attributes:
        program: what runs.
        progress: `place` as native code has it.
        progress_address: where that lies.
    """

    def __init__(self, table: DriverTable, program: Program) -> None:
        self.program: Final = program
        self._table = table
        self._addresses = functions_of(table)
        self._words = program.commands.view(np.uint64)
        place = array("q", (0, 0))
        self.progress: Final = np.frombuffer(place, np.int64)
        self.progress_address: Final = place.buffer_info()[0]  # asking numpy for it takes a microsecond

    def advance(self) -> Progress:
        """Submits commands up to where the program gives way, or a barrier's event has not happened yet, and returns.

        Returns:
            `PENDING` if it stands at a barrier, or gives way; `SUBMITTED` if every command has been submitted.

        Raises:
            StaleError: the buffers of the program have been prepared anew.
            DriverCallError: a call failed; its index is that of the command, of the range for many copies. Those
                before it may be under way, and the program goes no further.
        """
        self.require_lease()
        status = _advance(self._addresses, self._words, self.progress)
        if status == SUCCESS:
            return Progress.SUBMITTED
        if status == NOT_READY:
            return Progress.PENDING
        raise failure(self._table, self.program.commands, status, self.place)

    def require_lease(self) -> None:
        """Refuses to go on with buffers that have been prepared anew.

        Raises:
            StaleError: so; a program that has been submitted whole is not asked.
        """
        lease = self.program.lease
        if lease is not None and lease.revoked and self.place[0] < len(self.program):
            raise StaleError("another batch has been prepared since")

    @property
    def place(self) -> tuple[int, int]:
        """Index of the next command, and of the copy inside it at which a call failed."""
        position, copy = self.progress.tolist()
        return position, copy


def failure(table: DriverTable, commands: Commands, status: int, place: tuple[int, int]) -> DriverCallError:
    """What a call that failed means.

    Args:
        table: the driver.
        commands: (n,) of `COMMAND`.
        status: what `advance` answered.
        place: the two words of its progress.
    """
    position, copy = place
    op = Op(commands["op"][position])
    index = copy if op in (Op.COPIES_TO_DEVICE, Op.COPIES_TO_HOST) else position
    function = _FUNCTIONS[op].symbol if op in _FUNCTIONS else "host work"
    return DriverCallError(function, status, table.name_of(status), index)


@lru_cache(maxsize=8)
def functions_of(table: DriverTable) -> Addresses:
    """(len(Op),) addresses of the functions that commands call, indexed by `Op`; 0 for those that the driver has not.

    It is told to native code by each call, as the cache of that does not see when other modules change.
    """
    return np.array([table.addresses[_FUNCTIONS[op]] if op in _FUNCTIONS else 0 for op in Op], np.uint64)


@cache
def advance_address() -> int:
    """Address of `int advance(functions, commands, count, progress)` for native code of other modules (see `foreign`).

    All arguments are uint64: the address of `functions_of` a driver, that of commands and their number, and that of
    two int64.
    The first of these is the index of the next command, read and written. The second receives the index of the copy
    at which a call failed inside a command with many. The answer is `SUCCESS` when everything has been submitted,
    `NOT_READY` at a barrier whose event has not happened, to which the progress then points, and behind a command that
    gives way, else the CUresult of the call that failed, to which the progress points too.
    """
    address: int = callback(types.int32(_u64, _u64, _u64, _u64))(_advance_at).address
    return address


def _advance_at(functions: Any, commands: Any, count: Any, progress: Any) -> Any:
    return _advance(
        carray(pointer(functions), _OPS, np.uint64),
        carray(pointer(commands), np.int64(count) * WORDS, np.uint64),
        carray(pointer(progress), 2, np.int64),
    )


@native
def _advance(functions: Addresses, words: Addresses, progress: NDArray[np.int64]) -> int:
    """Runs (n x WORDS,) words from the position on."""
    for first in range(progress[0] * WORDS, words.shape[0], WORDS):
        command = words[first : first + WORDS]
        if command[0] == _YIELD:
            progress[0] += 1
            return NOT_READY
        address = command[2] if command[0] == _CALL else functions[np.int64(command[0])]
        status = _call(address, command, progress) if address else _NOT_SUPPORTED
        if status != SUCCESS:
            return status
        progress[0] += 1
    return SUCCESS


@native
def _call(address: np.uint64, command: Addresses, progress: NDArray[np.int64]) -> int:
    """The status of one command."""
    op, stream, a, b, c, d = command[0], command[1], command[2], command[3], command[4], command[5]
    if op in (_COPY_TO_DEVICE, _COPY_TO_HOST):
        return _memcpy_async(address, (a, b, c, stream))
    if op in (_COPIES_TO_DEVICE, _COPIES_TO_HOST):
        return _call_for_each(address, command, progress)
    if op == _LAUNCH:
        return _launch_kernel(address, (a, b, 1, 1, c, 1, 1, 0, stream, d, 0))
    if op == _RECORD:
        return _event_record(address, (a, stream))
    if op == _BARRIER:
        return _event_query(address, (a,))
    return _call_rarely(address, command)


@native
def _call_for_each(address: np.uint64, command: Addresses, progress: NDArray[np.int64]) -> int:
    """The status of many copies: of the first that fails, whose index the progress gets."""
    stream, first, end = command[1], np.int64(command[5]), np.int64(command[5] + command[6])
    destination = carray(pointer(command[2]), end, np.uint64)
    source = carray(pointer(command[3]), end, np.uint64)
    nbytes = carray(pointer(command[4]), end, np.uint64)
    for i in range(first, end):
        status = _memcpy_async(address, (destination[i], source[i], nbytes[i], stream))
        if status != SUCCESS:
            progress[1] = i
            return status
    return SUCCESS


@native
def _call_rarely(address: np.uint64, command: Addresses) -> int:
    op, stream = command[0], command[1]
    if op == _CALL:
        return _host_function(address, (command[3],))
    a, b, c, d, e, f, g = command[2], command[3], command[4], command[5], command[6], command[7], command[8]
    if op == _AWAIT:
        return _stream_wait_event(address, (stream, a, 0))
    if op == _COPY_2D:
        return _memcpy_2d_async(address, (a, stream))
    if op == _BATCH_V1:
        return _batch_async_v1(address, (a, b, c, d, e, f, g, command[9], stream))
    return _batch_async_v2(address, (a, b, c, d, e, f, g, stream))
