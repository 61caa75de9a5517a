"""The records that the native loop of a `TransferWorker` works on, and their Python face."""

import ctypes
from struct import Struct
from typing import Final

import numpy as np

from pega_tune.kernels.commands import address_of
from pega_tune.kernels.driver import DriverCallError, DriverTable
from pega_tune.kernels.executor import advance_address, failure, functions_of
from pega_tune.kernels.worker_layout import NOBODY, PROGRAM_RECORD, WORKER_RECORD, ProgramRecord
from pega_tune.kernels.worker_loop import run_passes
from pega_tune.kernels.worker_states import Job

_CUDA_RESULTS: Final = 1024  # more than there are
_WORD_BYTES: Final = 8
_ACTIVE, _STREAMS, _STOPS, _WANTED, _DEAD, _KILLER = (
    WORKER_RECORD.fields[name][1] // _WORD_BYTES  # type: ignore[index]
    for name in ("active", "streams", "stops", "wanted", "dead", "killer")
)

# A field of a structured array takes numpy as long to write as this takes for a whole record.
_PACKED: Final = Struct("".join(PROGRAM_RECORD[name].char for name in ProgramRecord._fields))


class ProgramRecords:
    """Records of the programs in flight. It is not thread-safe, but `stop` and `ask` may interrupt `run`."""

    def __init__(self, table: DriverTable, capacity: int) -> None:
        self._table = table
        self._records = np.zeros(capacity, PROGRAM_RECORD)
        self._packed = self._records.view(np.uint8).data
        self._queues = np.zeros((2, capacity), np.int64)
        self._free = list(range(capacity))
        self._owners: list[tuple[Job, int] | None] = [None] * capacity
        self._sticky = np.array([DriverCallError("", status).is_sticky for status in range(_CUDA_RESULTS)])
        self._block = block = np.zeros(1, WORKER_RECORD)
        self._words = block.view(np.uint64).data
        libc = ctypes.CDLL(None)
        block["advance"] = advance_address()
        self._functions = functions_of(table)
        block["functions"] = address_of(self._functions)
        for function in ("clock_gettime", "sched_yield"):
            block[function] = ctypes.cast(getattr(libc, function), ctypes.c_void_p).value
        for field in ("time", "progress"):
            block[f"{field}_address"] = address_of(block[field])
        self.run(0, yields=False)  # compiles, so that no job pays for it

    def admit(self, job: Job) -> None:
        """Gives the programs of a job their records, behind all that are in flight."""
        words = self._words
        job.slots = tuple([self._free.pop() for _ in job.programs])
        job.left = len(job.slots)
        for index, slot in enumerate(job.slots):
            self._owners[slot] = job, index
            record = _new_record(job, index)
            _PACKED.pack_into(self._packed, slot * _PACKED.size, *record)
            self._queues[0, words[_ACTIVE]] = slot
            words[_ACTIVE] += 1
            words[_STREAMS] |= record.streams

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
        self._words[_STOPS] += 1

    def ask(self, wanted: bool) -> None:
        """Lets `run` return after the current pass, or lets it be."""
        self._words[_WANTED] = wanted

    def run(self, passes: int, *, yields: bool) -> list[tuple[Job, int]]:
        """Runs the native loop; the programs that finished, as a job and an index."""
        limits = passes, yields
        finished = run_passes(self._block, self._records, self._queues, self._sticky, limits)
        return [self._owner(slot) for slot in self._queues[1, :finished].tolist()] if finished else []

    def record(self, job: Job, index: int) -> ProgramRecord:
        """A record as it is now."""
        return ProgramRecord._make(_PACKED.unpack_from(self._packed, job.slots[index] * _PACKED.size))

    def all_of(self, job: Job) -> list[ProgramRecord]:
        """The records of a job; none before it is admitted."""
        return [self.record(job, index) for index in range(len(job.slots))]

    def fatal_error(self) -> DriverCallError | None:
        """The failure after which the context is lost; None if there was none."""
        return self.error(*self._owner(self._words[_KILLER])) if self._words[_DEAD] else None

    def error(self, job: Job, index: int) -> DriverCallError:
        """Why a program failed; the index is that of its command, none if it failed after all of them."""
        record = self.record(job, index)
        status, place = record.status, (record.failed_at, record.failed_copy)
        if not record.failed_closing:
            return failure(self._table, job.programs[index].commands, status, place)
        error = failure(self._table, job.closings[index].commands, status, place)
        return DriverCallError(error.function, error.status, error.name)

    def _owner(self, slot: int) -> tuple[Job, int]:
        owner = self._owners[slot]
        assert owner is not None
        return owner


def _new_record(job: Job, index: int) -> ProgramRecord:
    commands, closing = job.programs[index].commands, job.closings[index]
    return ProgramRecord(
        address_of(commands),
        len(commands),
        closing.address,
        len(closing.commands),
        job.streams[index],
        job.slots[1 - index] if len(job.slots) > 1 else NOBODY,
        job.cancelled,
    )
