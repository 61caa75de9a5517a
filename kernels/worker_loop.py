"""The native loop of a `TransferWorker`: passes over the programs in flight, without the interpreter or its lock.

A program goes WAITING -> RUNNING -> CLOSING -> finished:

- WAITING until no earlier program uses one of its streams: one program per stream at a time, in the order of
  submission.
- RUNNING: every pass submits its commands up to the next barrier whose event has not happened yet, or up to where it
  gives way: then the others are submitted before it goes on, in the next pass.
- CLOSING: all that will be submitted is, and the end event is asked for once per pass. A program that went through
  its commands has recorded that event itself; for one that was cancelled or failed on the way, it is recorded now,
  behind everything in all streams of the program.
"""

from typing import Any, Final

import numpy as np
from numba import carray, types
from numpy.typing import NDArray

from pega_tune.kernels.commands import WORDS, Op
from pega_tune.kernels.driver import NOT_READY, SUCCESS
from pega_tune.kernels.native import foreign, native, pointer
from pega_tune.kernels.worker_layout import BROKEN, CLOSING, FINISHED, NOBODY, RUNNING, STOPPED, STRANDED, WAITING

_BARRIER: Final = int(Op.BARRIER)
_MONOTONIC: Final = 1  # CLOCK_MONOTONIC of Linux

_i32, _u64 = types.int32, types.uint64
_advance = foreign(_u64, _u64, _u64, _u64)  # functions, commands, their count, progress
_clock_gettime = foreign(_i32, _u64)  # clockid_t, struct timespec
_sched_yield = foreign()


@native
def run_passes(
    block: NDArray[Any],
    records: NDArray[Any],
    queues: NDArray[np.int64],
    sticky: NDArray[np.bool_],
    limits: tuple[int, bool],
) -> int:
    """Makes passes until a program finishes, the interpreter is wanted, nothing is in flight, or there were enough.

    Args:
        block: (1,) of `WORKER_RECORD`.
        records: (capacity,) of `PROGRAM_RECORD`.
        queues: (2, capacity) indices of records: those in flight, in the order of submission, `worker.active` of
            them; and, as a result, those that finished.
        sticky: whether a CUresult ends the context, by its number.
        limits: most passes, and whether to offer the processor to other threads after each.

    Returns:
        How many finished.
    """
    worker = block[0]  # taken out here: to hand over one record costs more than an array
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
    """Submits what it may now; the status of the call that failed."""
    if program.cancelled:
        program.outcome = STOPPED
        program.position = 0
        program.phase = CLOSING
        return SUCCESS
    status = _run(worker, program, program.commands, program.command_count)
    if status == NOT_READY:
        return SUCCESS
    program.phase = CLOSING
    program.position = program.closing_count - 1  # nothing to record, only to ask
    if status != SUCCESS:
        _blame(worker, program, status, False)
        program.outcome = BROKEN
        program.position = 0
        if program.sibling != NOBODY:
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
    """Runs commands from the program's position on.

    What it takes to ask for an event in vain is not counted: that is the price of polling, and not of a chunk.
    """
    first = program.position
    worker.progress[0] = first
    worker.progress[1] = 0
    begin = _now(worker)
    status = _advance(worker.advance, (worker.functions, commands, count, worker.progress_address))
    end = worker.progress[0]
    program.position = end
    if end > first or status != NOT_READY:
        program.host_ns += _now(worker) - begin
        if program.phase == RUNNING:
            program.barriers += _barriers(commands, first, end)
    return status


@native
def _barriers(commands: np.uint64, first: int, end: int) -> int:
    """How many of the commands from the first up to the end are barriers."""
    words = carray(pointer(commands), end * WORDS, np.uint64)
    found = 0
    for word in range(first * WORDS, end * WORDS, WORDS):
        if words[word] == _BARRIER:
            found += 1
    return found


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
