"""Parts of what a device, its driver and this process can do (see `engine.Capabilities`); plain data."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


@dataclass(frozen=True, slots=True)
class BatchCopies:
    """Whether `cuMemcpyBatchAsync` works.

    Attributes:
        signature: `v1` of CUDA 12.8 or `v2` of CUDA 13.0; None if it does not work.
        reason: why it does not, one line; empty if it does.
    """

    signature: str | None
    reason: str = ""


BATCH_UNTRIED: Final = BatchCopies(None, "it has not been tried")


class MappedMemory(StrEnum):
    """At which address kernels see pinned host memory."""

    SAME_ADDRESS = "same-address"
    OTHER_ADDRESS = "other-address"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class HostLimits:
    """Where a process runs, and what of the host's memory it may hold.

    Attributes:
        locked_bytes: soft limit on locked memory (`ulimit -l`); None if there is none. Few drivers heed it.
        cgroup_bytes: tightest memory limit of its control groups; None if there is none.
        device_node: NUMA node of the device; None if unknown.
        process_nodes: NUMA nodes of the CPUs that it may run on, ascending; empty if unknown.
    """

    locked_bytes: int | None = None
    cgroup_bytes: int | None = None
    device_node: int | None = None
    process_nodes: tuple[int, ...] = ()

    @property
    def remote(self) -> bool:
        """Whether every transfer of the process crosses from one NUMA node to another."""
        return self.device_node is not None and bool(self.process_nodes) and self.device_node not in self.process_nodes
