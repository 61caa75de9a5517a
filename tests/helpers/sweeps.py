"""Engines, clocks and records for tests of sweeps."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pega_tune.autotune.engine import Backend, Capabilities, Conditions, Engine, Measurement, TransferBlock
from pega_tune.autotune.serving import Segment, ServingBlock
from pega_tune.autotune.sim.engine import SimEngine, SimOptions
from pega_tune.autotune.sim.faults import SimFaults
from pega_tune.autotune.sim.parameters import load_parameters
from pega_tune.autotune.sweep.events import SweepEvent, SweepFinished
from pega_tune.autotune.sweep.keys import block_key
from pega_tune.autotune.sweep.planner import plan_sweep
from pega_tune.autotune.sweep.request import SweepRequest
from pega_tune.kernels.facts import DeviceFacts
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.kernels.stream_options import PartitionSizes, PartitionSupport
from pega_tune.profiles.policy.terms import Colocation
from pega_tune.profiles.store.records import BlockFlag, BlockRecord, CellRecord, MeasurementRecord, Metric

PRIORITIES = (0, -1, -2, -3, -4, -5)
MIB = 1 << 20

QUICK = SweepRequest()
"""The smallest preset, whole."""

Block = TransferBlock | ServingBlock
Hook = Callable[[int, Block], None]


def capabilities(
    *,
    backends: tuple[Backend, ...] = (Backend.DIRECT, Backend.KERNEL),
    priorities: tuple[int, ...] = PRIORITIES,
    max_threads: int = 1024,
    memory_bytes: int = 1 << 34,
    partitions: PartitionSizes | None = None,
) -> Capabilities:
    """What a device can do, by default as much as an H200 without Green Contexts."""
    support = PartitionSupport(partitions) if partitions else PartitionSupport.no("too old")
    common = Capabilities(backends, priorities, max_threads, memory_bytes, memory_bytes, (), "")
    return replace(common, partitions=support)


def sim_engine(*faults: str) -> SimEngine:
    """A simulated H200 with faults, in this process."""
    return SimEngine(load_parameters("h200"), SimOptions(SimFaults.parse(faults)))


class HookedEngine:
    """A simulated H200 with copy engines alone, which leaves little to measure.

    Attributes:
        keys: of the blocks begun.
        serving: those beside decode.
        renewals: how many blocks were begun before each fresh process.
        closed: whether it was closed.
    """

    def __init__(self, hook: Hook | None = None, *, engine: Engine | None = None, name: str = "sim:h200") -> None:
        """Takes a hook called before each block with the number of blocks begun before it, and another name."""
        self._engine = engine or sim_engine()
        self._hook = hook
        self._name = name
        self.keys: list[str] = []
        self.serving: list[ServingBlock] = []
        self.renewals: list[int] = []
        self.closed = False

    @property
    def facts(self) -> DeviceFacts:
        return replace(self._engine.facts, uuid=self._name)

    def capabilities(self) -> Capabilities:
        return replace(self._engine.capabilities(), backends=(Backend.DIRECT,))

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        self._begin(block)
        return self._engine.transfer(block)

    def beside_decode(self, block: ServingBlock) -> Iterator[Segment]:
        self._begin(block)
        self.serving.append(block)
        return self._engine.beside_decode(block)

    def renew(self) -> None:
        self.renewals.append(len(self.keys))

    def _begin(self, block: Block) -> None:
        self.keys.append(block.key)
        if self._hook is not None:
            self._hook(len(self.keys) - 1, block)

    def conditions(self) -> Conditions:
        return self._engine.conditions()

    def close(self) -> None:
        self.closed = True
        self._engine.close()


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def now(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC)

    def seconds(self) -> float:
        return self.elapsed_s


def planned_keys(request: SweepRequest, engine: Engine) -> list[str]:
    """Keys of the blocks of a whole sweep, in order."""
    return [planned.key for planned in plan_sweep(request, engine.capabilities()).blocks]


def finished(events: Sequence[SweepEvent]) -> SweepFinished:
    """The last event."""
    last = events[-1]
    assert isinstance(last, SweepFinished)
    return last


def cell(plan: AnyPlan, samples: Sequence[float], *, status: str = "ok", kind: str = "plan") -> CellRecord:
    """A cell with transfer times in seconds, verified unless it failed."""
    measurements = (MeasurementRecord(Metric.TRANSFER, tuple(samples)),) if samples else ()
    name = plan.key if kind == "plan" else kind
    return CellRecord(name, kind, plan, status, verified=status != "mismatch", measurements=measurements)


def block(shape: TransferShape, cells: Sequence[CellRecord], *flags: BlockFlag) -> BlockRecord:
    """A block of idle transfers."""
    key = block_key(shape, Colocation.IDLE)
    return BlockRecord(key, shape, Colocation.IDLE, seed=1, seconds=0.5, cells=tuple(cells), flags=flags)
