"""The hardware seam: what an engine is asked to measure, and what it answers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from pega_tune.autotune.capabilities import BATCH_UNTRIED, BatchCopies, HostLimits, MappedMemory
from pega_tune.autotune.layouts import SHUFFLED, NamedLayout
from pega_tune.errors import DeviceError, UsageError
from pega_tune.kernels.facts import DeviceFacts, Link
from pega_tune.kernels.plan import AnyPlan, Backend, PlanPair
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.kernels.stream_options import NO_PRIORITIES, PARTITIONS_UNTRIED, PartitionSupport, PriorityRange

if TYPE_CHECKING:  # serving blocks are made of candidates
    from pega_tune.autotune.serving import Segment, ServingBlock


class MemoryLimitError(DeviceError):
    """A block needs more device or pinned host memory than the engine may use."""

    code = "memory-limit"


class EngineLostError(DeviceError):
    """The engine cannot go on, its context being poisoned for instance; only a new one can."""

    code = "engine-lost"


class CandidateKind(StrEnum):
    """What a candidate is there for."""

    PLAN = "plan"
    STATIC = "static"
    CEILING = "ceiling"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One thing to measure in a block.

    Attributes:
        name: unique within its block.
        kind: a plan that may win; a rule that systems ship today, for comparison; or the ceiling, which moves the
            same bytes as one contiguous DMA command per direction instead of the block's ranges.
        plan: a pair if the block moves both ways, else a plan.
    """

    name: str
    kind: CandidateKind
    plan: AnyPlan


@dataclass(frozen=True, slots=True)
class SamplingLimits:
    """When a block may stop.

    Attributes:
        budget_s: time for the timed rounds of the block, in seconds; the first `min_rounds` rounds run regardless.
        min_rounds: timed rounds of every candidate that stays in.
        max_rounds: rounds after which the block ends.
        drop_after: rounds after which a candidate may be dropped as hopeless.
        drop_ratio: a candidate whose fastest sample is this many times the best median is hopeless.
        settled_width: relative width of the 95 % interval of the best candidate's median at which the block ends.
    """

    budget_s: float
    min_rounds: int = 7
    max_rounds: int = 40
    drop_after: int = 2
    drop_ratio: float = 2.0
    settled_width: float = 0.02


@dataclass(frozen=True, slots=True)
class TransferBlock:
    """The durable unit of measuring: one shape, in one process, its candidates interleaved in random order.

    The ranges of the block are equal in size (the remainder spread one byte each). Unless told otherwise they are
    shuffled on both sides, so that none are adjacent and `shape.merged_ranges` is what every backend sees. In every
    other layout too it is the number of ranges, which a contiguous one lets backends merge into one.

    Attributes:
        key: names the block within its sweep; equal for the same work in a resumed sweep.
        shape: what is moved.
        candidates: what to compare, the ceiling among them.
        limits: when to stop.
        seed: of the order, the layout and the data.
        excluded: indices of candidates that take no part, because they have cost an engine before. The order of the
            others is the same with and without them.
        layout: how the ranges lie.
    """

    key: str
    shape: TransferShape
    candidates: tuple[Candidate, ...]
    limits: SamplingLimits
    seed: int
    excluded: frozenset[int] = frozenset()
    layout: NamedLayout = SHUFFLED

    def __post_init__(self) -> None:
        self.layout.described(self.shape)
        if len({candidate.name for candidate in self.candidates}) < len(self.candidates):
            raise UsageError(f"block {self.key}: two candidates have the same name")
        both = self.shape.direction is Direction.BOTH
        odd = next((c for c in self.candidates if isinstance(c.plan, PlanPair) != both), None)
        if odd is not None:
            raise UsageError(f"block {self.key} moves {self.shape.direction}, which {odd.plan.key} does not")


class Phase(StrEnum):
    """Part of a block: every candidate is verified once, then timed round after round."""

    VERIFY = "verify"
    TIMED = "timed"


class Status(StrEnum):
    """How one execution, or a whole cell, ended."""

    OK = "ok"
    MISMATCH = "mismatch"
    UNSUPPORTED = "unsupported"
    CRASHED = "crashed"
    TIMED_OUT = "timed-out"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One execution of one candidate.

    Attributes:
        candidate: index into `TransferBlock.candidates`.
        phase: verification (times are zero) or a timed round.
        status: anything but `OK` takes the candidate out of the block.
        transfer_s: from the submit call to completion seen, preparation included; seconds.
        prepare_s: ordering, merging and writing descriptors, of both directions; seconds.
        submit_s: driver calls, of both directions; seconds.
        device_s: between device events around the work, the longer direction; seconds, None if not measured.
        detail: why the status is not `OK`, one line.
        wait_cpu_s: processor time of the thread that waits, from submission to completion seen; seconds, None if not
            measured.
        sm_s: SM-seconds: sum over CTAs of their time on an SM, over the CTAs that share one; None if not measured. It
            and `span_s` are taken with kernels that write down their times, in an execution of their own, of which the
            candidate's first timed round tells. Both are 0 without a kernel of ours, and unknown for batched copies,
            for which the driver may use SMs.
        span_s: from the first CTA's beginning to the last one's end, over all launches; seconds, None if not measured.
        moving_s: from the first driver call to completion seen, when everything had been prepared before; seconds, None
            if not measured. Of a load and a save at once, the second of which is prepared while the first one moves,
            it is taken in an execution of its own right after.
    """

    candidate: int
    phase: Phase
    status: Status = Status.OK
    transfer_s: float = 0.0
    prepare_s: float = 0.0
    submit_s: float = 0.0
    device_s: float | None = None
    detail: str = ""
    wait_cpu_s: float | None = None
    sm_s: float | None = None
    span_s: float | None = None
    moving_s: float | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the device went through while the last block ran. `None` means that this host does not tell.

    Attributes:
        sm_clock_hz: SM clock under load.
        link: PCIe link under load.
        throttle_reasons: NVML clock event reasons that slow the device, as names; empty if none.
        other_processes: ids of processes other than ours with a context on the device.
        temperature_c: degrees Celsius.
        unknown: why telemetry is missing, one line; empty if it is not.
    """

    sm_clock_hz: int | None = None
    link: Link | None = None
    throttle_reasons: tuple[str, ...] = ()
    other_processes: tuple[int, ...] = ()
    temperature_c: int | None = None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this device, driver and process can do.

    Attributes:
        backends: backends that work here.
        priorities: distinct effective stream priorities, weakest first.
        max_threads: most threads per CTA of the copy kernels.
        device_bytes: device memory that a block may use, in bytes.
        host_bytes: pinned host memory that a block may use, in bytes.
        other_processes: ids of processes other than ours with a context on the device; None if unknown.
        kernel_digest: identifies the copy kernels' code; empty for a simulated device.
        priority_range: what may be asked for; drivers may give fewer, which are `priorities`.
        partitions: SMs of the Green Contexts to which kernels can be confined.
        batch: which batched copies work.
        copy_engines: asynchronous copy engines; None if unknown.
        mapped_memory: at which address kernels see pinned host memory; None if unknown.
        host: where this process runs, and what of the host's memory it may hold.
    """

    backends: tuple[Backend, ...]
    priorities: tuple[int, ...]
    max_threads: int
    device_bytes: int
    host_bytes: int
    other_processes: tuple[int, ...] | None
    kernel_digest: str
    priority_range: PriorityRange = NO_PRIORITIES
    partitions: PartitionSupport = PARTITIONS_UNTRIED
    batch: BatchCopies = BATCH_UNTRIED
    copy_engines: int | None = None
    mapped_memory: MappedMemory | None = None
    host: HostLimits = field(default_factory=HostLimits)


class Engine(Protocol):
    """A device that can be measured. One engine lives in one process; it is not thread-safe."""

    @property
    def facts(self) -> DeviceFacts:
        """Which device it is."""

    def capabilities(self) -> Capabilities:
        """What can be measured here.

        Raises:
            DeviceError: the device is not usable.
        """

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        """Runs a block, yielding each execution as it ends, in the order of `BlockSchedule`.

        A candidate that fails is reported once with its status and takes no further part.

        Raises:
            MemoryLimitError: the block needs more memory than the capabilities give; nothing has been run.
            EngineLostError: the candidate that runs has cost the engine; it takes no further block.
        """

    def beside_decode(self, block: "ServingBlock") -> "Iterator[Segment]":
        """Runs a serving block, yielding each segment as it ends, in the order of `ServingSchedule`.

        A candidate that fails is reported once with its status and takes no further part.

        Raises:
            DeviceError: there is no such decode, or not where the block wants it; nothing has been run.
            MemoryLimitError: the block needs more memory than there is; nothing has been run.
            EngineLostError: the candidate that runs has cost the engine, or decode; it takes no further block.
        """

    def conditions(self) -> Conditions:
        """What was sampled while the last block ran."""

    def close(self) -> None:
        """Gives everything back; the engine is not used again."""


@runtime_checkable
class RenewableEngine(Protocol):
    """An engine in a process that can be replaced by a fresh one."""

    def renew(self) -> None:
        """Ends the process and starts another one, which may start while the caller goes on.

        That it does not start is then raised, as an `EngineLostError`, by what is asked of it next.
        """


EngineFactory: TypeAlias = Callable[[], Engine]
"""Builds an engine in the process that calls it; picklable, so that a spawned child can."""
