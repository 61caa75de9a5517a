"""A lane: what one direction of a transfer runs on; its slabs, streams, events and backends."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.cuda.buffers import Slabs
from pega_tune.autotune.cuda.machinery import Backends, Machinery
from pega_tune.autotune.cuda.streams import StreamPairs
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.commands import copies_in
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.event_pool import EventPool
from pega_tune.kernels.executor import Execution
from pega_tune.kernels.plan import Completion, CopyPlan, PlanPair
from pega_tune.kernels.program import Program, ProgramBuilder, Route
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.spans import LaunchBounds
from pega_tune.kernels.stream import Event, Stream, elapsed_s
from pega_tune.kernels.waiting import wait_all


class Lane(Closing):
    """One direction; it runs one transfer at a time.

    Attributes:
        direction: which way; not both.
    """

    def __init__(self, direction: Direction, machinery: Machinery) -> None:
        self.direction = direction
        self._machinery = machinery
        self._slabs: Slabs | None = None
        self._backends: Backends | None = None
        self._signals: dict[bool, Signals] = {}
        self._resources = contextlib.ExitStack()
        self._service = self._resources.enter_context(Stream())
        self._streams = self._resources.enter_context(StreamPairs(machinery.partitions))

    def close(self) -> None:
        """Destroys streams and events; the slabs are another's."""
        self._resources.close()
        self._signals.clear()

    def attach(self, slabs: Slabs) -> None:
        """Takes other slabs; what was prepared on the last ones must not be run any more."""
        if slabs is self._slabs:
            return
        self._slabs = slabs
        self._backends = Backends.over(slabs, self._machinery)

    @property
    def slabs(self) -> Slabs:
        """The slabs attached last."""
        if self._slabs is None:
            raise ValueError("no slabs are attached")
        return self._slabs

    @property
    def host(self) -> NDArray[np.uint8]:
        """The bytes of the host slab."""
        return self.slabs.host

    def poison_device(self, value: int, nbytes: int) -> None:
        """Fills the beginning of the device slab with one byte value, and waits."""
        self._service.set_bytes(self.slabs.device_address, value, nbytes)
        self._service.synchronize()

    def upload(self, data: NDArray[np.uint8]) -> None:
        """Copies bytes to the beginning of the device slab, and waits."""
        self._service.copy_to_device(self.slabs.device_address, data.ctypes.data, data.nbytes)
        self._service.synchronize()

    def download(self, data: NDArray[np.uint8]) -> None:
        """Copies the beginning of the device slab to `data`, and waits."""
        self._service.copy_to_host(data.ctypes.data, self.slabs.device_address, data.nbytes)
        self._service.synchronize()

    def run(self, batch: RangeBatch, plan: CopyPlan) -> "LaneRun":
        """A transfer of `batch`, which lies in the slabs, by `plan`.

        Raises:
            UnsupportedPlanError: no backend here runs it, or not on so many SMs.
        """
        prepare = self._attached.for_plan(plan).prepare
        return self._run(plan, partial(prepare, batch, self.direction, plan))

    def run_fused(self, load: RangeBatch, save: RangeBatch, pair: PlanPair) -> "LaneRun":
        """A load and a save that share launches, in this lane alone; their ranges may lie in anybody's slabs.

        Raises:
            UnsupportedPlanError: there is no staging buffer.
        """
        return self._run(pair.load, partial(self._attached.for_staging().prepare_fused, load, save, pair))

    def _run(self, plan: CopyPlan, prepare: Callable[[Route], Program]) -> "LaneRun":
        signals = self._signals_for(plan.completion)
        work = Work(prepare, self._route(plan, signals), plan.completion, LaunchBounds.of(plan))
        return LaneRun(self._machinery.table, work, signals)

    @property
    def _attached(self) -> Backends:
        if self._backends is None:
            raise ValueError("no slabs are attached")
        return self._backends

    def _route(self, plan: CopyPlan, signals: "Signals") -> Route:
        stream, side_stream = self._streams.of(plan)
        return Route(stream.handle, side_stream.handle, signals.pool, signals.start.handle, signals.end.handle)

    def _signals_for(self, completion: Completion) -> "Signals":
        blocking = completion is Completion.BLOCKING_EVENT
        if blocking not in self._signals:
            start, end = (self._resources.enter_context(Event(timing=True, blocking=blocking)) for _ in range(2))
            pool = self._resources.enter_context(EventPool(lambda: Event(blocking=blocking)))
            self._signals[blocking] = Signals(start, end, pool)
        return self._signals[blocking]


@dataclass(frozen=True, slots=True)
class Signals:
    """Events of one kind, whose waiters spin or sleep.

    Attributes:
        start: before the work, with timing.
        end: after it, with timing.
        pool: for what programs need in between.
    """

    start: Event
    end: Event
    pool: EventPool


@dataclass(frozen=True, slots=True)
class Work:
    """What a lane is to do.

    Attributes:
        prepare: compiles it for a route.
        route: where, with the priority and the events that the plan asks for.
        completion: how the host waits.
        bounds: of its launches.
    """

    prepare: Callable[[Route], Program]
    route: Route
    completion: Completion
    bounds: LaunchBounds


class LaneRun:
    """One transfer in one lane, to run any number of times.

    Attributes:
        copies: that the host asks for, one by one or in batches; 0 before it has been rehearsed.
    """

    def __init__(self, table: DriverTable, work: Work, signals: Signals) -> None:
        self.copies = 0
        self._table = table
        self._work = work
        self._signals = signals
        self._execution: Execution | None = None
        self._nothing = ProgramBuilder(work.route).finish()

    def rehearse(self) -> None:
        """Compiles the batch, and runs a program that only records the events."""
        self.prepare()
        self.copies = copies_in(self.program.commands)
        Execution(self._table, self._nothing).advance()

    def prepare(self) -> None:
        """Orders, merges, writes descriptors, and lists the driver calls."""
        self._retire()
        self._execution = Execution(self._table, self._work.prepare(self._work.route))

    @property
    def program(self) -> Program:
        """What is prepared."""
        return self._prepared.program

    @property
    def bounds(self) -> LaunchBounds:
        """Of its launches."""
        return self._work.bounds

    def submit(self) -> None:
        """Hands the work to the driver between two events, up to where it first has to wait, or gives way."""
        self._prepared.advance()

    def wait(self, others: Sequence["LaneRun"] = ()) -> float:
        """Hands over what is left, and waits for it as the plan says; see `Run.wait`."""
        executions = [run._prepared for run in (self, *others)]
        spent_s = wait_all(self._table, executions, self._work.completion)
        for run in (self, *others):
            run._retire()
        return spent_s

    def device_s(self) -> float:
        """Seconds between the two events."""
        return elapsed_s(self._signals.start, self._signals.end)

    @property
    def _prepared(self) -> Execution:
        if self._execution is None:
            raise ValueError("nothing is prepared")
        return self._execution

    def _retire(self) -> None:
        """Gives back the events of a program that has ended or has never begun."""
        if self._execution is not None:
            self._signals.pool.give_back(self._execution.program.events)
            self._execution = None
