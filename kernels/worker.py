"""The transfer worker: many jobs in flight, moved on by their events, without waiting for any."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from copy import copy
from itertools import count
from typing import Any, Final

from pega_tune.errors import UsageError
from pega_tune.kernels import worker_reports
from pega_tune.kernels.driver import DriverCallError, DriverTable
from pega_tune.kernels.plan import Completion
from pega_tune.kernels.program import EventSource, Program, StaleError
from pega_tune.kernels.worker_layout import FINISHED, STRANDED, WAITING
from pega_tune.kernels.worker_records import ProgramRecords
from pega_tune.kernels.worker_states import Job, JobReport, WorkerFullError
from pega_tune.kernels.worker_streams import StreamSets, closing_of, streams_of

_PROGRAMS_PER_JOB: Final = 2
_PASSES: Final = 1000  # of one native call in `drain`: milliseconds, after which the interpreter may see to its signals


class TransferWorker:
    """Runs jobs of one or two programs, a load, a save or both, in one CUDA context.

    Programs that share a stream run one after another, in the order of submission: the next one starts when the end of
    the one before it has been seen. So a stream never holds more than one chunk of a plan with backpressure, and what
    stops or fails has nothing queued behind it. Programs without a common stream run beside each other, the two of
    a job too: a chunked program that is held up at a barrier holds up nobody else, and one that gives way goes on when
    the others have been submitted as far as they can be.

    Nothing is done between calls: somebody polls or drains, on whatever thread. `submit`, `cancel` and `report` may be
    called from any thread at any time, `poll` and `drain` from one thread at a time, in which the context is current.

    A job keeps its programs, and with them all memory that their commands refer to, until everything it submitted has
    completed. Where that cannot be found out (the end event fails, the context is lost), they are kept as long as the
    worker, and their events are not given back.
    """

    def __init__(self, table: DriverTable, capacity: int, events: EventSource | None = None) -> None:
        """Makes room for the jobs in flight.

        Args:
            table: the driver.
            capacity: most jobs in flight, queued ones among them.
            events: where the programs took their events; each program's are given back when it has ended.

        Raises:
            UsageError: the capacity is below 1.
        """
        if capacity < 1:
            raise UsageError(f"a worker has room for at least 1 job, not {capacity}")
        self.capacity = capacity
        self._events = events
        self._records = ProgramRecords(table, capacity * _PROGRAMS_PER_JOB)
        self._numbers = count()
        self._streams = StreamSets()
        self._jobs: dict[int, Job] = {}  # in the order of submission
        self._inbox: deque[Job] = deque()
        self._lock = threading.Lock()  # of all these; never held while native code runs
        self._turn = _Turn()
        self._ended: list[JobReport] = []  # still to be told, also if an interrupt ends `drain`
        self._stranded: list[Program] = []
        self._error: DriverCallError | None = None

    def __len__(self) -> int:
        """Jobs in flight."""
        return len(self._jobs)

    @property
    def stranded(self) -> tuple[Program, ...]:
        """Programs whose end cannot be found out; the device may still use their memory."""
        return tuple(self._stranded)

    def submit(self, programs: Sequence[Program], tag: Any = None, nbytes: int = 0) -> int:
        """Takes a job; the driver is not called.

        Args:
            programs: one or two; none may be in flight, and their leases must hold until they end.
            tag: comes back in the reports.
            nbytes: bytes that the job moves, for the reports.

        Returns:
            The job, for `cancel` and `report`.

        Raises:
            UsageError: there are not one or two programs, one of them is empty, or there are more than 64 streams.
            StaleError: a program's buffers have been prepared anew.
            WorkerFullError: too many jobs are in flight.
            DriverCallError: the context is lost.
        """
        _require(programs)
        used = [streams_of(program) for program in programs]
        closings = tuple([closing_of(*what) for what in zip(used, [one.end for one in programs], strict=True)])
        with self._lock:
            if self._error is not None:
                raise copy(self._error)
            if len(self._jobs) >= self.capacity:
                raise WorkerFullError(f"{self.capacity} jobs are in flight", "poll, or make a worker for more")
            streams = tuple([self._streams.bits_of(one) for one in used])
            number = next(self._numbers)
            job = Job(number, tag, nbytes, time.monotonic(), tuple(programs), closings, streams)
            self._jobs[number] = job
            self._inbox.append(job)
            self._records.ask(True)
        return number

    def cancel(self, job: int) -> bool:
        """Stops a job at the barrier where it is held up, where it gives way, or before it starts.

        What it has submitted still completes.

        Returns:
            Whether the job was in flight. It still ends as done if everything had been submitted before.
        """
        with self._lock:
            found = self._jobs.get(job)
            if found is None:
                return False
            found.cancelled = True
            self._records.stop(found)
        return True

    def report(self, job: int) -> JobReport:
        """What is known of a job in flight; those that ended are reported once, by `poll` or `drain`.

        Raises:
            UsageError: there is no such job in flight.
        """
        with self._lock:
            found = self._jobs.get(job)
            if found is None:
                raise UsageError(f"job {job} is not in flight")
            return worker_reports.unfinished(found, self._records.all_of(found))

    def poll(self) -> tuple[JobReport, ...]:
        """Moves every job on once: as far as it can go now, or to where it next gives way.

        It is one pass of native code, which never waits. A program that gives way often takes as many polls; so that
        nothing else is done in between, drain.

        Returns:
            The jobs that ended, each in one report of all.
        """
        with self._turn:
            self._step(1, yields=False)
            return self._take_ended()

    def drain(self, completion: Completion = Completion.POLL, timeout_s: float | None = None) -> tuple[JobReport, ...]:
        """Polls, mostly in native code and without the interpreter's lock, until no job is in flight.

        Args:
            completion: `poll` spins; `yield` offers the processor to other threads after every pass.
            timeout_s: seconds after which it returns anyhow; None for never.

        Returns:
            The jobs that ended, in the order in which that was seen.

        Raises:
            UsageError: the completion is another one; there is no one event that all jobs could block on.
        """
        if completion is Completion.BLOCKING_EVENT:
            raise UsageError("a worker with many jobs cannot block on one event", "use poll or yield")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._turn:
            while self._jobs and (deadline is None or time.monotonic() < deadline):
                self._step(_PASSES, yields=completion is Completion.YIELD)
            return self._take_ended()

    def _take_ended(self) -> tuple[JobReport, ...]:
        ended, self._ended = self._ended, []
        return tuple(ended)

    def _step(self, passes: int, *, yields: bool) -> None:
        """Admits what was submitted, makes passes, and notes what ended."""
        with self._lock:
            if self._error is not None:
                return
            self._records.ask(False)
            while self._inbox:
                self._records.admit(self._inbox.popleft())
        finished = self._records.run(passes, yields=yields)
        with self._lock:
            self._error = self._records.fatal_error()
            self._ended += [report for job, index in finished if (report := self._finish(job, index)) is not None]
            if self._error is not None:
                self._ended += self._give_up(self._error)

    def _finish(self, job: Job, index: int) -> JobReport | None:
        """Sees to the end of a program; the report if it was the last one of its job."""
        record = self._records.record(job, index)
        job.ended.append(record)
        job.left -= 1
        if record.status:
            job.errors.append(self._records.error(job, index))
        self._let_go(job.programs[index], known_to_end=record.outcome != STRANDED)
        if job.left:
            return None
        del self._jobs[job.number]
        self._records.free(job)
        return worker_reports.finished(job)

    def _give_up(self, error: DriverCallError) -> list[JobReport]:
        """Fails every job in flight, with its own error if it has one."""
        reports = []
        for job in self._jobs.values():
            records = self._records.all_of(job)
            for index, program in enumerate(job.programs):
                phase = records[index].phase if records else WAITING
                if phase != FINISHED:
                    self._let_go(program, known_to_end=phase == WAITING)
            own = (self._records.error(job, index) for index, record in enumerate(records) if record.status)
            reports.append(worker_reports.lost(job, records, next(iter(job.errors), None) or next(own, error)))
        self._jobs.clear()
        self._inbox.clear()
        return reports

    def _let_go(self, program: Program, *, known_to_end: bool) -> None:
        """Gives up a program that has ended, or that may or may not have."""
        if not known_to_end:
            self._stranded.append(program)
        elif self._events is not None:
            self._events.give_back(program.events)


class _Turn:
    """Of the one thread that polls; a class, as a generator would take as long as all the rest of a poll."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise UsageError("another thread is polling this worker")

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


def _require(programs: Sequence[Program]) -> None:
    if not 1 <= len(programs) <= _PROGRAMS_PER_JOB:
        raise UsageError(f"a job has 1 or 2 programs, not {len(programs)}")
    for program in programs:
        if not len(program.commands):
            raise UsageError("a program of the job has no commands")
        if program.lease is not None and program.lease.revoked:
            raise StaleError("another batch has been prepared since")
