"""How much device and pinned host memory an engine may take, and leave the rest of the machine alive."""

import resource
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pega_tune.kernels.host import Host

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30

# Pinned memory cannot be swapped: a quarter of what is free, and at least 256 MiB, stays with everybody else.
_HOST_MARGIN: Final = 4
_HOST_LEAST_MARGIN_BYTES: Final = 256 * _MIB
# The driver itself allocates while kernels are loaded and launched.
_DEVICE_MARGIN: Final = 10
_DEVICE_LEAST_MARGIN_BYTES: Final = 512 * _MIB
# Taken if the host does not tell how much memory is free.
_UNKNOWN_HOST_BYTES: Final = _GIB
# Most drivers pin on behalf of the process without charging RLIMIT_MEMLOCK. Whether this one does is found out by
# pinning a little more than a small limit; a large limit is simply respected.
_PROBED_LOCK_BYTES: Final = _GIB
_LOCK_PROBE_BYTES: Final = 16 * _MIB


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What an engine may hold at once.

    Attributes:
        device_bytes: of device memory.
        host_bytes: of pinned host memory.
    """

    device_bytes: int
    host_bytes: int

    def capped(self, device_bytes: int | None, host_bytes: int | None) -> "MemoryLimits":
        """No more than what the user allows; None allows all."""
        return MemoryLimits(
            self.device_bytes if device_bytes is None else min(self.device_bytes, device_bytes),
            self.host_bytes if host_bytes is None else min(self.host_bytes, host_bytes),
        )


def device_limit(free_bytes: int) -> int:
    """What may be taken of the free device memory, in bytes."""
    return max(0, free_bytes - max(free_bytes // _DEVICE_MARGIN, _DEVICE_LEAST_MARGIN_BYTES))


def host_limit(host: Host, locked_bytes: int | None, can_pin: Callable[[int], bool]) -> int:
    """How much may be pinned, in bytes.

    Args:
        host: tells what is available and what our control groups leave.
        locked_bytes: limit on locked memory; None if there is none.
        can_pin: whether so many bytes can be pinned right now; tried only if the limit on locked memory is small.
    """
    known = [n for n in (host.available_bytes(), host.cgroup_headroom_bytes()) if n is not None]
    free_bytes = min(known, default=_UNKNOWN_HOST_BYTES)
    limit = max(0, free_bytes - max(free_bytes // _HOST_MARGIN, _HOST_LEAST_MARGIN_BYTES))
    if locked_bytes is None or locked_bytes >= limit:
        return limit
    if locked_bytes < _PROBED_LOCK_BYTES and can_pin(min(limit, locked_bytes + _LOCK_PROBE_BYTES)):
        return limit
    return locked_bytes


def locked_memory_limit() -> int | None:
    """The soft limit on locked memory of this process in bytes (`ulimit -l`); None if there is none."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft
