"""Lanes with the real backends over a fake driver that moves bytes between buffers of this process."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.cuda.abilities import Abilities
from pega_tune.autotune.cuda.bench import Bench, OddTransfers
from pega_tune.autotune.cuda.block import BlockRunner
from pega_tune.autotune.cuda.buffers import Buffers, Slabs
from pega_tune.autotune.cuda.comparing import POISON, Comparer
from pega_tune.autotune.cuda.lanes import LaneRun, Signals, Work
from pega_tune.autotune.cuda.limits import MemoryLimits
from pega_tune.autotune.cuda.machinery import Backends, Machinery
from pega_tune.autotune.cuda.sampling import LoadSampler
from pega_tune.autotune.cuda.submission import SubmissionThread
from pega_tune.autotune.cuda.verifying import Verifier
from pega_tune.autotune.engine import Measurement, TransferBlock
from pega_tune.autotune.measuring.schedule import run_block
from pega_tune.kernels.batch_call import BatchSignature
from pega_tune.kernels.batch_probe import BatchSupport
from pega_tune.kernels.plan import CopyPlan, PlanPair, Variant
from pega_tune.kernels.program import Program, Route
from pega_tune.kernels.ranges import RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.spans import LaunchBounds
from pega_tune.kernels.stream_options import PriorityRange
from pega_tune.kernels.telemetry import TelemetrySample
from tests.helpers.fake_driver import FakeDriver
from tests.helpers.heap import Heap
from tests.helpers.programs import CountedEvents
from tests.helpers.spans import recorder

STREAMS = {Direction.H2D: (2**63 + 11, 2**63 + 12), Direction.D2H: (2**63 + 21, 2**63 + 22)}
EVENTS = {Direction.H2D: (2**63 + 31, 2**63 + 32), Direction.D2H: (2**63 + 41, 2**63 + 42)}
MIB = 1 << 20
SIGNATURE = BatchSignature.V2


@dataclass(frozen=True)
class FakeFunction:
    """A kernel that the fake driver stands for."""

    handle: int


@dataclass(frozen=True)
class FakeEvent:
    handle: int


class TimedRun(LaneRun):
    """Events of the fake driver have no times."""

    def device_s(self) -> float:
        return 1e-6


class MovingLane:
    """A lane as a bench uses it."""

    def __init__(self, direction: Direction, machinery: Machinery) -> None:
        self.direction = direction
        self._machinery = machinery
        self.slabs: Any = None
        self._backends: Any = None

    def attach(self, slabs: Slabs) -> None:
        self.slabs, self._backends = slabs, Backends.over(slabs, self._machinery)

    @property
    def host(self) -> NDArray[np.uint8]:
        host: NDArray[np.uint8] = self.slabs.host
        return host

    def poison_device(self, value: int, nbytes: int) -> None:
        ctypes.memset(self.slabs.device_address, value, nbytes)

    def upload(self, data: NDArray[np.uint8]) -> None:
        ctypes.memmove(self.slabs.device_address, data.ctypes.data, data.nbytes)

    def download(self, data: NDArray[np.uint8]) -> None:
        ctypes.memmove(data.ctypes.data, self.slabs.device_address, data.nbytes)

    def run(self, batch: RangeBatch, plan: CopyPlan) -> LaneRun:
        return self._run(plan, partial(self._backends.for_plan(plan).prepare, batch, self.direction, plan))

    def run_fused(self, load: RangeBatch, save: RangeBatch, pair: PlanPair) -> LaneRun:
        return self._run(pair.load, partial(self._backends.for_staging().prepare_fused, load, save, pair))

    def _run(self, plan: CopyPlan, prepare: Callable[[Route], Program]) -> LaneRun:
        start, end = EVENTS[self.direction]
        events: Any = CountedEvents()
        route = Route(*STREAMS[self.direction], events, start, end)
        signals: Any = Signals(FakeEvent(start), FakeEvent(end), events)  # type: ignore[arg-type]
        return TimedRun(self._machinery.table, Work(prepare, route, plan.completion, LaunchBounds.of(plan)), signals)


class _Telemetry:
    unknown = ""

    def sample(self) -> TelemetrySample:
        return TelemetrySample()

    def compute_pids(self) -> tuple[int, ...]:
        return ()


class MovingBench:
    """A bench over one fake driver."""

    def __init__(
        self,
        comparer: Comparer,
        limits: MemoryLimits | None = None,
        *,
        batch: bool = True,
        second: SubmissionThread | None = None,
    ) -> None:
        self.driver, self.heap = FakeDriver(), Heap()
        self.driver.move_bytes()
        functions: Any = {variant: FakeFunction(2**63 + number) for number, variant in enumerate(Variant)}
        machinery = Machinery(self.driver.table, functions, SIGNATURE if batch else None)
        lanes: Any = {way: MovingLane(way, machinery) for way in Direction.BOTH.legs}
        support = BatchSupport(True, SIGNATURE) if batch else BatchSupport.no("the probe was killed by SIGSEGV")
        context: Any = None
        buffers = Buffers(limits or MemoryLimits(1 << 30, 1 << 30), self.heap.allocators())
        abilities = Abilities(PriorityRange(0, -5), 1024, support)
        self.bench = Bench(context, lanes, buffers, Verifier(comparer, POISON), abilities, recorder(), second)
        self.odd = OddTransfers(self.bench)

    def run(self, block: TransferBlock) -> list[Measurement]:
        """All measurements of a block."""
        sampler = LoadSampler(_Telemetry(), 42, None)
        return list(run_block(block, BlockRunner(block, self.bench, self.odd, sampler).execute))
