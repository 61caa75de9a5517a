"""Copy plans: how to run a transfer. Plain data, shared by engines, profiles and serving processes."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from pega_tune.errors import UsageError

MAX_GRID_BLOCKS = 65_535
MAX_THREADS = 1024
MAX_THREADS_PER_SM = 2048
"""Most resident threads of an SM on any device (CUDA C++ Programming Guide, technical specifications per compute
capability; some devices hold 1024 or 1536)."""
WARP_THREADS = 32


class Backend(StrEnum):
    """The ways to move a batch of ranges (each one is described where it is implemented)."""

    DIRECT = "direct"
    BATCH = "batch"
    PITCHED = "pitched"
    KERNEL = "kernel"
    STAGED = "staged"


class Variant(StrEnum):
    """Which copy kernel: one CTA per raw range, or one warp per range or tile."""

    BLOCK = "block"
    WARP = "warp"


class Completion(StrEnum):
    """How the host waits for a transfer to end."""

    POLL = "poll"
    YIELD = "yield"
    BLOCKING_EVENT = "blocking-event"


@dataclass(frozen=True, slots=True, order=True)
class KernelOptions:
    """Bounds on the copy kernel.

    Attributes:
        max_grid_blocks: most CTAs of one launch, 1 to 65,535. The launch takes fewer if there is less work.
        chunk_descriptors: descriptors per launch; None puts the whole transfer into one launch.
    """

    max_grid_blocks: int = MAX_GRID_BLOCKS
    chunk_descriptors: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.max_grid_blocks <= MAX_GRID_BLOCKS:
            raise UsageError(f"max_grid_blocks is 1 to {MAX_GRID_BLOCKS}, not {self.max_grid_blocks}")
        if self.chunk_descriptors is not None and self.chunk_descriptors < 1:
            raise UsageError(f"chunk_descriptors is at least 1, not {self.chunk_descriptors}")


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """How to run one direction of a transfer.

    Attributes:
        backend: the way of moving it.
        variant: which copy kernel; None for backends without one.
        threads: threads per CTA, a multiple of 32 up to 1024; None for backends without a kernel.
        options: bounds on the kernel; None for backends without one.
        chunk_bytes: most bytes of a chunk of DMA commands; None does not cut.
        stream_priority: as in `cuStreamCreateWithPriority`, lower is stronger. Orders kernels only.
        completion: how the host waits.
        backpressure: whether a chunk is submitted only when the one before has completed; otherwise all are enqueued
            at once. Plans without chunks have it, which changes nothing.
        sm_partition: SMs of the Green Context in whose streams the kernels run; None leaves them all SMs. The SMs are
            not withheld from others, and transfers that ask for as many of them share them.
        prefer_overlap: asks the driver to keep SMs out of a batched copy, as
            `CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE` (a hint).
    """

    backend: Backend
    variant: Variant | None = None
    threads: int | None = None
    options: KernelOptions | None = None
    chunk_bytes: int | None = None
    stream_priority: int = 0
    completion: Completion = Completion.POLL
    backpressure: bool = True
    sm_partition: int | None = None
    prefer_overlap: bool = False

    def __post_init__(self) -> None:
        runs_kernel = self.backend in (Backend.KERNEL, Backend.STAGED)
        if runs_kernel != (self.variant is not None and self.threads is not None and self.options is not None):
            raise UsageError(f"variant, threads and options belong to kernel plans, and to all of them: {self.backend}")
        if self.threads is not None and (
            self.threads % WARP_THREADS or not WARP_THREADS <= self.threads <= MAX_THREADS
        ):
            raise UsageError(f"threads is a multiple of {WARP_THREADS} up to {MAX_THREADS}, not {self.threads}")
        if self.chunk_bytes is not None and self.chunk_bytes < 1:
            raise UsageError(f"chunk_bytes is at least 1, not {self.chunk_bytes}")
        if not self.backpressure and not self.is_chunked:
            raise UsageError("a plan without chunks has nothing to hold back; leave backpressure on")
        self._check_sms(runs_kernel)

    def _check_sms(self, runs_kernel: bool) -> None:
        if self.sm_partition is not None and not runs_kernel:
            raise UsageError(f"sm_partition is for plans with a kernel, not for {self.backend}", "leave it out")
        if self.sm_partition is not None and self.sm_partition < 1:
            raise UsageError(f"sm_partition is at least 1, not {self.sm_partition}")
        if self.prefer_overlap and self.backend is not Backend.BATCH:
            raise UsageError(f"prefer_overlap is for {Backend.BATCH} plans, not for {self.backend}", "leave it out")

    @property
    def is_chunked(self) -> bool:
        """Whether the transfer is cut into chunks."""
        return bool(self.chunk_bytes or (self.options and self.options.chunk_descriptors))

    @property
    def resident_threads(self) -> int:
        """Upper bound on the threads that the plan keeps on the SMs; 0 for plans that use copy engines alone."""
        return self.resident_threads_of(self.options.max_grid_blocks) if self.options else 0

    def resident_threads_of(self, ctas: int) -> int:
        """Upper bound on the threads that a launch of so many CTAs keeps on the SMs."""
        threads = ctas * (self.threads or 0)
        return threads if self.sm_partition is None else min(threads, self.sm_partition * MAX_THREADS_PER_SM)

    @property
    def key(self) -> str:
        """Canonical one-line name, equal for equal plans: `kernel/warp grid=2 threads=1024 prio=-5`."""
        words = [f"{self.backend}/{self.variant}" if self.variant else str(self.backend)]
        if self.options:
            words += [f"grid={self.options.max_grid_blocks}", f"threads={self.threads}"]
            if self.options.chunk_descriptors:
                words.append(f"chunk={self.options.chunk_descriptors}")
        if self.chunk_bytes:
            words.append(f"chunk_bytes={self.chunk_bytes}")
        if not self.backpressure:
            words.append("enqueue-only")
        if self.stream_priority:
            words.append(f"prio={self.stream_priority}")
        if self.sm_partition is not None:
            words.append(f"sms={self.sm_partition}")
        if self.prefer_overlap:
            words.append("prefer-overlap")
        if self.completion is not Completion.POLL:
            words.append(f"wait={self.completion}")
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON object; kernel bounds are flat, absent values are null.

        `sm_partition` and `prefer_overlap` are there only if they are asked for: plans without them look as they did
        before there were these options, to readers of either age.
        """
        newer: dict[str, Any] = {"sm_partition": self.sm_partition} if self.sm_partition is not None else {}
        if self.prefer_overlap:
            newer["prefer_overlap"] = True
        return {
            "backend": str(self.backend),
            "variant": str(self.variant) if self.variant else None,
            "threads": self.threads,
            "max_grid_blocks": self.options.max_grid_blocks if self.options else None,
            "chunk_descriptors": self.options.chunk_descriptors if self.options else None,
            "chunk_bytes": self.chunk_bytes,
            "stream_priority": self.stream_priority,
            "completion": str(self.completion),
            "backpressure": self.backpressure,
            **newer,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "CopyPlan":
        """Inverse of `to_json`.

        Raises:
            UsageError: a value is out of its range.
            KeyError, ValueError, TypeError: the object is not a plan.
        """
        grid, sms = data["max_grid_blocks"], data.get("sm_partition")
        if sms is not None and type(sms) is not int:  # neither True nor 16.0
            raise TypeError(f"sm_partition is a whole number, not {sms!r}")
        return cls(
            backend=Backend(data["backend"]),
            variant=Variant(data["variant"]) if data["variant"] else None,
            threads=data["threads"],
            options=None if grid is None else KernelOptions(grid, data["chunk_descriptors"]),
            chunk_bytes=data["chunk_bytes"],
            stream_priority=data["stream_priority"],
            completion=Completion(data["completion"]),
            backpressure=bool(data.get("backpressure", True)),  # absent from plans stored before it was an option
            sm_partition=sms,
            prefer_overlap=bool(data.get("prefer_overlap", False)),
        )


@dataclass(frozen=True, slots=True)
class PlanPair:
    """How to run a load and a save at once.

    Unless they are fused, neither waits for the other: an engine with many copies to ask for submits them from two
    threads.

    Attributes:
        load: plan of the host-to-device direction.
        save: plan of the device-to-host direction.
        fused: both directions share one kernel launch (staged plans only).
    """

    load: CopyPlan
    save: CopyPlan
    fused: bool = False

    @property
    def resident_threads(self) -> int:
        """As `CopyPlan.resident_threads`, both directions together."""
        return self.load.resident_threads + self.save.resident_threads

    @property
    def key(self) -> str:
        """Canonical one-line name."""
        if self.load == self.save:
            return f"2 x {self.load.key}" + (" fused" if self.fused else "")
        return f"load {self.load.key} | save {self.save.key}" + (" fused" if self.fused else "")

    def to_json(self) -> dict[str, Any]:
        """The pair as a JSON object with the keys `load`, `save` and `fused`."""
        return {"load": self.load.to_json(), "save": self.save.to_json(), "fused": self.fused}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "PlanPair":
        """Inverse of `to_json`; raises as `CopyPlan.from_json`."""
        return cls(CopyPlan.from_json(data["load"]), CopyPlan.from_json(data["save"]), bool(data["fused"]))


AnyPlan: TypeAlias = CopyPlan | PlanPair


def plan_from_json(data: Mapping[str, Any]) -> AnyPlan:
    """A plan or a pair, whichever the object is; raises as `CopyPlan.from_json`."""
    return PlanPair.from_json(data) if "load" in data else CopyPlan.from_json(data)


def direct() -> CopyPlan:
    """One DMA memcpy per merged range."""
    return CopyPlan(Backend.DIRECT)


def kernel(variant: Variant, grid: int, threads: int, priority: int = 0) -> CopyPlan:
    """A copy-kernel plan with at most `grid` CTAs of `threads` threads, on a stream of `priority`."""
    return CopyPlan(Backend.KERNEL, variant, threads, KernelOptions(grid), stream_priority=priority)
