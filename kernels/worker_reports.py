"""What a `TransferWorker` reports of a job, from the records of its programs."""

import time
from collections.abc import Sequence

from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.worker_layout import STOPPED, ProgramRecord
from pega_tune.kernels.worker_states import Job, JobReport, JobState


def unfinished(job: Job, records: Sequence[ProgramRecord]) -> JobReport:
    """Of a job in flight, whose records are there once it is admitted."""
    begun = any(record.started_ns for record in records)
    return _report(job, records, JobState.RUNNING if begun else JobState.QUEUED)


def finished(job: Job) -> JobReport:
    """Of a job whose programs have all ended."""
    stopped = any(record.outcome == STOPPED for record in job.ended)
    state = JobState.CANCELLED if stopped else JobState.DONE
    completed_s = max(record.ended_ns for record in job.ended) / 1e9
    if job.errors:
        return _report(job, job.ended, JobState.FAILED, completed_s, job.errors[0])
    return _report(job, job.ended, state, completed_s)


def lost(job: Job, records: Sequence[ProgramRecord], error: DriverCallError) -> JobReport:
    """Of a job that the loss of the context has ended, with its own error or that of the loss."""
    return _report(job, records, JobState.FAILED, time.monotonic(), error)


def _report(
    job: Job,
    records: Sequence[ProgramRecord],
    state: JobState,
    completed_s: float | None = None,
    error: DriverCallError | None = None,
) -> JobReport:
    started_ns = [record.started_ns for record in records if record.started_ns]
    return JobReport(
        job.number,
        job.tag,
        state,
        job.nbytes,
        job.submitted_s,
        min(started_ns) / 1e9 if started_ns else None,
        completed_s,
        sum(record.host_ns for record in records) / 1e9,
        len(started_ns) + sum(record.barriers for record in records),
        error,
    )
