"""What a `TransferWorker` knows of its jobs: their states, and what it reports of them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pega_tune.errors import UsageError
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.program import Program
from pega_tune.kernels.worker_layout import ProgramRecord
from pega_tune.kernels.worker_streams import Closing


class JobState(StrEnum):
    """Where a job stands; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class WorkerFullError(UsageError):
    """A worker has as many jobs in flight as it was made for."""

    code = "worker-full"


@dataclass(frozen=True, slots=True)
class JobReport:
    """What is known of a job.

    Attributes:
        job: what `TransferWorker.submit` returned.
        tag: what the caller gave it.
        state: where it stands.
        nbytes: bytes that the whole job moves; fewer have been moved unless it is done.
        submitted_s: when it was submitted, seconds of the system's monotonic clock (that of `time.monotonic`).
        started_s: when the driver got its first command; None if it got none.
        completed_s: when its end was seen; None in flight.
        host_s: seconds that the host spent in calls that got it further: submission, host work of the programs, and the
            questions that were answered with yes. Questions asked too early are not in it.
        chunks: its parts, from one wait of the program to the next, that the driver was given.
        error: why it failed; None if it did not.
    """

    job: int
    tag: Any
    state: JobState
    nbytes: int
    submitted_s: float
    started_s: float | None = None
    completed_s: float | None = None
    host_s: float = 0.0
    chunks: int = 0
    error: DriverCallError | None = None

    @property
    def latency_s(self) -> float | None:
        """Seconds from submission to the end seen, with the wait for earlier jobs in it; None in flight."""
        return None if self.completed_s is None else self.completed_s - self.submitted_s


@dataclass(slots=True, eq=False)
class Job:
    """A job in flight.

    Attributes:
        number: what `TransferWorker.submit` returned.
        tag: what the caller gave it.
        nbytes: bytes that it moves.
        submitted_s: when it was submitted.
        programs: one or two; they hold what must stay alive.
        closings: what follows each.
        streams: the set of streams of each, as the bits of a word.
        slots: the record of each; empty until the job is admitted.
        left: programs that have not finished.
        ended: their records, as they were at their end, in the order of ending.
        errors: of those that failed, in the same order.
        cancelled: somebody wants it to stop.
    """

    number: int
    tag: Any
    nbytes: int
    submitted_s: float
    programs: tuple[Program, ...]
    closings: tuple[Closing, ...]
    streams: tuple[int, ...]
    slots: tuple[int, ...] = ()
    left: int = 0
    ended: list[ProgramRecord] = field(default_factory=list)
    errors: list[DriverCallError] = field(default_factory=list)
    cancelled: bool = False
