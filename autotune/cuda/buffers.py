"""The memory of an engine: a host slab and a device slab per direction, and a mirror to compare with.

It is allocated on first need and kept; it grows when a block needs more, never beyond the limits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.cuda.layout import Layout
from pega_tune.autotune.cuda.limits import MemoryLimits
from pega_tune.autotune.engine import MemoryLimitError
from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES, MIN_TILE_BYTES, DescriptorSpace, descriptor_bound
from pega_tune.kernels.memory import DeviceMemory, OutOfDeviceMemoryError, OutOfPinnedMemoryError, PinnedMemory
from pega_tune.kernels.ranges import DeviceRegion, HostRegion, RangeBatch
from pega_tune.kernels.shape import Direction

_GRAIN_BYTES: Final = 2 << 20  # one large page
_ALLOCATION: Final = 0  # all ranges of a direction lie in one allocation on each side


class Memory(Protocol):
    """Device memory."""

    @property
    def address(self) -> int:
        """Where it begins."""

    def close(self) -> None:
        """Frees it."""


class HostMemory(Memory, Protocol):
    """Pinned, mapped host memory."""

    @property
    def alias(self) -> int:
        """Where it begins for kernels."""

    def view(self) -> NDArray[np.uint8]:
        """Its bytes."""


@dataclass(frozen=True, slots=True)
class Allocators:
    """Where memory comes from, by size in bytes."""

    device: Callable[[int], Memory] = DeviceMemory
    pinned: Callable[[int], HostMemory] = PinnedMemory


@dataclass(frozen=True, slots=True)
class Need:
    """What a direction needs.

    Attributes:
        extent_bytes: of either slab.
        descriptors: most descriptors of one transfer.
    """

    extent_bytes: int
    descriptors: int

    @classmethod
    def of(cls, ranges: int, extent_bytes: int) -> "Need":
        """Enough for so many ranges in so many bytes, cut into the finest tiles."""
        return cls(extent_bytes, descriptor_bound(ranges, extent_bytes, MIN_TILE_BYTES))

    def covers(self, other: "Need") -> bool:
        """Whether what satisfies this need satisfies the other one."""
        return self.extent_bytes >= other.extent_bytes and self.descriptors >= other.descriptors

    def union(self, other: "Need | None") -> "Need":
        """What satisfies both."""
        if other is None:
            return self
        return Need(max(self.extent_bytes, other.extent_bytes), max(self.descriptors, other.descriptors))

    @property
    def slab_bytes(self) -> int:
        """Size of either slab."""
        return -(-self.extent_bytes // _GRAIN_BYTES) * _GRAIN_BYTES

    @property
    def total_bytes(self) -> int:
        """What is allocated on either side, descriptors included."""
        return self.slab_bytes + self.descriptors * DESCRIPTOR_BYTES


class Slabs:
    """The slabs and the descriptor space of one direction.

    Attributes:
        need: what they satisfy.
        descriptors: through which descriptors reach the device.
    """

    def __init__(self, need: Need, allocators: Allocators) -> None:
        """Allocates.

        Raises:
            OutOfDeviceMemoryError, OutOfPinnedMemoryError: there is not so much; nothing stays allocated.
        """
        self.need: Final = need
        self._open: list[Memory] = []
        try:
            self._host, self._device = self._allocate(need.slab_bytes, allocators)
            table, remote = self._allocate(need.descriptors * DESCRIPTOR_BYTES, allocators)
        except BaseException:
            self.close()
            raise
        rows = table.view().view(np.uint64).reshape(need.descriptors, 3)
        self.descriptors = DescriptorSpace(rows, table.address, remote.address, need.descriptors)

    def close(self) -> None:
        """Frees everything."""
        while self._open:
            self._open.pop().close()

    @property
    def device_address(self) -> int:
        """Where the device slab begins."""
        return self._device.address

    @property
    def host_address(self) -> int:
        """Where the host slab begins."""
        return self._host.address

    @property
    def host(self) -> NDArray[np.uint8]:
        """The bytes of the host slab."""
        return self._host.view()

    def batch(self, layout: Layout) -> RangeBatch:
        """The ranges of a layout in these slabs."""
        size = self.need.slab_bytes
        return RangeBatch.within(
            DeviceRegion(self._device.address, size, _ALLOCATION),
            HostRegion(self._host.address, self._host.alias, size, _ALLOCATION),
            layout.device_offsets,
            layout.host_offsets,
            layout.nbytes,
        )

    def _allocate(self, nbytes: int, allocators: Allocators) -> tuple[HostMemory, Memory]:
        host = allocators.pinned(nbytes)
        self._open.append(host)
        device = allocators.device(nbytes)
        self._open.append(device)
        return host, device


class Buffers:
    """All memory of an engine, within its limits."""

    def __init__(self, limits: MemoryLimits, allocators: Allocators | None = None) -> None:
        self._limits = limits
        self._allocators = allocators or Allocators()
        self._slabs: dict[Direction, Slabs] = {}
        self._mirror: HostMemory | None = None
        self._mirror_bytes = 0

    def __enter__(self) -> "Buffers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getitem__(self, direction: Direction) -> Slabs:
        """The slabs of a direction that has been reserved."""
        return self._slabs[direction]

    @property
    def mirror(self) -> NDArray[np.uint8]:
        """Pinned bytes, as many as the largest slab has."""
        if self._mirror is None:
            raise ValueError("nothing has been reserved")
        return self._mirror.view()

    def reserve(self, needs: Mapping[Direction, Need]) -> None:
        """Makes sure of slabs for the directions of `needs`; what other directions hold may be given up for them.

        Raises:
            MemoryLimitError: it does not fit the limits, or the driver has not so much; nothing is reserved then.
        """
        held = {direction: slabs.need for direction, slabs in self._slabs.items()}
        if all(direction in held and held[direction].covers(need) for direction, need in needs.items()):
            return
        wanted = held | {direction: need.union(held.get(direction)) for direction, need in needs.items()}
        if _lack(wanted, self._limits):
            self.close()
            wanted = dict(needs)
            if lack := _lack(wanted, self._limits):
                raise MemoryLimitError(f"too little memory: {lack}", "allow more, or measure smaller shapes")
        try:
            self._grow(wanted)
        except (OutOfDeviceMemoryError, OutOfPinnedMemoryError) as error:
            self.close()
            raise MemoryLimitError(error.message, error.hint) from error

    def close(self) -> None:
        """Frees everything; it can be reserved again."""
        for slabs in self._slabs.values():
            slabs.close()
        self._slabs.clear()
        if self._mirror is not None:
            self._mirror.close()
        self._mirror, self._mirror_bytes = None, 0

    def _grow(self, wanted: Mapping[Direction, Need]) -> None:
        mirror_bytes = max(need.slab_bytes for need in wanted.values())
        if mirror_bytes > self._mirror_bytes:
            if self._mirror is not None:
                self._mirror.close()
            self._mirror, self._mirror_bytes = None, 0
            self._mirror = self._allocators.pinned(mirror_bytes)
            self._mirror_bytes = mirror_bytes
        for direction, need in wanted.items():
            old = self._slabs.get(direction)
            if old is not None and old.need.covers(need):
                continue
            if old is not None:
                del self._slabs[direction]
                old.close()  # first, so that never two generations are held at once
            self._slabs[direction] = Slabs(need, self._allocators)


def _lack(wanted: Mapping[Direction, Need], limits: MemoryLimits) -> str:
    """Which limit the needs exceed, with the numbers; empty if none."""
    device = sum(need.total_bytes for need in wanted.values())
    host = device + max(need.slab_bytes for need in wanted.values())
    if device > limits.device_bytes:
        return f"{device} bytes of device memory are needed and {limits.device_bytes} may be used"
    if host > limits.host_bytes:
        return f"{host} bytes of pinned host memory are needed and {limits.host_bytes} may be used"
    return ""
