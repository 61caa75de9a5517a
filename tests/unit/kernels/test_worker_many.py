"""A thousand jobs of all kinds, every tenth cancelled, over streams that go on by chance."""

import threading
import time
from collections import Counter
from random import Random

import pytest

from pega_tune.kernels.driver import DriverFunction
from pega_tune.kernels.plan import Completion
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.worker import TransferWorker
from pega_tune.kernels.worker_states import JobReport, JobState
from tests.helpers.late_driver import INVALID_VALUE, STREAMS, LateDriver
from tests.helpers.late_programs import Buffers, Events, Work, build

JOBS = 1000
CAPACITY = 100
CANCELLED = range(0, JOBS, 10)
COPIES = (DriverFunction.MEMCPY_HTOD_ASYNC, DriverFunction.MEMCPY_DTOH_ASYNC)


class Crowd:
    """The jobs, and what became of them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.driver = LateDriver()
        self.driver.hurry(seed)
        self.events = Events()
        self.worker = TransferWorker(self.driver.table, CAPACITY, self.events)
        self.works: list[list[Work]] = []
        self.buffers: list[list[Buffers]] = []
        self.reports: list[JobReport] = []
        self._to_cancel: list[int] = []

    def submit(self) -> None:
        """One more job; a tenth of all are cancelled, at once or while later ones are submitted."""
        works = [self.work() for _ in range(self.random.choice((1, 2)))]
        buffers = [Buffers(work, self.random.randrange(1000)) for work in works]
        programs = [build(work, self.events, buffer) for work, buffer in zip(works, buffers, strict=True)]
        job = self.worker.submit(programs, len(self.works), sum(work.nbytes for work in works))
        assert job == len(self.works)
        self.works.append(works)
        self.buffers.append(buffers)
        if job in CANCELLED:
            self._to_cancel.append(job)
        while self._to_cancel and self.random.random() < 0.5:
            self.worker.cancel(self._to_cancel.pop())

    def work(self) -> Work:
        """Any."""
        random = self.random
        stream, side = random.sample(range(1, STREAMS + 1), 2)
        return Work(
            stream,
            random.choice((None, side)),
            random.choice(("copy", "copies", "launch")),
            random.randint(1, 4),
            random.random() < 0.7,
            random.choice((Direction.H2D, Direction.D2H)),
            random.random() < 0.5,
        )

    def check(self) -> None:
        """Every job ended once, what is done moved all its bytes, nothing is left over, every stream kept its order."""
        assert Counter(report.job for report in self.reports) == dict.fromkeys(range(JOBS), 1)
        for report in self.reports:
            assert report.tag == report.job
            assert report.nbytes == sum(work.nbytes for work in self.works[report.job])
            moved = sum(buffer.ranges_moved() for buffer in self.buffers[report.job]) * 16
            assert moved == report.nbytes if report.state is JobState.DONE else moved <= report.nbytes
            assert report.state is not JobState.CANCELLED or report.job in CANCELLED
        assert not self.events.out
        assert all(self.driver.left(stream) == 0 for stream in range(1, STREAMS + 1))
        self.check_order()

    def check_order(self) -> None:
        """In every stream the jobs come one after another, as they were submitted."""
        owner = {}
        for job, buffers in enumerate(self.buffers):
            for buffer in buffers:
                first = int(buffer.descriptors.ctypes.data)
                addresses = buffer.columns[0].tolist() + list(range(first, first + buffer.descriptors.nbytes, 24))
                owner |= dict.fromkeys(addresses, job)
        last = dict.fromkeys(range(1, STREAMS + 1), -1)
        for call in self.driver.calls:
            if call.function in COPIES or call.function is DriverFunction.LAUNCH_KERNEL:
                job, stream = owner[call.arguments[0]], call.arguments[-1]
                assert last[stream] <= job
                last[stream] = job


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_thousand_jobs_polled_by_the_thread_that_submits_them(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(JOBS):
        while len(crowd.worker) == CAPACITY:
            crowd.reports += crowd.worker.poll()
        crowd.submit()
        for _ in range(crowd.random.randrange(3)):
            crowd.reports += crowd.worker.poll()
    crowd.reports += crowd.worker.drain()
    crowd.check()
    counts = Counter(report.state for report in crowd.reports)
    assert counts[JobState.CANCELLED] > JOBS / 20
    assert counts[JobState.FAILED] == 0


@pytest.mark.parametrize("completion", [Completion.POLL, Completion.YIELD])
def test_a_thousand_jobs_drained_by_another_thread(completion: Completion) -> None:
    crowd = Crowd(4)
    submitted = threading.Event()

    def serve() -> None:
        while not submitted.is_set() or len(crowd.worker):
            crowd.reports += crowd.worker.drain(completion)

    server = threading.Thread(target=serve)
    server.start()
    for _ in range(JOBS):
        while len(crowd.worker) == CAPACITY:
            time.sleep(0)
        crowd.submit()
    submitted.set()
    server.join()
    crowd.check()
    assert {report.state for report in crowd.reports} <= {JobState.DONE, JobState.CANCELLED}


@pytest.mark.parametrize("call", [100, 1001, 5002, 9003])
def test_one_failure_among_a_thousand_jobs_fails_one(call: int) -> None:
    crowd = Crowd(5)
    crowd.driver.fail(call, INVALID_VALUE)
    for _ in range(JOBS):
        while len(crowd.worker) == CAPACITY:
            crowd.reports += crowd.worker.poll()
        crowd.submit()
    crowd.reports += crowd.worker.drain()
    assert Counter(report.job for report in crowd.reports) == dict.fromkeys(range(JOBS), 1)
    (failed,) = (report for report in crowd.reports if report.state is JobState.FAILED)
    assert failed.error is not None
    assert failed.error.status == INVALID_VALUE
    assert crowd.driver.calls[call].function.symbol == failed.error.function
