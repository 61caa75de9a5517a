"""The records that the native loop of a `TransferWorker` works on, and their Python face."""

import ctypes
from typing import Any, Final

import numpy as np

from pega_tune.kernels.driver import DriverCallError, DriverTable
from pega_tune.kernels.executor import advance_address, failure
from pega_tune.kernels.worker_loop import PROGRAM_RECORD, WORKER_RECORD, run_passes
from pega_tune.kernels.worker_states import Job

_CUDA_RESULTS: Final = 1024  # more than there are
_NO_SIBLING: Final = -1


class ProgramRecords:
    """Records of the programs in flight. It is not thread-safe, but `stop` and `ask` may interrupt `run`."""

    def __init__(self, table: DriverTable, capacity: int) -> None:
        self._table = table
        self._records = np.zeros(capacity, PROGRAM_RECORD)
        self._queues = np.zeros((2, capacity), np.int64)
        self._free = list(range(capacity))
        self._owners: list[tuple[Job, int] | None] = [None] * capacity
        self._sticky = np.array([DriverCallError("", status).is_sticky for status in range(_CUDA_RESULTS)])
        self._block = np.zeros(1, WORKER_RECORD)
        self._worker = self._block[0]  # a view, which native code takes as a struct
        libc = ctypes.CDLL(None)
        self._worker["advance"] = advance_address()
        self._worker["table"] = table.addresses.ctypes.data
        for function in ("clock_gettime", "sched_yield"):
            self._worker[function] = ctypes.cast(getattr(libc, function), ctypes.c_void_p).value
        for field in ("time", "progress"):
            self._worker[f"{field}_address"] = self._block[field].ctypes.data
        self.run(0, yields=False)  # compiles, so that no job pays for it

    def admit(self, job: Job) -> None:
        """Gives the programs of a job their records, behind all that are in flight."""
        job.slots = tuple(self._free.pop() for _ in job.programs)
        job.left = len(job.slots)
        for index, slot in enumerate(job.slots):
            self._owners[slot] = job, index
            self._records[slot] = record = self._new_record(job, index)
            self._queues[0, self._worker["active"]] = slot
            self._worker["active"] += 1
            self._worker["streams"] |= record["streams"]

    def free(self, job: Job) -> None:
        """Takes the records of a job whose programs have all finished; until then one may still stop the other."""
        for slot in job.slots:
            self._owners[slot] = None
        self._free += job.slots
        job.slots = ()

    def stop(self, job: Job) -> None:
        """Lets the loop stop the programs of a job."""
        for slot in job.slots:
            self._records["cancelled"][slot] = 1
        self._worker["stops"] += 1

    def ask(self, wanted: bool) -> None:
        """Lets `run` return after the current pass, or lets it be."""
        self._worker["wanted"] = wanted

    def run(self, passes: int, *, yields: bool) -> list[tuple[Job, int]]:
        """Runs the native loop; the programs that finished, as a job and an index."""
        limits = passes, yields
        finished = run_passes(self._worker, self._records, self._queues, self._sticky, limits)
        return [self._owner(slot) for slot in self._queues[1, :finished].tolist()]

    def record(self, job: Job, index: int) -> Any:
        """A copy of a record."""
        return self._records[job.slots[index]].copy()

    def fatal_error(self) -> DriverCallError | None:
        """The failure after which the context is lost; None if there was none."""
        return self.error(*self._owner(int(self._worker["killer"]))) if self._worker["dead"] else None

    def error(self, job: Job, index: int) -> DriverCallError:
        """Why a program failed; the index is that of its command, none if it failed after all of them."""
        record = self._records[job.slots[index]]
        status, place = int(record["status"]), (int(record["failed_at"]), int(record["failed_copy"]))
        if not record["failed_closing"]:
            return failure(self._table, job.programs[index].commands, status, place)
        error = failure(self._table, job.closings[index], status, place)
        return DriverCallError(error.function, error.status, error.name)

    def _owner(self, slot: int) -> tuple[Job, int]:
        owner = self._owners[slot]
        assert owner is not None
        return owner

    def _new_record(self, job: Job, index: int) -> Any:
        commands, closing = job.programs[index].commands, job.closings[index]
        record = np.zeros((), PROGRAM_RECORD)
        record["commands"], record["count"] = commands.ctypes.data, len(commands)
        record["closing"], record["closing_count"] = closing.ctypes.data, len(closing)
        record["streams"] = job.streams[index]
        record["cancelled"] = job.cancelled
        record["sibling"] = job.slots[1 - index] if len(job.slots) > 1 else _NO_SIBLING
        return record
