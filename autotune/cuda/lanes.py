"""A lane: what one direction of a transfer runs on; its slabs, streams, events and backends."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.cuda.buffers import Slabs
from pega_tune.autotune.cuda.recording import record_event
from pega_tune.kernels.backends.base import TransferBackend
from pega_tune.kernels.backends.direct import DirectBackend
from pega_tune.kernels.backends.kernel import KernelBackend
from pega_tune.kernels.driver import DriverTable
from pega_tune.kernels.module import KernelFunction
from pega_tune.kernels.plan import Backend, CopyPlan, Variant
from pega_tune.kernels.prepare import Workspace
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.stream import Event, Stream, elapsed_s
from pega_tune.kernels.submit import wait_event

Functions: TypeAlias = Mapping[Variant, KernelFunction]


@dataclass(frozen=True, slots=True)
class Machinery:
    """What all lanes of an engine share.

    Attributes:
        table: driver functions for native code.
        functions: the copy kernels.
    """

    table: DriverTable
    functions: Functions


class Lane:
    """One direction; it runs one transfer at a time.

    Attributes:
        direction: which way; not both.
    """

    def __init__(self, direction: Direction, machinery: Machinery) -> None:
        self.direction = direction
        self._machinery = machinery
        self._slabs: Slabs | None = None
        self._backends: dict[Backend, TransferBackend[Any]] = {}
        self._streams: dict[int, Stream] = {}
        self._resources = contextlib.ExitStack()
        self._service = self._resources.enter_context(Stream())
        self._start = self._resources.enter_context(Event(timing=True))
        self._end = self._resources.enter_context(Event(timing=True))

    def __enter__(self) -> "Lane":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Destroys streams and events; the slabs are another's."""
        self._resources.close()
        self._streams.clear()

    def attach(self, slabs: Slabs) -> None:
        """Takes other slabs; what was prepared on the last ones must not be run any more."""
        if slabs is self._slabs:
            return
        self._slabs = slabs
        table, functions = self._machinery.table, self._machinery.functions
        capacity = slabs.need.descriptors
        handles = {variant: function.handle for variant, function in functions.items()}
        self._backends = {
            Backend.DIRECT: DirectBackend(table, Workspace(capacity)),
            Backend.KERNEL: KernelBackend(table, handles, slabs.descriptors),
        }

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
        """A transfer of `batch`, which lies in the slabs, by `plan`."""
        events = (self._start, self._end)
        return LaneRun(self._machinery.table, self._backends[plan.backend], self._work(batch, plan), events)

    def _work(self, batch: RangeBatch, plan: CopyPlan) -> "Work":
        return Work(batch, self.direction, plan, self._stream(plan.stream_priority))

    def _stream(self, priority: int) -> Stream:
        if priority not in self._streams:
            self._streams[priority] = self._resources.enter_context(Stream(priority))
        return self._streams[priority]


@dataclass(frozen=True, slots=True)
class Work:
    """What a lane is to do.

    Attributes:
        batch: the ranges.
        direction: which way.
        plan: how.
        stream: where, with the priority of the plan.
    """

    batch: RangeBatch
    direction: Direction
    plan: CopyPlan
    stream: Stream


class LaneRun:
    """One transfer in one lane, to run any number of times."""

    def __init__(
        self, table: DriverTable, backend: TransferBackend[Any], work: Work, events: tuple[Event, Event]
    ) -> None:
        self._table = table
        self._backend = backend
        self._work = work
        self._start, self._end = events
        self._stream = work.stream.handle
        self._prepared: Any = None

    def rehearse(self) -> None:
        """Prepares, and calls the driver for nothing."""
        self.prepare()
        record_event(self._table, self._start.handle, self._stream)

    def prepare(self) -> None:
        """Orders, merges and writes descriptors."""
        self._prepared = self._backend.prepare(self._work.batch, self._work.direction, self._work.plan)

    def submit(self) -> None:
        """Hands the work to the driver, between two events."""
        record_event(self._table, self._start.handle, self._stream)
        self._backend.submit(self._prepared, self._stream)
        record_event(self._table, self._end.handle, self._stream)

    def wait(self) -> None:
        """Polls until the work is done."""
        wait_event(self._table, self._end.handle)

    def device_s(self) -> float:
        """Seconds between the two events."""
        return elapsed_s(self._start, self._end)
