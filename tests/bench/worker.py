"""Times what a chunk costs the host in the transfer worker, over driver functions that do nothing.

    python tests/bench/worker.py [--json] [--chunks N] [--jobs N] [--rounds N]

What the driver itself takes is not in it. A chunk is one copy, or a descriptor upload and a launch, then an event and
a barrier. `at once`: every event has happened when it is first asked for. `later`: every one is pending once, so each
chunk costs a pass over all jobs in flight. `counted` is what the worker itself counts for a chunk. `submit` is
`TransferWorker.submit` of one job, `poll` one call of it from Python with nothing to do but ask. `first` is from the
call of `submit` to the driver's first command, for a job of one chunk that is alone, and `alone` from the same call to
the return of `drain`, when every event has happened. Times are in microseconds, minimum and median over rounds.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np
from numba import carray, cfunc, types

from pega_tune.kernels.driver import NOT_READY, DriverFunction, DriverTable
from pega_tune.kernels.native import pointer
from pega_tune.kernels.program import Launch, Program, ProgramBuilder, Route
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.worker import TransferWorker
from pega_tune.kernels.worker_states import JobReport

TARGET_US = 15
STREAMS = (1, 2)

_questions = np.zeros(2, np.uint64)  # asked so far, and whether every other one is answered with "not ready"
_ADDRESS = np.uint64(_questions.ctypes.data)


@cfunc(types.int32())
def _nothing():
    return np.int32(0)


@cfunc(types.int32(types.uint64))
def _query(event):
    state = carray(pointer(_ADDRESS), 2, np.uint64)
    state[0] += np.uint64(1)
    return np.int32(NOT_READY) if state[0] & state[1] else np.int32(0)


class Events:
    """As many events as anybody wants, all the same."""

    def take(self) -> int:
        """An event."""
        return 1

    def give_back(self, events: Iterable[int]) -> None:
        """Needs none back."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Microseconds of one operation."""

    min_us: float
    median_us: float


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of chunk."""

    chunk: str
    events: str
    jobs: int
    per_chunk: Timing
    counted: Timing
    submit: Timing
    poll: Timing
    first: Timing
    alone: Timing


def program(kind: str, stream: int, chunks: int) -> Program:
    """A program of so many chunks with backpressure."""
    builder = ProgramBuilder(Route(stream, 0, Events()))
    for chunk in range(chunks):
        builder.copy(Direction.H2D, (1, 1), 1)
        if kind == "launch":
            builder.launch(Launch(1, 1, 32, (1, 1)))
        if chunk + 1 < chunks:
            builder.complete_first()
    return builder.finish()


def measure(kind: str, pending: bool, options: argparse.Namespace) -> Row:
    """Runs rounds of jobs through a worker."""
    table = DriverTable.of(
        dict.fromkeys(DriverFunction, _nothing.address) | {DriverFunction.EVENT_QUERY: _query.address}
    )
    worker = TransferWorker(table, options.jobs)
    programs = [program(kind, STREAMS[job % len(STREAMS)], options.chunks) for job in range(options.jobs)]
    drains, counts, submits, polls = [], [], [], []
    _questions[:] = 0, pending
    for _ in range(options.rounds):
        for one in programs:
            submits.append(_elapsed_us(lambda one=one: worker.submit([one])))
        _questions[0] = 0
        reports: list[JobReport] = []
        drains.append(_elapsed_us(lambda into=reports: into.extend(worker.drain())) / (options.jobs * options.chunks))
        counts.append(1e6 * sum(one.host_s for one in reports) / sum(one.chunks for one in reports))
        worker.submit(programs[:1])
        _questions[:] = 0, 2**63  # nothing for long
        polls += [_elapsed_us(worker.poll) for _ in range(10)]
        _questions[:] = 0, pending
        worker.drain()
    times = (drains, counts, submits, polls, *lone_jobs(worker, program(kind, STREAMS[0], 1), 10 * options.rounds))
    return Row(kind, "later" if pending else "at once", options.jobs, *map(timing, times))


def lone_jobs(worker: TransferWorker, one: Program, rounds: int) -> tuple[list[float], list[float]]:
    """Runs a job again and again; microseconds from its submission to its first command, and to its report."""
    _questions[:] = 0
    firsts, wholes = [], []
    for _ in range(rounds):
        begin_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        worker.submit([one])
        (report,) = worker.drain()
        wholes.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC) - begin_ns) / 1e3)
        firsts.append(1e6 * report.started_s - begin_ns / 1e3)
    return firsts, wholes


def timing(samples: list[float]) -> Timing:
    """Minimum and median."""
    return Timing(min(samples), median(samples))


def _elapsed_us(operation) -> float:
    start = time.perf_counter_ns()
    operation()
    return (time.perf_counter_ns() - start) / 1e3


def table(rows: list[Row]) -> str:
    """The rows as aligned text."""
    names = ("per_chunk", "counted", "submit", "poll", "first", "alone")
    lines = [f"{'us, min / median':24}{'jobs':>6}" + "".join(f"{name:>18}" for name in names)]
    for row in rows:
        timings = (getattr(row, name) for name in names)
        cells = "".join(f"{f'{timing.min_us:.2f} / {timing.median_us:.2f}':>18}" for timing in timings)
        lines.append(f"{f'{row.chunk}, {row.events}':24}{row.jobs:>6}{cells}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    parser.add_argument("--chunks", type=int, default=32, help="chunks of a job")
    parser.add_argument("--jobs", type=int, default=64, help="jobs in flight")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    rows = [measure(kind, pending, options) for kind in ("copy", "launch") for pending in (False, True)]
    answer = {"target_us": TARGET_US, "chunks": options.chunks, "rows": [asdict(row) for row in rows]}
    sys.stdout.write((json.dumps(answer, indent=2) if options.json else table(rows)) + "\n")


if __name__ == "__main__":
    main()
