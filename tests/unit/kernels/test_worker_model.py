"""The shipped worker beside the slow one: the same calls of the driver, in the same order, and the same reports."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from pega_tune.kernels.shape import Direction
from pega_tune.kernels.worker import TransferWorker
from pega_tune.kernels.worker_states import JobReport
from tests.helpers.late_driver import ILLEGAL_ADDRESS, INVALID_VALUE, STREAMS, LateDriver
from tests.helpers.late_programs import Buffers, Events, Work, build
from tests.helpers.slow_worker import SlowDriver, SlowJob, SlowWorker

STREAM = st.integers(1, STREAMS)


@st.composite
def works(draw: st.DrawFn) -> Work:
    stream = draw(STREAM)
    side = draw(st.none() | STREAM.filter(lambda other: other != stream))
    return Work(
        stream,
        side,
        draw(st.sampled_from(["copy", "copies"])),
        draw(st.integers(1, 4)),
        draw(st.booleans()),
        draw(st.sampled_from([Direction.H2D, Direction.D2H])),
        draw(st.booleans()),
    )


@dataclass(frozen=True)
class Submit:
    works: tuple[Work, ...]


@dataclass(frozen=True)
class Cancel:
    job: int


@dataclass(frozen=True)
class Complete:
    stream: int
    operations: int


@dataclass(frozen=True)
class Poll:
    pass


ACTIONS = st.one_of(
    st.builds(Submit, st.lists(works(), min_size=1, max_size=2).map(tuple)),
    st.builds(Cancel, st.integers(0, 8)),
    st.builds(Complete, STREAM, st.integers(1, 12)),
    st.just(Poll()),
    st.just(Poll()),
)
FAULTS = st.none() | st.tuples(st.integers(0, 60), st.sampled_from([INVALID_VALUE, ILLEGAL_ADDRESS]))


@dataclass
class Pair:
    """Both workers over both drivers."""

    fault: tuple[int, int] | None
    events: Events = field(default_factory=Events)
    buffers: dict[int, list[Buffers]] = field(default_factory=dict)
    reports: list[JobReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.driver = LateDriver()
        if self.fault:
            self.driver.fail(*self.fault)
        self.worker = TransferWorker(self.driver.table, 64, self.events)
        self.slow_driver = SlowDriver(*(self.fault or (None, 0)))
        self.slow = SlowWorker(self.slow_driver)

    def act(self, action: Submit | Cancel | Complete | Poll) -> None:
        match action:
            case Submit(works) if not self.slow.dead:
                buffers = [Buffers(work, seed) for seed, work in enumerate(works)]
                programs = [build(work, self.events, buffer) for work, buffer in zip(works, buffers, strict=True)]
                job = self.worker.submit(programs, works, sum(work.nbytes for work in works))
                self.buffers[job] = buffers
                self.slow.submit(job, programs)
            case Cancel(job):
                assert self.worker.cancel(job) == self.slow.cancel(job)
            case Complete(stream, operations):
                self.driver.complete(stream, operations)
                self.slow_driver.complete(stream, operations)
            case Poll():
                self.poll()

    def poll(self) -> None:
        reports, ended = self.worker.poll(), self.slow.poll()
        assert [told(report) for report in reports] == [told_slowly(job) for job in ended]
        assert self.driver.calls == self.slow_driver.calls
        assert len(self.worker) == len(self.slow.jobs)
        for job in self.slow.jobs:
            assert self.worker.report(job.number).state == job.state
        self.reports += reports
        for report in reports:
            self.check_bytes(report)

    def check_bytes(self, report: JobReport) -> None:
        """What ended has moved everything that the driver took for it, no more and no less."""
        if self.slow.dead or self.worker.stranded:
            return
        failed = self.fault[0] if self.fault else None
        taken = {call.arguments[0] for number, call in enumerate(self.driver.calls) if number != failed}
        for buffer in self.buffers[report.job]:
            assert buffer.ranges_moved() == len(taken & set(buffer.columns[0].tolist()))
            assert report.state != "done" or buffer.ranges_moved() == len(buffer.source)


def told(report: JobReport) -> tuple[object, ...]:
    error = report.error
    return report.job, report.state, report.chunks, error and (error.function, error.status, error.index)


def told_slowly(job: SlowJob) -> tuple[object, ...]:
    return job.number, job.state, job.chunks, job.failure and job.failure.args


@given(st.lists(ACTIONS, max_size=40), FAULTS)
@settings(max_examples=400, deadline=None)
def test_worker_does_what_the_slow_one_does(
    actions: list[Submit | Cancel | Complete | Poll], fault: tuple[int, int] | None
) -> None:
    pair = Pair(fault)
    for action in actions:
        pair.act(action)
    for _ in range(400):
        if not pair.slow.jobs:
            break
        for stream in range(1, STREAMS + 1):
            pair.act(Complete(stream, 100))
        pair.poll()
    assert sorted(report.job for report in pair.reports) == list(range(len(pair.buffers)))
    assert pair.events.out == {event for program in pair.worker.stranded for event in program.events}
