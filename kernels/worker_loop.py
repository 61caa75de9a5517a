"""The native loop of a `TransferWorker`: passes over the programs in flight, without the interpreter or its lock.

A program goes WAITING -> RUNNING -> CLOSING -> finished:

- WAITING until no earlier program uses one of its streams: one program per stream at a time, in the order of
  submission.
- RUNNING: every pass submits its commands up to the next barrier whose event has not happened yet.
- CLOSING: all that will be submitted is, and the end event is asked for once per pass. A program that went through
  its commands has recorded that event itself; for one that was cancelled or failed on the way, it is recorded now,
  behind everything in all streams of the program.
"""

from typing import Any, Final

import numpy as np
from numba import types
from numpy.typing import NDArray

from pega_tune.kernels.driver import NOT_READY, SUCCESS
from pega_tune.kernels.native import foreign, native

WAITING, RUNNING, CLOSING, FINISHED = range(4)
SUCCEEDED, STOPPED, BROKEN, STRANDED = range(4)  # the last: broken, and its end cannot be found out

_MONOTONIC: Final = 1  # CLOCK_MONOTONIC of Linux
_NOBODY: Final = -1

# A program of a job as the native loop sees it. Times are nanoseconds of the monotonic clock.
PROGRAM_RECORD: Final = np.dtype(
    [
        ("commands", np.uint64),  # address of its commands
        ("count", np.int64),
        ("closing", np.uint64),  # address of the commands that find out when everything submitted has completed
        ("closing_count", np.int64),
        ("streams", np.uint64),  # the set of its streams, one bit each
        ("position", np.int64),  # of the next command, in the commands or in the closing ones
        ("phase", np.int64),
        ("cancelled", np.int64),  # it is to stop; whether it did says `outcome`
        ("sibling", np.int64),  # record of the other program of its job; -1 for none
        ("outcome", np.int64),
        ("status", np.int64),  # CUresult of the call that failed
        ("failed_at", np.int64),  # the command that failed
        ("failed_copy", np.int64),  # which one of the copies that this command makes
        ("failed_closing", np.int64),  # whether it was one of the closing commands
        ("started_ns", np.int64),
        ("ended_ns", np.int64),
    ]
)

# The loop's own record.
WORKER_RECORD: Final = np.dtype(
    [
        ("advance", np.uint64),  # address of the function that runs commands
        ("table", np.uint64),  # address of the driver's functions, for it
        ("clock_gettime", np.uint64),
        ("sched_yield", np.uint64),
        ("time_address", np.uint64),  # of the field below
        ("time", np.int64, (2,)),  # struct timespec
        ("progress_address", np.uint64),  # of the field below
        ("progress", np.int64, (2,)),  # position and copy, in and out of `advance`
        ("active", np.int64),  # programs that have not finished
        ("streams", np.uint64),  # all that they use, or more
        ("stops", np.int64),  # how often the interpreter has cancelled something
        ("stops_seen", np.int64),  # how often the loop knows of
        ("wanted", np.int64),  # the interpreter has something to say
        ("dead", np.int64),  # the sticky status that ended everything
        ("killer", np.int64),  # the record of the program that got it
    ]
)

_i32, _u64 = types.int32, types.uint64
_advance = foreign(_u64, _u64, _u64, _u64)  # table, commands, their count, progress
_clock_gettime = foreign(_i32, _u64)  # clockid_t, struct timespec
_sched_yield = foreign()


@native
def run_passes(
    worker: Any, records: NDArray[Any], queues: NDArray[np.int64], sticky: NDArray[np.bool_], limits: tuple[int, bool]
) -> int:
    """Makes passes until a program finishes, the interpreter is wanted, nothing is in flight, or there were enough.

    Args:
        worker: a `WORKER_RECORD`.
        records: (capacity,) of `PROGRAM_RECORD`.
        queues: (2, capacity) indices of records: those in flight, in the order of submission, `worker.active` of
            them; and, as a result, those that finished.
        sticky: whether a CUresult ends the context, by its number.
        limits: most passes, and whether to offer the processor to others after each.

    Returns:
        How many finished.
    """
    passes, yields = limits
    for _ in range(passes):
        finished = _pass(worker, records, queues, sticky)
        if finished or worker.wanted or not worker.active or worker.dead:
            return finished
        if yields:
            _sched_yield(worker.sched_yield, ())
    return 0


@native
def _pass(worker: Any, records: NDArray[Any], queues: NDArray[np.int64], sticky: NDArray[np.bool_]) -> int:
    """Lets every program go as far as it can without waiting; how many finished."""
    busy = np.uint64(0)  # streams of the programs before, which all have the first claim
    kept = finished = k = 0
    stops = worker.stops
    look_at_all = stops != worker.stops_seen
    worker.stops_seen = stops
    while k < worker.active and not worker.dead and (look_at_all or busy != worker.streams):
        slot = queues[0, k]
        program = records[slot]
        status = _move(worker, records, program, sticky, busy)
        if _is_sticky(status, sticky):
            worker.dead = status
            worker.killer = slot
        if program.phase == FINISHED:
            queues[1, finished] = slot
            finished += 1
        else:
            busy |= program.streams
            queues[0, kept] = slot
            kept += 1
        k += 1
    if k == worker.active:
        worker.streams = busy
    elif kept < k:  # the others wait for streams that are all taken: only their places change
        for waiting in range(k, worker.active):
            queues[0, kept + waiting - k] = queues[0, waiting]
    worker.active -= finished
    return finished


@native
def _move(worker: Any, records: NDArray[Any], program: Any, sticky: NDArray[np.bool_], busy: np.uint64) -> int:
    """Takes one program through as many phases as it can leave now; the status of the last call that failed."""
    status = SUCCESS
    if program.phase == WAITING:
        _leave_waiting(worker, program, busy)
    if program.phase == RUNNING:
        status = _leave_running(worker, records, program)
    if program.phase == CLOSING and not _is_sticky(status, sticky):
        status = _leave_closing(worker, program, sticky) or status
    if program.phase == FINISHED:
        program.ended_ns = _now(worker)
    return status


@native
def _leave_waiting(worker: Any, program: Any, busy: np.uint64) -> None:
    if program.cancelled:
        program.outcome = STOPPED
        program.phase = FINISHED
    elif not program.streams & busy:
        program.started_ns = _now(worker)
        program.phase = RUNNING


@native
def _leave_running(worker: Any, records: NDArray[Any], program: Any) -> int:
    """Submits what it may; the status of the call that failed."""
    if program.cancelled:
        program.outcome = STOPPED
        program.position = 0
        program.phase = CLOSING
        return SUCCESS
    status = _run(worker, program, program.commands, program.count)
    if status == NOT_READY:
        return SUCCESS
    program.phase = CLOSING
    program.position = program.closing_count - 1  # nothing to record, only to ask
    if status != SUCCESS:
        _blame(worker, program, status, False)
        program.outcome = BROKEN
        program.position = 0
        if program.sibling != _NOBODY:
            records[program.sibling].cancelled = 1  # seen at the latest when this one ends and frees its streams
    return status


@native
def _leave_closing(worker: Any, program: Any, sticky: NDArray[np.bool_]) -> int:
    """Asks whether all is done; the status of the call that failed."""
    status = _run(worker, program, program.closing, program.closing_count)
    if status == NOT_READY:
        return SUCCESS
    program.phase = FINISHED
    if status != SUCCESS:
        if program.outcome != BROKEN or _is_sticky(status, sticky):  # else the first failure is the one to tell
            _blame(worker, program, status, True)
        program.outcome = STRANDED
    return status


@native
def _run(worker: Any, program: Any, commands: np.uint64, count: int) -> int:
    """Runs commands from the program's position on."""
    worker.progress[0] = program.position
    worker.progress[1] = 0
    status = _advance(worker.advance, (worker.table, commands, count, worker.progress_address))
    program.position = worker.progress[0]
    return status


@native
def _is_sticky(status: int, sticky: NDArray[np.bool_]) -> bool:
    return bool(status < sticky.shape[0] and sticky[status])


@native
def _blame(worker: Any, program: Any, status: int, closing: bool) -> None:
    program.status = status
    program.failed_at = worker.progress[0]
    program.failed_copy = worker.progress[1]
    program.failed_closing = closing


@native
def _now(worker: Any) -> int:
    """Nanoseconds of the monotonic clock."""
    _clock_gettime(worker.clock_gettime, (_MONOTONIC, worker.time_address))
    return int(worker.time[0] * 1_000_000_000 + worker.time[1])
