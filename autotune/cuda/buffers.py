"""The memory of an engine: a host slab and a device slab per direction, and a mirror to compare with.

It is allocated on first need and kept; it grows when a block needs more, never beyond the limits. Staging buffers are
there from the first block on that needs them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pega_tune.autotune.cuda.layout import Layout
from pega_tune.autotune.cuda.limits import MemoryLimits
from pega_tune.autotune.cuda.need import GRAIN_BYTES, LEAST_STAGING_BYTES, Need
from pega_tune.autotune.engine import MemoryLimitError
from pega_tune.kernels.closing import Closing
from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES, DescriptorSpace
from pega_tune.kernels.memory import DeviceMemory, OutOfDeviceMemoryError, OutOfPinnedMemoryError, PinnedMemory
from pega_tune.kernels.ranges import DeviceRegion, HostRegion, RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staging import StagingBuffer

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


class Slabs:
    """The slabs, the descriptor space and the staging buffer of one direction.

    Attributes:
        need: what they satisfy.
        descriptors: through which descriptors reach the device.
        staging: through which staged transfers pass; None for none.
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
            self.staging = self._allocate_staging(need.staging_bytes, allocators)
        except BaseException:
            self.close()
            raise
        rows = table.view().view(np.uint64).reshape(need.descriptors, 3)
        self.descriptors = DescriptorSpace(rows, table.address, remote.address, need.descriptors, table.alias)

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

    def _allocate_staging(self, nbytes: int, allocators: Allocators) -> StagingBuffer | None:
        if not nbytes:
            return None
        memory = allocators.device(nbytes)
        self._open.append(memory)
        return StagingBuffer(memory.address, nbytes)


class Buffers(Closing):
    """All memory of an engine, within its limits."""

    def __init__(self, limits: MemoryLimits, allocators: Allocators | None = None) -> None:
        self._limits = limits
        self._allocators = allocators or Allocators()
        self._slabs: dict[Direction, Slabs] = {}
        self._mirror: HostMemory | None = None
        self._mirror_bytes = 0

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

        Staging buffers are as large as the limits allow beside everything else, and there are none if that is too
        little to be worth it.

        Raises:
            MemoryLimitError: it does not fit the limits, or the driver has not so much; nothing is reserved then.
        """
        needs = _within(needs, self._limits)
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


def _within(needs: Mapping[Direction, Need], limits: MemoryLimits) -> dict[Direction, Need]:
    """The needs with no larger staging buffers than there is room for."""
    sharing = sum(need.staging_bytes > 0 for need in needs.values())
    if not sharing:
        return dict(needs)
    room = limits.device_bytes - sum(need.device_bytes - need.staging_bytes for need in needs.values())
    share = max(0, room // sharing // GRAIN_BYTES * GRAIN_BYTES)
    most = share if share >= LEAST_STAGING_BYTES else 0
    return {way: replace(need, staging_bytes=min(need.staging_bytes, most)) for way, need in needs.items()}


def _lack(wanted: Mapping[Direction, Need], limits: MemoryLimits) -> str:
    """Which limit the needs exceed, with the numbers; empty if none."""
    device = sum(need.device_bytes for need in wanted.values())
    host = sum(need.host_bytes for need in wanted.values()) + max(need.slab_bytes for need in wanted.values())
    if device > limits.device_bytes:
        return f"{device} bytes of device memory are needed and {limits.device_bytes} may be used"
    if host > limits.host_bytes:
        return f"{host} bytes of pinned host memory are needed and {limits.host_bytes} may be used"
    return ""
