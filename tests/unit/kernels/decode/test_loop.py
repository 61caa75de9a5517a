import threading
import time
from itertools import pairwise

import pytest

from pega_tune.kernels.decode.loop import Copy, Step, StepLoop
from pega_tune.kernels.decode.ring import RingState, StepRing
from pega_tune.kernels.driver import DriverCallError, DriverFunction
from tests.helpers.fake_driver import Call, FakeDriver

STREAM, GRAPH, EVENT = 2**63 + 1, 2**62 + 3, 2**61 + 5
STEP = Step(STREAM, GRAPH, EVENT, Copy(2**60 + 7, 2**59 + 9, 16_384), Copy(2**58 + 11, 2**57 + 13, 8))
F = DriverFunction
SUBMITTED = [
    Call(F.MEMCPY_HTOD_ASYNC, (2**60 + 7, 2**59 + 9, 16_384, STREAM)),
    Call(F.GRAPH_LAUNCH, (GRAPH, STREAM)),
    Call(F.MEMCPY_DTOH_ASYNC, (2**58 + 11, 2**57 + 13, 8, STREAM)),
    Call(F.EVENT_RECORD, (EVENT, STREAM)),
]
QUERY = Call(F.EVENT_QUERY, (EVENT,))


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.mark.parametrize("late", [0, 1, 5])
def test_a_step_is_submitted_once_and_asked_for_until_it_has_ended(driver, late):
    driver.delay(late)
    StepLoop(driver.table, STEP, StepRing.private(8)).run(steps=3)
    assert driver.calls == [*SUBMITTED, *[QUERY] * (late + 1)] * 3


def test_nothing_is_called_before_it_runs(driver):
    StepLoop(driver.table, STEP, StepRing.private(8))
    assert driver.calls == []


def test_the_ends_are_times_of_the_monotonic_clock(driver):
    ring = StepRing.private(16)
    loop = StepLoop(driver.table, STEP, ring)
    begin_s = time.monotonic()
    loop.run(steps=10)
    ends = ring.ends_between(begin_s, time.monotonic())
    assert (len(ends), ring.count, ring.state, ring.status) == (10, 10, RingState.STOPPED, 0)
    assert all(one <= next_one for one, next_one in pairwise(ends.tolist()))


def test_a_full_ring_forgets_the_oldest_steps(driver):
    ring = StepRing.private(4)
    loop = StepLoop(driver.table, STEP, ring)
    loop.run(steps=50)
    between = time.monotonic()
    loop.run(steps=2)
    assert ring.count == 52
    assert len(ring.ends_between(between, time.monotonic())) == 2


def test_a_stop_asked_for_before_lets_no_step_begin(driver):
    ring = StepRing.private(4)
    ring.stop()
    StepLoop(driver.table, STEP, ring).run()
    assert (driver.calls, ring.count, ring.state) == ([], 0, RingState.STOPPED)


def test_it_steps_without_the_interpreter_until_told_to_stop(driver):
    ring = StepRing.private(1024)
    thread = threading.Thread(target=StepLoop(driver.table, STEP, ring).run)
    thread.start()
    while ring.count < 100_000:  # without the lock being given up this would never be reached, nor even looked at
        time.sleep(0)
    ring.stop()
    thread.join()
    after = ring.count
    assert ring.state is RingState.STOPPED
    assert ring.count == after


@pytest.mark.parametrize("call", range(5))
def test_the_first_call_that_fails_ends_it_and_is_named(driver, call):
    ring = StepRing.private(4)
    loop = StepLoop(driver.table, STEP, ring)
    loop.run(steps=2)
    driver.fail(len(driver.calls) + call, 700)
    with pytest.raises(DriverCallError) as caught:
        loop.run()
    failed = [*SUBMITTED, QUERY][call]
    assert (caught.value.function, caught.value.status) == (failed.function.symbol, 700)
    assert (ring.state, ring.status, ring.count) == (RingState.FAILED, 700, 2)
    assert driver.calls[-1] == failed


def test_the_first_steps_are_not_to_be_counted(driver):
    ring = StepRing.private(4)
    loop = StepLoop(driver.table, STEP, ring)
    loop.run(steps=3, warm_steps=4)
    ring.begin(1)
    assert not ring.is_warm
    loop.run(steps=2, warm_steps=1)
    assert ring.count == 5
