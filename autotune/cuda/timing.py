"""One timed transfer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns
from typing import Protocol, Self, TypeVar

from pega_tune.autotune.cuda.submission import SubmissionThread, is_busy


class Run(Protocol):
    """One direction of a transfer, ready to go."""

    @property
    def copies(self) -> int:
        """Copies that the host asks for, one by one or in batches; 0 before it has been rehearsed."""

    def rehearse(self) -> None:
        """Does what comes before the first byte moves, for the sake of the caches alone."""

    def prepare(self) -> None:
        """Compiles the batch into a program: orders, merges, writes descriptors."""

    def submit(self) -> None:
        """Hands the work to the driver, up to where it first has to wait, or gives way to others; never waits."""

    def wait(self, others: Sequence[Self] = ()) -> float:
        """Returns when its work and that of others is done, one thread seeing to all of them as the plan says.

        Returns:
            Seconds of processor time that it took.
        """

    def device_s(self) -> float:
        """Seconds between the device events around the work, after `wait`."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that one transfer took, as in `Measurement`; `moving_s` is None if it has not been taken."""

    transfer_s: float
    prepare_s: float
    submit_s: float
    device_s: float
    wait_cpu_s: float = 0.0
    moving_s: float | None = None


R = TypeVar("R", bound=Run)


def time_transfer(
    runs: Sequence[R],
    clock_ns: Callable[[], int] = perf_counter_ns,
    meanwhile: Callable[[], None] | None = None,
    second: SubmissionThread | None = None,
) -> Timing:
    """Submits each run as soon as it is prepared, and waits for all of them.

    So the first run's bytes move while the second one is prepared, as in an engine with a load and a save to do. Of
    several runs `moving_s` is unknown, as no time without preparation can be told; see `time_moving`.

    Every run is rehearsed before the clock starts. The caller of a transfer engine has just written the addresses, and
    the engine moves one batch after another, so that caches hold both; what measuring does in between two samples would
    otherwise evict them and add tens of microseconds that no engine spends. All are rehearsed before the first one is
    prepared in earnest, so that what directions evict of each other's stays evicted, as in an engine.

    Args:
        runs: one per direction, at least one.
        clock_ns: a monotonic clock, nanoseconds.
        meanwhile: called when every run has begun, or the first one that has a thread of its own; what it takes is in
            the transfer time, so time nothing then.
        second: the thread of the second direction where submitting keeps the host busy; without it one thread does all.
    """
    for run in runs:
        run.rehearse()
    if second is not None and is_busy(runs):
        return _time_apart(runs, clock_ns, meanwhile, second)
    begin = submitted = clock_ns()
    prepare_ns = 0
    for run in runs:
        run.prepare()
        prepared = clock_ns()
        prepare_ns += prepared - submitted
        run.submit()
        submitted = clock_ns()
    if meanwhile is not None:
        meanwhile()
    wait_cpu_s = runs[0].wait(runs[1:])
    end = clock_ns()
    return Timing(
        transfer_s=(end - begin) / 1e9,
        prepare_s=prepare_ns / 1e9,
        submit_s=(submitted - begin - prepare_ns) / 1e9,
        device_s=max(run.device_s() for run in runs),
        wait_cpu_s=wait_cpu_s,
        moving_s=None if runs[1:] else (end - begin - prepare_ns) / 1e9,
    )


def time_moving(
    runs: Sequence[R], clock_ns: Callable[[], int] = perf_counter_ns, second: SubmissionThread | None = None
) -> float:
    """Prepares all runs, then submits them and waits; seconds from the first driver call to completion seen.

    Args:
        runs: as in `time_transfer`, which has run them.
        clock_ns: likewise.
        second: likewise.
    """
    for run in runs:
        run.prepare()
    begin = clock_ns()
    if second is not None and is_busy(runs):
        with second.beside(partial(_submit, runs[1], clock_ns)) as other:
            own = _submit(runs[0], clock_ns)
        return (max(own.end_ns, other.result().end_ns) - begin) / 1e9
    for run in runs:
        run.submit()
    runs[0].wait(runs[1:])
    return (clock_ns() - begin) / 1e9


@dataclass(frozen=True, slots=True)
class _Side:
    """What became of a run that had a thread of its own.

    Attributes:
        prepare_ns: how long preparation took.
        submit_ns: how long submission took, up to where it first had to wait.
        wait_cpu_s: processor time of waiting, in which the rest is submitted.
        end_ns: when its completion was seen.
    """

    prepare_ns: int
    submit_ns: int
    wait_cpu_s: float
    end_ns: int


def _time_apart(
    runs: Sequence[R], clock_ns: Callable[[], int], meanwhile: Callable[[], None] | None, second: SubmissionThread
) -> Timing:
    """As `time_transfer`, the second of two runs in a thread of its own; their preparation overlaps, too."""
    begin = clock_ns()
    with second.beside(partial(_move, runs[1], clock_ns)) as other:
        own = _move(runs[0], clock_ns, meanwhile)
    sides = own, other.result()
    return Timing(
        transfer_s=(max(side.end_ns for side in sides) - begin) / 1e9,
        prepare_s=max(side.prepare_ns for side in sides) / 1e9,
        submit_s=max(side.submit_ns for side in sides) / 1e9,
        device_s=max(run.device_s() for run in runs),
        wait_cpu_s=sum(side.wait_cpu_s for side in sides),
    )


def _move(run: Run, clock_ns: Callable[[], int], meanwhile: Callable[[], None] | None = None) -> _Side:
    begin = clock_ns()
    run.prepare()
    return _submit(run, clock_ns, clock_ns() - begin, meanwhile)


def _submit(
    run: Run, clock_ns: Callable[[], int], prepare_ns: int = 0, meanwhile: Callable[[], None] | None = None
) -> _Side:
    begin = clock_ns()
    run.submit()
    submitted = clock_ns()
    if meanwhile is not None:
        meanwhile()
    wait_cpu_s = run.wait()
    return _Side(prepare_ns, submitted - begin, wait_cpu_s, clock_ns())
