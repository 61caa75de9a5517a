"""Bursts on a driver whose streams run late: every byte moved, and the driver's calls in the order they should have."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest

from pega_tune.autotune.cuda.serving.ways import (
    WORKER_JOBS,
    ApartBurst,
    RestingBurst,
    SecondWorker,
    SleepingBurst,
    Ways,
    WorkerBurst,
)
from pega_tune.autotune.cuda.submission import BUSY_COPIES, SubmissionThread
from pega_tune.kernels.driver import DriverCallError, DriverFunction
from pega_tune.kernels.plan import AnyPlan, Completion, PlanPair, direct
from pega_tune.kernels.program import Program
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.worker import TransferWorker
from tests.helpers.late_driver import ILLEGAL_ADDRESS, INVALID_VALUE, LateDriver
from tests.helpers.late_programs import Buffers, Events, Work, build

LOAD = Work(1, chunks=4)
SAVE = Work(2, chunks=4, direction=Direction.D2H)
COPIES = (DriverFunction.MEMCPY_HTOD_ASYNC, DriverFunction.MEMCPY_DTOH_ASYNC)


@dataclass
class LateRun:
    """A direction whose programs move other bytes each time."""

    work: Work
    events: Events
    copies: int = 3
    prepared: list[tuple[Program, Buffers]] = field(default_factory=list)

    @property
    def program(self) -> Program:
        return self.prepared[-1][0]

    def prepare(self) -> None:
        buffers = Buffers(self.work, len(self.prepared))
        self.prepared.append((build(self.work, self.events, buffers), buffers))

    def whole(self) -> bool:
        """Whether everything that was prepared has been moved."""
        return all(buffers.ranges_moved() == 3 * self.work.chunks for _, buffers in self.prepared)


@dataclass
class Rig:
    """A hurried driver and a load and a save on it."""

    driver: LateDriver = field(default_factory=LateDriver)
    events: Events = field(default_factory=Events)

    def __post_init__(self) -> None:
        self.driver.hurry(3)
        self.runs = [LateRun(work, self.events) for work in (LOAD, SAVE)]
        self.worker = TransferWorker(self.driver.table, WORKER_JOBS)

    @property
    def copies(self) -> list[DriverFunction]:
        return [call.function for call in self.driver.calls if call.function in COPIES]


@pytest.mark.parametrize("completion", [Completion.POLL, Completion.YIELD])
def test_bursts_through_the_worker_move_everything_again_and_again(completion: Completion) -> None:
    rig = Rig()
    burst = WorkerBurst(rig.worker, rig.runs, completion)
    for _ in range(5):
        begin_s = time.monotonic()
        assert begin_s <= burst.run() <= time.monotonic()
    assert all(run.whole() and len(run.prepared) == 5 for run in rig.runs)
    assert len(rig.worker) == 0


def test_a_direction_starts_before_the_next_one_is_prepared() -> None:
    rig = Rig()
    seen: list[int] = []

    class Watched(LateRun):
        def prepare(self) -> None:
            seen.append(len(rig.copies))
            super().prepare()

    WorkerBurst(rig.worker, [rig.runs[0], Watched(SAVE, rig.events)], Completion.POLL).run()
    assert seen == [3]  # the load's first chunk


@pytest.mark.parametrize("status", [INVALID_VALUE, ILLEGAL_ADDRESS])
def test_what_a_job_fails_with_is_raised(status: int) -> None:
    rig = Rig()
    rig.driver.fail(5, status)
    with pytest.raises(DriverCallError) as caught:
        WorkerBurst(rig.worker, rig.runs, Completion.POLL).run()
    assert caught.value.status == status


@pytest.fixture
def thread() -> Iterator[SubmissionThread]:
    with SubmissionThread(lambda: None) as made:
        yield made


def _apart(rig: Rig, thread: SubmissionThread, runs: Sequence[LateRun]) -> ApartBurst:
    second = SecondWorker(thread, TransferWorker(rig.driver.table, WORKER_JOBS))
    return ApartBurst(rig.worker, second, runs, Completion.POLL)


def test_directions_apart_move_everything_again_and_again(thread: SubmissionThread) -> None:
    rig = Rig()
    burst = _apart(rig, thread, rig.runs)
    for _ in range(5):
        begin_s = time.monotonic()
        assert begin_s <= burst.run() <= time.monotonic()
    assert all(run.whole() and len(run.prepared) == 5 for run in rig.runs)
    assert len(rig.worker) == len(burst.second.worker) == 0


def test_no_direction_waits_until_the_other_one_is_prepared(thread: SubmissionThread) -> None:
    rig = Rig()
    together = threading.Barrier(2, timeout=30)

    class Meeting(LateRun):
        def prepare(self) -> None:
            together.wait()
            super().prepare()

    _apart(rig, thread, [Meeting(LOAD, rig.events), Meeting(SAVE, rig.events)]).run()
    assert not together.broken


def test_a_direction_that_fails_waits_for_the_other_one_which_may_be_moving(thread: SubmissionThread) -> None:
    rig = Rig()
    began = threading.Event()

    class Failing(LateRun):
        def prepare(self) -> None:
            began.wait(30)
            raise ValueError("no descriptors")

    class Late(LateRun):
        def prepare(self) -> None:
            began.set()
            super().prepare()

    runs = [Failing(LOAD, rig.events), Late(SAVE, rig.events)]
    with pytest.raises(ValueError, match="no descriptors"):
        _apart(rig, thread, runs).run()
    assert runs[1].whole()


def test_a_sleeping_burst_hands_over_both_directions_and_waits_for_both() -> None:
    log: list[str] = []

    @dataclass
    class Logged:
        name: str

        def prepare(self) -> None:
            log.append(f"prepare {self.name}")

        def submit(self) -> None:
            log.append(f"submit {self.name}")

        def wait(self, others: Sequence["Logged"] = ()) -> float:
            log.append(f"wait {self.name} {[other.name for other in others]}")
            return 0.0

    assert SleepingBurst([Logged("load"), Logged("save")], lambda: 7.0).run() == 7.0  # type: ignore[list-item]
    assert log == ["prepare load", "submit load", "prepare save", "submit save", "wait load ['save']"]


def test_a_resting_burst_rests_after_every_chunk_but_the_last() -> None:
    rig = Rig()
    rests: list[tuple[float, int, int]] = []

    def rest(seconds: float) -> None:
        rests.append((seconds, len(rig.copies), rig.driver.left(1) + rig.driver.left(2)))

    burst = RestingBurst(rig.driver.table, rig.runs, 0.25, sleep=rest)
    burst.run()
    # Three copies a chunk and direction; nothing is on its way while it rests.
    assert rests == [(0.25, 6, 0), (0.25, 12, 0), (0.25, 18, 0)]
    assert len(rig.copies) == 24
    assert all(run.whole() for run in rig.runs)


def test_directions_of_unequal_length_rest_until_both_are_through() -> None:
    rig = Rig()
    rests: list[float] = []
    runs = [LateRun(replace(LOAD, chunks=2), rig.events), LateRun(SAVE, rig.events)]
    RestingBurst(rig.driver.table, runs, 0.25, sleep=rests.append).run()
    assert len(rests) == 3
    assert all(run.whole() for run in runs)


def test_a_burst_without_chunks_has_nothing_to_rest_after() -> None:
    rig = Rig()
    rests: list[float] = []
    runs = [LateRun(replace(LOAD, chunks=1), rig.events)]
    RestingBurst(rig.driver.table, runs, 0.25, sleep=rests.append).run()
    assert rests == []
    assert runs[0].whole()


@pytest.mark.parametrize(
    ("completion", "rest_s", "way"),
    [
        (Completion.POLL, 0.0, WorkerBurst),
        (Completion.YIELD, 0.0, WorkerBurst),
        (Completion.BLOCKING_EVENT, 0.0, SleepingBurst),
        (Completion.POLL, 0.01, RestingBurst),
        (Completion.BLOCKING_EVENT, 0.01, RestingBurst),
    ],
)
def test_the_way_follows_from_the_plan(completion: Completion, rest_s: float, way: type) -> None:
    rig = Rig()
    leg = replace(direct(), completion=completion)
    plans: list[AnyPlan] = [leg, PlanPair(leg, leg)]
    for plan in plans:
        assert type(Ways(rig.driver.table, rig.worker).burst(plan, rig.runs, rest_s)) is way


@pytest.mark.parametrize(
    ("copies", "way"),
    [((BUSY_COPIES, 1), ApartBurst), ((1, BUSY_COPIES), ApartBurst), ((BUSY_COPIES - 1,) * 2, WorkerBurst)],
)
def test_a_direction_with_many_copies_makes_a_thread_for_each(
    copies: tuple[int, int], way: type, thread: SubmissionThread
) -> None:
    rig = Rig()
    second = SecondWorker(thread, TransferWorker(rig.driver.table, WORKER_JOBS))
    ways = Ways(rig.driver.table, rig.worker, second)
    for run, count in zip(rig.runs, copies, strict=True):
        run.copies = count
    pair = PlanPair(direct(), direct())
    assert type(ways.burst(pair, rig.runs, 0.0)) is way
    assert type(Ways(rig.driver.table, rig.worker).burst(pair, rig.runs, 0.0)) is WorkerBurst
    assert type(ways.burst(pair, rig.runs[:1], 0.0)) is WorkerBurst
