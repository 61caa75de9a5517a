"""Runs of lanes over a fake driver; lanes themselves need a GPU."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from pega_tune.autotune.cuda.lanes import LaneRun, Signals, Work
from pega_tune.kernels.backends.base import TransferBackend
from pega_tune.kernels.backends.batch import BatchBackend
from pega_tune.kernels.backends.direct import DirectBackend
from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.driver import DriverCallError, DriverFunction
from pega_tune.kernels.plan import Backend, Completion, CopyPlan, direct
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.program import Route
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.spans import LaunchBounds
from tests.helpers.batches import columns
from tests.helpers.fake_driver import FakeDriver
from tests.helpers.programs import STREAM, CountedEvents

START, END = 5, 6
OTHER_STREAM = STREAM + 100
BATCH = columns([(i * 8192, (7 - i) * 8192, 0, 4096, 0, 0) for i in range(8)])
CHUNKED = replace(direct(), chunk_bytes=4096)
F = DriverFunction


@dataclass
class FakeEvent:
    handle: int


def direct_backend() -> TransferBackend:
    return DirectBackend(Workspace(8))


class Rig:
    def __init__(self, plan: CopyPlan, make: Callable[[], TransferBackend] = direct_backend) -> None:
        self.driver = FakeDriver()
        self.events = CountedEvents()
        self._plan = plan
        self._make = make

    def run(self, direction: Direction = Direction.H2D, base: int = 0, stream: int = STREAM) -> LaneRun:
        route = Route(stream, stream + 1, self.events, START + base, END + base)
        signals: Any = Signals(FakeEvent(START + base), FakeEvent(END + base), self.events)  # type: ignore[arg-type]
        prepare = partial(self._make().prepare, BATCH, direction, self._plan)
        return LaneRun(
            self.driver.table, Work(prepare, route, self._plan.completion, LaunchBounds.of(self._plan)), signals
        )


def functions(driver: FakeDriver) -> list[DriverFunction]:
    return [call.function for call in driver.calls]


def streams_of_calls(driver: FakeDriver) -> list[int]:
    """The streams of batched copies."""
    return [call.arguments[-1] for call in driver.calls if call.function is F.MEMCPY_BATCH_ASYNC_V2]


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


@pytest.mark.parametrize("completion", list(Completion))
def test_runs_that_give_way_are_submitted_in_turn_from_where_they_are(completion: Completion) -> None:
    plan = CopyPlan(Backend.BATCH, completion=completion)
    rig = Rig(plan, lambda: BatchBackend(BatchSignature.V2, Workspace(8), copies_per_call=2))
    rig.driver.delay(1)
    runs = {STREAM: rig.run(), OTHER_STREAM: rig.run(Direction.D2H, base=10, stream=OTHER_STREAM)}
    for run in runs.values():
        run.prepare()
        run.submit()
    assert streams_of_calls(rig.driver) == [STREAM, OTHER_STREAM], "one call each"
    runs[STREAM].wait((runs[OTHER_STREAM],))
    calls = streams_of_calls(rig.driver)
    assert len(calls) == 8
    assert all(set(calls[i : i + 2]) == set(runs) for i in range(0, 8, 2)), "call by call"
    assert not rig.events.taken


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
