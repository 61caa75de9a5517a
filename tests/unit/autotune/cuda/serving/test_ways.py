"""Bursts on a driver whose streams run late: every byte moved, and the driver's calls in the order they should have."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from pega_tune.autotune.cuda.serving.ways import (
    WORKER_JOBS,
    RestingBurst,
    SleepingBurst,
    Ways,
    WorkerBurst,
)
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
