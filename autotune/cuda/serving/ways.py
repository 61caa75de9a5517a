"""How a burst is run: through one transfer worker or two, sleeping on an event, or with a sleep after every chunk."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, Self, TypeAlias

from pega_tune.autotune.cuda.serving.bursts import Burst
from pega_tune.autotune.cuda.submission import SubmissionThread, is_busy
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.executor import Execution, Progress
from pega_tune.kernels.plan import AnyPlan, Completion, PlanPair
from pega_tune.kernels.program import Program
from pega_tune.kernels.waiting import wait_all, wait_event
from pega_tune.kernels.worker import TransferWorker
from pega_tune.kernels.worker_states import JobReport

Now: TypeAlias = Callable[[], float]

WORKER_JOBS: Final = 2
"""Jobs that a burst has in flight: a load and a save."""


class BurstRun(Protocol):
    """One direction of a burst, or both if they are fused; as `lanes.LaneRun`."""

    @property
    def copies(self) -> int:
        """Copies that the host asks for, one by one or in batches; 0 before it has been rehearsed."""

    @property
    def program(self) -> Program:
        """What is prepared."""

    def prepare(self) -> None:
        """Compiles the batch into a program."""

    def submit(self) -> None:
        """Hands the work to the driver, up to where a chunk has to wait for another one."""

    def wait(self, others: Sequence[Self] = ()) -> float:
        """Returns when its work and that of others is done."""


@dataclass(frozen=True, slots=True)
class WorkerBurst:
    """Through the worker, which is how a serving engine runs transfers: each direction as soon as it is prepared.

    Attributes:
        worker: has nothing else in flight.
        runs: in the order of submission.
        completion: `poll` or `yield`.
    """

    worker: TransferWorker
    runs: Sequence[BurstRun]
    completion: Completion

    def run(self) -> float:
        """As `Burst.run`."""
        reports: list[JobReport] = []
        for run in self.runs:
            run.prepare()
            self.worker.submit([run.program])
            reports += self.worker.poll()
        reports += self.worker.drain(self.completion)
        return _end_of(reports)


@dataclass(frozen=True, slots=True)
class SecondWorker:
    """What the second direction has to itself.

    Attributes:
        thread: where it runs.
        worker: has nothing in flight.
    """

    thread: SubmissionThread
    worker: TransferWorker


@dataclass(frozen=True, slots=True)
class ApartBurst:
    """Through a worker and a thread per direction, as in an engine whose loads and saves are driven by one each.

    Attributes:
        worker: of the first direction; has nothing else in flight.
        second: of the other one.
        runs: both, in the order of submission.
        completion: `poll` or `yield`.
    """

    worker: TransferWorker
    second: SecondWorker
    runs: Sequence[BurstRun]
    completion: Completion

    def run(self) -> float:
        """As `Burst.run`."""
        first, last = self.runs
        with self.second.thread.beside(partial(self._move, self.second.worker, last)) as other:
            end_s = self._move(self.worker, first)
        return max(end_s, other.result())

    def _move(self, worker: TransferWorker, run: BurstRun) -> float:
        return WorkerBurst(worker, (run,), self.completion).run()


@dataclass(frozen=True, slots=True)
class SleepingBurst:
    """With a thread that sleeps until the device interrupts: a worker, with many jobs, has no one event to sleep on.

    Attributes:
        runs: in the order of submission.
        now_s: the monotonic clock.
    """

    runs: Sequence[BurstRun]
    now_s: Now = time.monotonic

    def run(self) -> float:
        """As `Burst.run`."""
        for run in self.runs:
            run.prepare()
            run.submit()
        self.runs[0].wait(self.runs[1:])
        return self.now_s()


@dataclass(frozen=True, slots=True)
class RestingBurst:
    """With a rest after every chunk, to show that it does not help; both directions keep step.

    Attributes:
        table: the driver.
        runs: in the order of submission.
        rest_s: seconds from a chunk's completion to the next chunk.
        now_s: the monotonic clock.
        sleep: for so many seconds.
    """

    table: DriverTable
    runs: Sequence[BurstRun]
    rest_s: float
    now_s: Now = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def run(self) -> float:
        """As `Burst.run`."""
        for run in self.runs:
            run.prepare()
        executions = [Execution(self.table, run.program) for run in self.runs]
        held_up = executions
        while held_up := [execution for execution in held_up if execution.advance() is Progress.PENDING]:
            for execution in held_up:
                wait_event(self.table, _barrier(execution), Completion.YIELD)
            self.sleep(self.rest_s)
        wait_all(self.table, executions, Completion.YIELD)
        return self.now_s()


def _barrier(execution: Execution) -> int:
    """The event for which a program that is held up waits."""
    position, _ = execution.place
    return int(execution.program.commands["a"][position])


def _end_of(reports: Sequence[JobReport]) -> float:
    """When the last job of several ended, if all went well."""
    for report in reports:
        if report.error is not None:
            raise report.error
    return max(report.completed_s for report in reports if report.completed_s is not None)


def completion_of(plan: AnyPlan) -> Completion:
    """How the host waits; a pair waits in one way (see `abilities`)."""
    return plan.load.completion if isinstance(plan, PlanPair) else plan.completion


@dataclass(frozen=True, slots=True)
class Ways:
    """Chooses the way of a burst.

    Attributes:
        table: the driver.
        worker: has nothing else in flight.
        second: for a direction that would have to wait for a busy one; None leaves all to one thread.
    """

    table: DriverTable
    worker: TransferWorker
    second: SecondWorker | None = None

    def burst(self, plan: AnyPlan, runs: Sequence[BurstRun], rest_s: float) -> Burst:
        """A burst of runs that a plan has made and that were rehearsed, with a rest after chunks if it is positive."""
        completion = completion_of(plan)
        if rest_s > 0:
            return RestingBurst(self.table, runs, rest_s)
        if completion is Completion.BLOCKING_EVENT:
            return SleepingBurst(runs)
        if self.second is not None and is_busy(runs):
            return ApartBurst(self.worker, self.second, runs, completion)
        return WorkerBurst(self.worker, runs, completion)
