"""What the native loop of a `TransferWorker` keeps in memory (see `worker_loop`)."""

from typing import Final, NamedTuple

import numpy as np

WAITING, RUNNING, CLOSING, FINISHED = range(4)
SUCCEEDED, STOPPED, BROKEN, STRANDED = range(4)  # the last: broken, and its end cannot be found out
NOBODY: Final = -1


class ProgramRecord(NamedTuple):
    """A program of a job as the native loop sees it, in words of 64 bits.

    Times are nanoseconds of the monotonic clock.
    """

    commands: int  # address of its commands
    command_count: int
    closing: int  # address of the commands that find out when everything submitted has completed
    closing_count: int
    streams: int  # the set of its streams, one bit each
    sibling: int = NOBODY  # record of the other program of its job
    cancelled: int = 0  # it is to stop; whether it did says `outcome`
    position: int = 0  # of the next command, in the commands or in the closing ones
    phase: int = WAITING
    outcome: int = SUCCEEDED
    status: int = 0  # CUresult of the call that failed
    failed_at: int = 0  # the command that failed
    failed_copy: int = 0  # which one of the copies that this command makes
    failed_closing: int = 0  # whether it was one of the closing commands
    started_ns: int = 0
    ended_ns: int = 0
    host_ns: int = 0  # spent in calls that got it further
    barriers: int = 0  # that it has gone through


_UNSIGNED: Final = ("commands", "closing", "streams")
PROGRAM_RECORD: Final = np.dtype(
    [(name, np.uint64 if name in _UNSIGNED else np.int64) for name in ProgramRecord._fields]
)

# The loop's own record.
WORKER_RECORD: Final = np.dtype(
    [
        ("advance", np.uint64),  # address of the function that runs commands
        ("functions", np.uint64),  # address of those that it calls
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
