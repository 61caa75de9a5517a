"""Preparing a batch for submission: order by host address, and join ranges adjacent on both sides."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import UsageError
from pega_tune.kernels.native import native
from pega_tune.kernels.ordering import Indices, Sorter
from pega_tune.kernels.ranges import Addresses, Ids, RangeBatch

MAX_RANGES = 2**31 - 1  # indices have 32 bits

_Columns: TypeAlias = tuple[Addresses, Addresses, Addresses, Addresses]  # host, device, host_alias, nbytes
_Allocations: TypeAlias = tuple[Ids, Ids]  # host, device

_UNORDERED = -1
_BLOCK = 1024  # ranges that are looked at before it matters whether any is out of order
_IN_PLACE = np.empty(0, np.int32)  # stands for the order 0, 1, 2, ...


class CapacityError(UsageError):
    """A transfer is larger than the buffers made for it."""

    code = "capacity"


@dataclass(frozen=True, slots=True, eq=False)
class MergedRanges:
    """Merged ranges, ascending by host address; as in `RangeBatch`, without the allocations.

    Attributes:
        device: (m,) device addresses.
        host: (m,) host addresses.
        host_alias: (m,) device aliases of the host addresses.
        nbytes: (m,) sizes in bytes.
    """

    device: Addresses
    host: Addresses
    host_alias: Addresses
    nbytes: Addresses

    def __len__(self) -> int:
        return len(self.nbytes)


class Workspace:
    """Buffers in which transfers of up to `capacity` ranges are prepared one after another, without allocating.

    It is not thread-safe.
    """

    def __init__(self, capacity: int) -> None:
        """Allocates the buffers.

        Raises:
            UsageError: the capacity is not 1 to 2^31 - 1.
        """
        if not 1 <= capacity <= MAX_RANGES:
            raise UsageError(f"a workspace has room for 1 to {MAX_RANGES} ranges, not {capacity}")
        self.capacity = capacity
        self._sorter = Sorter(capacity)
        self._joined = np.empty(capacity, np.bool_)
        self._merged = np.empty((4, capacity), np.uint64)

    def merge(self, batch: RangeBatch) -> MergedRanges:
        """The merged ranges of a batch, ascending by host address.

        A batch that is in order and has nothing to merge is found so in one pass, and its own arrays are the result.

        Returns:
            Views of the batch or of this workspace, valid until its next use.

        Raises:
            CapacityError: the batch has more ranges than this workspace.
        """
        if len(batch) > self.capacity:
            raise CapacityError(f"{len(batch)} ranges do not fit a workspace for {self.capacity}")
        columns = (batch.host, batch.device, batch.host_alias, batch.nbytes)
        allocations = (batch.host_allocation, batch.device_allocation)
        order = _IN_PLACE
        joins = _find_joins_in_place(columns, allocations, self._joined)
        if joins == 0:
            return MergedRanges(batch.device, batch.host, batch.host_alias, batch.nbytes)
        if joins == _UNORDERED:
            order = self._sorter.order(batch.host)
            joins = _find_joins(columns, allocations, order, self._joined)
        _join(columns, order, self._joined, self._merged)
        host, device, host_alias, nbytes = self._merged[:, : len(batch) - joins]
        return MergedRanges(device, host, host_alias, nbytes)


@native
def _find_joins_in_place(columns: _Columns, allocations: _Allocations, joined: NDArray[np.bool_]) -> int:
    """As `_find_joins` for ranges in the order given; `_UNORDERED` if they do not ascend by host address.

    The slices tell the compiler that no index is negative, and a block has no branches; so it vectorises.
    """
    host, device, host_alias, nbytes = columns
    host_allocation, device_allocation = allocations
    joined[:1] = False
    joins, first = 0, 1
    while first < host.shape[0]:
        end = min(first + _BLOCK, host.shape[0])
        host0, host1 = host[first - 1 : end - 1], host[first:end]
        device0, device1 = device[first - 1 : end - 1], device[first:end]
        alias0, alias1 = host_alias[first - 1 : end - 1], host_alias[first:end]
        host_id0, host_id1 = host_allocation[first - 1 : end - 1], host_allocation[first:end]
        device_id0, device_id1 = device_allocation[first - 1 : end - 1], device_allocation[first:end]
        sizes, marks = nbytes[first - 1 : end - 1], joined[first:end]
        descends = False
        for k in range(sizes.shape[0]):
            size = sizes[k]
            apart = ((host0[k] + size) ^ host1[k]) | ((device0[k] + size) ^ device1[k])
            apart |= (alias0[k] + size) ^ alias1[k]
            apart |= np.uint64((host_id0[k] ^ host_id1[k]) | (device_id0[k] ^ device_id1[k]))
            marks[k] = apart == np.uint64(0)
            joins += apart == np.uint64(0)
            descends |= host1[k] < host0[k]
        if descends:
            return _UNORDERED
        first = end
    return joins


@native
def _find_joins(columns: _Columns, allocations: _Allocations, order: Indices, joined: NDArray[np.bool_]) -> int:
    """Marks the ranges that begin where their predecessor ends, on both sides and in the same allocations.

    The comparison stands here, not in a function of its own: handing on the arrays would count references to them,
    which costs far more than comparing.

    Args:
        columns: four arrays (n,).
        allocations: two arrays (n,).
        order: (n,) indices ascending by host address.
        joined: at least (n,), receives the marks, in the order.

    Returns:
        How many are marked.
    """
    host, device, host_alias, nbytes = columns
    host_allocation, device_allocation = allocations
    joins = 0
    joined[0] = False
    for k in range(1, host.shape[0]):
        i, j = np.int64(order[k - 1]), np.int64(order[k])
        size = nbytes[i]
        joined[k] = (
            host[i] + size == host[j]  # first: it fails in most batches, and the other columns need not be read
            and device[i] + size == device[j]
            and host_alias[i] + size == host_alias[j]
            and host_allocation[i] == host_allocation[j]
            and device_allocation[i] == device_allocation[j]
        )
        joins += joined[k]
    return joins


@native
def _join(columns: _Columns, order: Indices, joined: NDArray[np.bool_], merged: Addresses) -> None:
    """Joins the marked ranges to their predecessors.

    Args:
        columns: four arrays (n,).
        order: (n,) indices ascending by host address, or `_IN_PLACE`.
        joined: at least (n,) marks, in the order.
        merged: (4, at least n), receives the merged columns.
    """
    host, device, host_alias, nbytes = columns
    in_place = order.shape[0] == 0
    last = -1
    size = np.uint64(0)
    for k in range(host.shape[0]):
        i = k if in_place else np.int64(order[k])
        if not joined[k]:
            last += 1
            merged[0, last] = host[i]
            merged[1, last] = device[i]
            merged[2, last] = host_alias[i]
            size = np.uint64(0)
        size += nbytes[i]
        merged[3, last] = size
