"""Batches of ranges: what one transfer has to copy."""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import UsageError
from pega_tune.kernels.shape import MAX_BYTES, Direction, TransferShape

Addresses: TypeAlias = NDArray[np.uint64]
Ids: TypeAlias = NDArray[np.int64]

_WIDEST_ACCESS_BYTES = 16
_LAST_ADDRESS = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class DeviceRegion:
    """One allocation of device memory.

    Attributes:
        address: where it begins.
        nbytes: its size in bytes.
        allocation: id that no other device allocation of the batch has.
    """

    address: int
    nbytes: int
    allocation: int


@dataclass(frozen=True, slots=True)
class HostRegion:
    """One allocation of pinned, mapped host memory.

    Attributes:
        address: where it begins, for the host and for DMA commands.
        alias: where it begins, for kernels.
        nbytes: its size in bytes.
        allocation: id that no other host allocation of the batch has.
    """

    address: int
    alias: int
    nbytes: int
    allocation: int


@dataclass(frozen=True, slots=True, eq=False)
class RangeBatch:
    """The ranges of one transfer in one direction, in the order in which the caller has them.

    A transfer may run its ranges in any order and several at once, so their destinations must not overlap. There may
    be none: moving them takes no command.

    Attributes:
        device: (n,) device addresses.
        host: (n,) host addresses.
        host_alias: (n,) device aliases of the host addresses.
        nbytes: (n,) sizes in bytes, at least 1.
        device_allocation: (n,) ids of the device allocations; ranges are never joined across two.
        host_allocation: (n,) ids of the host allocations; ranges are never joined across two.
        total_bytes: sum of `nbytes`.
    """

    device: Addresses
    host: Addresses
    host_alias: Addresses
    nbytes: Addresses
    device_allocation: Ids
    host_allocation: Ids
    total_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        addresses = (self.device, self.host, self.host_alias)
        for column in (*addresses, self.nbytes):
            _check_column(column, np.dtype(np.uint64), len(self.device))
        for ids in (self.device_allocation, self.host_allocation):
            _check_column(ids, np.dtype(np.int64), len(self.device))
        if not self.nbytes.all():
            raise UsageError("a range has at least 1 byte")
        if any((column > _LAST_ADDRESS - self.nbytes).any() for column in addresses):
            raise UsageError("a range runs past the end of the address space")
        object.__setattr__(self, "total_bytes", _total(self.nbytes))

    def __len__(self) -> int:
        return len(self.nbytes)

    @classmethod
    def within(
        cls,
        device: DeviceRegion,
        host: HostRegion,
        device_offsets: Addresses,
        host_offsets: Addresses,
        nbytes: Addresses,
    ) -> "RangeBatch":
        """Ranges between one device allocation and one host allocation.

        Args:
            device: the device side.
            host: the host side.
            device_offsets: (n,) offsets in bytes into the device allocation.
            host_offsets: (n,) offsets in bytes into the host allocation.
            nbytes: (n,) sizes in bytes.

        Raises:
            UsageError: the arrays are not valid columns, or a range does not lie inside its allocations.
        """
        for column in (device_offsets, host_offsets, nbytes):
            _check_column(column, np.dtype(np.uint64), len(nbytes))
        for offsets, size, side in ((device_offsets, device.nbytes, "device"), (host_offsets, host.nbytes, "host")):
            if (nbytes > size).any() or (offsets > np.uint64(size) - nbytes).any():
                raise UsageError(f"a range does not lie inside its {side} allocation of {size} bytes")
        return cls(
            device=np.uint64(device.address) + device_offsets,
            host=np.uint64(host.address) + host_offsets,
            host_alias=np.uint64(host.alias) + host_offsets,
            nbytes=nbytes,
            device_allocation=np.full(len(nbytes), device.allocation, np.int64),
            host_allocation=np.full(len(nbytes), host.allocation, np.int64),
        )

    def shape(self, direction: Direction) -> TransferShape:
        """The shape of the transfer, its pitch unknown; for `Direction.BOTH` the batch stands for each of the two.

        Raises:
            UsageError: there are no ranges, hence no shape.
        """
        if not len(self):
            raise UsageError("a batch without ranges has no shape", "there is nothing to choose a plan for")
        order = np.argsort(self.host, kind="stable")
        touching = _touching(self.host, self.nbytes, order) & _same(self.host_allocation, order)
        merging = touching & _same(self.device_allocation, order)
        for column in (self.device, self.host_alias):
            merging &= _touching(column, self.nbytes, order)
        return TransferShape(
            merged_ranges=len(self) - int(merging.sum()),
            total_bytes=self.total_bytes,
            direction=direction,
            host_runs=len(self) - int(touching.sum()),
            alignment=self._alignment(),
        )

    def _alignment(self) -> int:
        bits = _WIDEST_ACCESS_BYTES
        for column in (self.device, self.host, self.host_alias, self.nbytes):
            bits |= int(np.bitwise_or.reduce(column))
        return bits & -bits


def _check_column(column: NDArray[Any], dtype: np.dtype[Any], length: int) -> None:
    if column.dtype != dtype:
        raise UsageError(f"a column of a batch holds {dtype}, not {column.dtype}")
    if column.shape != (length,) or not column.flags.c_contiguous:
        raise UsageError(f"a column of a batch is contiguous and has shape ({length},), not {column.shape}")


def _total(nbytes: Addresses) -> int:
    """The exact sum, which may pass 64 bits."""
    if not len(nbytes) or int(nbytes.max()) <= MAX_BYTES // len(nbytes):
        return int(nbytes.sum())
    total: int = sum(nbytes.tolist())
    if total > MAX_BYTES:
        raise UsageError(f"a transfer has between 1 and 2^62 bytes, not {total}")
    return total


def _touching(column: Addresses, nbytes: Addresses, order: Ids) -> NDArray[np.bool_]:
    """(n - 1,) whether each range, taken in `order`, ends where the next one begins."""
    result: NDArray[np.bool_] = (column + nbytes)[order[:-1]] == column[order[1:]]
    return result


def _same(ids: Ids, order: Ids) -> NDArray[np.bool_]:
    """(n - 1,) whether each range, taken in `order`, lies in the allocation of the next one."""
    result: NDArray[np.bool_] = ids[order[:-1]] == ids[order[1:]]
    return result
