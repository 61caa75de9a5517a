"""Runs of lanes over a fake driver; lanes themselves need a GPU."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from pega_tune.autotune.cuda.lanes import LaneRun, Signals, Work
from pega_tune.kernels.backends.direct import DirectBackend
from pega_tune.kernels.driver import DriverCallError, DriverFunction
from pega_tune.kernels.plan import Completion, CopyPlan, direct
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.program import Route
from pega_tune.kernels.shape import Direction
from tests.helpers.batches import columns
from tests.helpers.fake_driver import FakeDriver
from tests.helpers.programs import STREAM, CountedEvents

START, END = 5, 6
BATCH = columns([(i * 8192, (7 - i) * 8192, 0, 4096, 0, 0) for i in range(8)])
CHUNKED = replace(direct(), chunk_bytes=4096)
F = DriverFunction


@dataclass
class FakeEvent:
    handle: int


class Rig:
    def __init__(self, plan: CopyPlan) -> None:
        self.driver = FakeDriver()
        self.events = CountedEvents()
        self._plan = plan

    def run(self, direction: Direction = Direction.H2D, base: int = 0) -> LaneRun:
        route = Route(STREAM, STREAM + 1, self.events, START + base, END + base)
        signals: Any = Signals(FakeEvent(START + base), FakeEvent(END + base), self.events)  # type: ignore[arg-type]
        prepare = partial(DirectBackend(Workspace(8)).prepare, BATCH, direction, self._plan)
        return LaneRun(self.driver.table, Work(prepare, route, self._plan.completion), signals)


def functions(driver: FakeDriver) -> list[DriverFunction]:
    return [call.function for call in driver.calls]


def test_a_rehearsal_moves_nothing() -> None:
    rig = Rig(direct())
    rig.run().rehearse()
    assert functions(rig.driver) == [F.EVENT_RECORD, F.EVENT_RECORD]


def test_a_run_lies_between_its_two_events() -> None:
    rig = Rig(direct())
    run = rig.run()
    run.prepare()
    run.submit()
    assert [call.arguments for call in rig.driver.calls][:: len(rig.driver.calls) - 1] == [
        (START, STREAM),
        (END, STREAM),
    ]
    run.wait()
    assert functions(rig.driver) == [F.EVENT_RECORD, *[F.MEMCPY_HTOD_ASYNC] * 8, F.EVENT_RECORD, F.EVENT_QUERY]


@pytest.mark.parametrize("completion", list(Completion))
def test_waiting_submits_the_chunks_that_are_left_in_both_directions(completion: Completion) -> None:
    rig = Rig(replace(CHUNKED, completion=completion))
    rig.driver.delay(2)
    load, save = rig.run(), rig.run(Direction.D2H, base=10)
    for run in (load, save):
        run.prepare()
    for run in (load, save):
        run.submit()
    assert functions(rig.driver).count(F.MEMCPY_HTOD_ASYNC) == functions(rig.driver).count(F.MEMCPY_DTOH_ASYNC) == 1
    assert load.wait((save,)) >= 0
    assert functions(rig.driver).count(F.MEMCPY_HTOD_ASYNC) == functions(rig.driver).count(F.MEMCPY_DTOH_ASYNC) == 8


def test_events_are_used_again_from_run_to_run() -> None:
    rig = Rig(CHUNKED)
    run = rig.run()
    for _ in range(3):
        run.rehearse()
        run.prepare()
        run.submit()
        run.wait()
    assert rig.events.made == 7
    assert not rig.events.taken


def test_a_failed_call_comes_out_of_submission_with_its_place() -> None:
    rig = Rig(direct())
    run = rig.run()
    run.prepare()
    rig.driver.fail(3, 1)
    with pytest.raises(DriverCallError, match="cuMemcpyHtoDAsync failed at index 2 with 1"):
        run.submit()
