"""What the engine of a GPU says of its device beside what it has tried: of memory, and of where the process runs."""

from collections.abc import Callable

from pega_tune.autotune.capabilities import BatchCopies, HostLimits, MappedMemory
from pega_tune.autotune.cuda.limits import locked_memory_limit
from pega_tune.kernels.batch_probe import BatchSupport
from pega_tune.kernels.driver import DriverCallError
from pega_tune.kernels.host import Host
from pega_tune.kernels.memory import OutOfPinnedMemoryError, PinnedMemory

_TRIAL_BYTES = 4096


def batch_copies(support: BatchSupport) -> BatchCopies:
    """What a probe has found, as plain data."""
    return BatchCopies(None if support.signature is None else str(support.signature), support.reason)


def mapped_memory(pin: Callable[[int], PinnedMemory] = PinnedMemory) -> MappedMemory | None:
    """At which address kernels see memory that is pinned now; None if none can be pinned.

    Args:
        pin: allocates so many bytes.
    """
    try:
        with pin(_TRIAL_BYTES) as memory:
            same = memory.alias == memory.address
    except OutOfPinnedMemoryError:
        return None
    except DriverCallError as error:
        if error.is_sticky:
            raise
        return MappedMemory.NONE
    return MappedMemory.SAME_ADDRESS if same else MappedMemory.OTHER_ADDRESS


def host_limits(host: Host, bus_id: str) -> HostLimits:
    """Where this process runs, beside the device of a PCI bus id, and what it may hold."""
    return HostLimits(
        locked_bytes=locked_memory_limit(),
        cgroup_bytes=host.cgroup_limit_bytes(),
        device_node=host.numa_node(bus_id),
        process_nodes=host.process_nodes(),
    )
