"""The job mix of the GPU tests over the fake driver: real backends, programs and worker."""

from typing import Any

import pytest

from pega_tune.autotune.cuda.buffers import Slabs
from pega_tune.autotune.cuda.machinery import Backends, Machinery
from pega_tune.autotune.cuda.need import Need
from pega_tune.kernels.plan import Variant
from pega_tune.kernels.program import Route
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.worker import TransferWorker
from tests.helpers.fake_driver import FakeDriver
from tests.helpers.heap import Heap
from tests.helpers.moving_lanes import FakeFunction, MovingLane
from tests.helpers.programs import CountedEvents
from tests.helpers.worker_jobs import EXTENT_BYTES, RANGES, STAGING_BYTES, JobMix, Slot


def job_mix(driver: FakeDriver, events: CountedEvents, pairs: int = 4) -> JobMix:
    functions: Any = {variant: FakeFunction(2**63 + number) for number, variant in enumerate(Variant)}
    machinery = Machinery(driver.table, functions)
    allocators = Heap().allocators()
    made = []
    for pair in range(pairs):
        legs = []
        for way, direction in enumerate(Direction.BOTH.legs):
            slabs = Slabs(Need.of(RANGES, EXTENT_BYTES).staged(STAGING_BYTES), allocators)
            lane = MovingLane(direction, machinery)
            lane.attach(slabs)
            stream = 2**63 + 100 + 4 * pair + 2 * way
            slot = Slot(direction, lane, slabs, Backends.over(slabs, machinery))
            legs.append((slot, Route(stream, stream + 1, events)))
        made.append(tuple(legs))
    return JobMix(TransferWorker(driver.table, 2 * pairs, events), made, 408)


@pytest.mark.parametrize("late", [0, 3])
def test_a_mix_of_jobs_arrives_and_gives_its_events_back(late: int) -> None:
    driver, events = FakeDriver(), CountedEvents()
    driver.move_bytes()
    driver.delay(late)
    tally = job_mix(driver, events).run(60)
    assert tally.wrong == []
    assert sum(tally.states.values()) == 60
    assert "failed" not in tally.states
    assert 0 < tally.cancelled <= 6
    assert tally.empty > 0
    assert not events.taken


def test_bytes_that_do_not_arrive_are_noticed() -> None:
    driver, events = FakeDriver(), CountedEvents()  # moves nothing
    tally = job_mix(driver, events).run(5)
    assert len(tally.wrong) == 5 - tally.empty > 0
