"""The native loop of a decode probe: step after step, without the interpreter or its lock.

A step is what a serving engine does for a token: it uploads its inputs, launches the captured graph, downloads the
token, and waits for that by asking again and again, as `cuStreamSynchronize` does in the driver's default mode. The
thread therefore keeps a processor busy. Nothing returns to the interpreter before the end, not even now and then: in
a process with other threads, taking its lock may last as long as a step.
"""

import ctypes
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numba import carray, types
from numpy.typing import NDArray

from pega_tune.kernels.decode.ring import RingState, StepRing
from pega_tune.kernels.decode.words import observe, publish
from pega_tune.kernels.driver import NOT_READY, SUCCESS, DriverCallError, DriverFunction, DriverTable
from pega_tune.kernels.native import foreign, native, pointer

_MONOTONIC: Final = 1  # CLOCK_MONOTONIC of Linux
_FOREVER: Final = 2**62

_UPLOAD, _LAUNCH, _DOWNLOAD = (
    int(DriverFunction.MEMCPY_HTOD_ASYNC),
    int(DriverFunction.GRAPH_LAUNCH),
    int(DriverFunction.MEMCPY_DTOH_ASYNC),
)
_RECORD, _QUERY = int(DriverFunction.EVENT_RECORD), int(DriverFunction.EVENT_QUERY)
_TABLE_LENGTH: Final = len(DriverFunction)

# What the loop works on.
LOOP_RECORD: Final = np.dtype(
    [
        ("table", np.uint64),  # address of the driver's functions
        ("clock_gettime", np.uint64),
        ("time_address", np.uint64),  # of the field below
        ("time", np.int64, (2,)),  # struct timespec
        ("stream", np.uint64),
        ("graph", np.uint64),
        ("event", np.uint64),
        ("upload", np.uint64, (3,)),  # destination, source, bytes
        ("download", np.uint64, (3,)),
        ("stop_address", np.uint64),  # words of the ring
        ("count_address", np.uint64),
        ("times_address", np.uint64),
        ("capacity", np.int64),
        ("failed", np.int64),  # the function that failed
    ]
)

_i32, _u64 = types.int32, types.uint64
_memcpy_async = foreign(_u64, _u64, _u64, _u64)  # destination, source, bytes, stream
_graph_launch = foreign(_u64, _u64)  # graph, stream
_event_record = foreign(_u64, _u64)  # event, stream
_event_query = foreign(_u64)
_clock_gettime = foreign(_i32, _u64)  # clockid_t, struct timespec


@dataclass(frozen=True, slots=True)
class Copy:
    """One small copy of a step.

    Attributes:
        destination, source: addresses, one on the device, one in pinned memory.
        nbytes: its size.
    """

    destination: int
    source: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one step is made of, as handles of the driver; who made them keeps them open.

    Attributes:
        stream: CUstream of all of it.
        graph: CUgraphExec.
        event: CUevent, without timing.
        upload: of the inputs.
        download: of the tokens.
    """

    stream: int
    graph: int
    event: int
    upload: Copy
    download: Copy


class StepLoop:
    """Runs a step again and again, and writes when each one ended."""

    def __init__(self, table: DriverTable, step: Step, ring: StepRing) -> None:
        """Compiles, so that no step pays for it.

        Args:
            table: the driver.
            step: of which each one consists.
            ring: where the ends go.
        """
        self._table = table
        self._ring = ring
        self._block = np.zeros(1, LOOP_RECORD)
        self._record = self._block[0]  # a view, which native code takes as a struct
        clock_gettime = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
        values = {
            "table": table.addresses.ctypes.data,
            "clock_gettime": clock_gettime,
            "time_address": self._block["time"].ctypes.data,
            "stream": step.stream,
            "graph": step.graph,
            "event": step.event,
            "upload": (step.upload.destination, step.upload.source, step.upload.nbytes),
            "download": (step.download.destination, step.download.source, step.download.nbytes),
            "stop_address": ring.address_of("stop"),
            "count_address": ring.address_of("count"),
            "times_address": ring.times_address,
            "capacity": ring.capacity,
        }
        for name, value in values.items():
            self._record[name] = value
        _run_steps(self._record, 0)

    def run(self, steps: int | None = None, warm_steps: int = 0) -> None:
        """Makes steps until the ring says stop, or so many; the step's context must be current.

        Neither a signal nor Ctrl-C ends it, as Python would handle them.

        Args:
            steps: how many; None for no end.
            warm_steps: those at the begin that readers should not count.

        Raises:
            DriverCallError: the first call that failed. The ring tells its status too.
        """
        self._ring.begin(warm_steps)
        status = int(_run_steps(self._record, _FOREVER if steps is None else steps))
        if status == SUCCESS:
            self._ring.end(RingState.STOPPED)
            return
        self._ring.end(RingState.FAILED, status)
        function = DriverFunction(int(self._record["failed"]))
        raise DriverCallError(function.symbol, status, self._table.name_of(status))


@native
def _run_steps(loop: Any, steps: int) -> int:
    """The status of the call that failed; `SUCCESS` after so many steps, or when told to stop."""
    table = carray(pointer(loop.table), _TABLE_LENGTH, np.uint64)
    times = carray(pointer(loop.times_address), loop.capacity, np.uint64)
    for _ in range(steps):
        if observe(loop.stop_address):
            break
        status = _submit(loop, table)
        if status == SUCCESS:
            status = _wait(loop, table)
        if status != SUCCESS:
            return status
        count = observe(loop.count_address)
        times[np.int64(count) % loop.capacity] = _now(loop)
        publish(loop.count_address, count + np.uint64(1))
    return SUCCESS


@native
def _submit(loop: Any, table: NDArray[np.uint64]) -> int:
    """Gives one step to the stream; the status of the call that failed."""
    upload, download, stream = loop.upload, loop.download, loop.stream
    loop.failed = _UPLOAD
    status = _memcpy_async(table[_UPLOAD], (upload[0], upload[1], upload[2], stream))
    if status == SUCCESS:
        loop.failed = _LAUNCH
        status = _graph_launch(table[_LAUNCH], (loop.graph, stream))
    if status == SUCCESS:
        loop.failed = _DOWNLOAD
        status = _memcpy_async(table[_DOWNLOAD], (download[0], download[1], download[2], stream))
    if status == SUCCESS:
        loop.failed = _RECORD
        status = _event_record(table[_RECORD], (loop.event, stream))
    return status


@native
def _wait(loop: Any, table: NDArray[np.uint64]) -> int:
    """Asks until the step has ended; the status of a question that failed."""
    loop.failed = _QUERY
    status = NOT_READY
    while status == NOT_READY:
        status = _event_query(table[_QUERY], (loop.event,))
    return status


@native
def _now(loop: Any) -> int:
    """Nanoseconds of the monotonic clock."""
    _clock_gettime(loop.clock_gettime, (_MONOTONIC, loop.time_address))
    return int(loop.time[0] * 1_000_000_000 + loop.time[1])
