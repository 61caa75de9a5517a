"""Host runs: what one DMA command can move when only the host side of the ranges is contiguous."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pega_tune.errors import UsageError
from pega_tune.kernels.native import native
from pega_tune.kernels.ordering import Indices, Sorter
from pega_tune.kernels.prepare import MAX_RANGES, CapacityError
from pega_tune.kernels.ranges import Addresses, Ids, RangeBatch

ALIGNMENT: Final = 16
"""What lies in staging lies there as on the host modulo so many bytes, the widest access of the copy kernels."""

_UNORDERED = -1
_BLOCK = 256  # ranges that are looked at together, a few kilobytes
_IN_PLACE = np.empty(0, np.int32)  # stands for the order 0, 1, 2, ...


@dataclass(frozen=True, slots=True, eq=False)
class HostRuns:
    """The host runs of a batch, ascending by host address.

    Attributes:
        order: (n,) indices that put the ranges into the order of their bytes in the runs; empty if they are in it.
        host: (r,) host address of each run.
        nbytes: (r,) bytes of each run.
        total_bytes: of all runs.
        padding: bytes between the runs, and before them, when they lie one behind another in staging.
    """

    order: Indices
    host: Addresses
    nbytes: Addresses
    total_bytes: int
    padding: int

    def __len__(self) -> int:
        return len(self.nbytes)


class RunFinder:
    """Finds the host runs of batches of up to `capacity` ranges without allocating. It is not thread-safe."""

    def __init__(self, capacity: int) -> None:
        """Allocates the buffers.

        Raises:
            UsageError: the capacity is not 1 to 2^31 - 1.
        """
        if not 1 <= capacity <= MAX_RANGES:
            raise UsageError(f"a run finder has room for 1 to {MAX_RANGES} ranges, not {capacity}")
        self.capacity = capacity
        self._sorter = Sorter(capacity)
        self._runs = np.empty((2, capacity), np.uint64)

    def find(self, batch: RangeBatch) -> HostRuns:
        """Joins ranges that are adjacent on the host inside one host allocation, wherever they lie on the device.

        A batch in order is found so in the pass that finds its runs.

        Returns:
            Views of this finder, valid until its next use.

        Raises:
            CapacityError: the batch has more ranges than this finder.
        """
        if len(batch) > self.capacity:
            raise CapacityError(f"{len(batch)} ranges do not fit a run finder for {self.capacity}")
        order = _IN_PLACE
        count, padding = _find_runs(batch.host, batch.nbytes, batch.host_allocation, order, self._runs)
        if count == _UNORDERED:
            order = self._sorter.order(batch.host)
            count, padding = _find_runs(batch.host, batch.nbytes, batch.host_allocation, order, self._runs)
        host, nbytes = self._runs[:, :count]
        return HostRuns(order, host, nbytes, batch.total_bytes, int(padding))


@native
def _find_runs(
    host: Addresses, nbytes: Addresses, allocation: Ids, order: Indices, runs: Addresses
) -> tuple[int, np.int64]:
    """Joins ranges that follow one another.

    Args:
        host: (n,) addresses.
        nbytes: (n,) sizes.
        allocation: (n,) ids.
        order: (n,) indices ascending by host address, or `_IN_PLACE`.
        runs: (2, at least n), receives the addresses and the sizes of the runs.

    Returns:
        How many runs, and their padding; `_UNORDERED` and 0 if the ranges are to be taken in place and do not ascend
        by host address.
    """
    in_place, low_bits = order.shape[0] == 0, np.uint64(ALIGNMENT - 1)
    first = np.int64(0) if in_place else np.int64(order[0])
    start, owner = host[first], allocation[first]
    used, padding, count = np.uint64(0), start & low_bits, 0
    if in_place:
        skipped = _joined_blocks(host, nbytes, allocation) * _BLOCK
        host, nbytes, allocation = host[skipped:], nbytes[skipped:], allocation[skipped:]
    last, end = host[first], host[first] + nbytes[first]
    for k in range(1, host.shape[0]):
        i = k if in_place else np.int64(order[k])
        at = host[i]
        if at < last:
            return _UNORDERED, np.int64(0)
        if at != end or allocation[i] != owner:
            runs[0, count], runs[1, count] = start, end - start
            used += end - start
            padding += (at - used - padding) & low_bits
            count += 1
            start, owner = at, allocation[i]
        last, end = at, at + nbytes[i]
    runs[0, count], runs[1, count] = start, end - start
    return count + 1, np.int64(padding)


@native
def _joined_blocks(host: Addresses, nbytes: Addresses, allocation: Ids) -> int:
    """Blocks of ranges behind the first one that continue its run, one after another.

    There is no branch inside a block, so that it takes vector instructions: half the time for a batch that is one run.
    """
    blocks: int = (host.shape[0] - 1) // _BLOCK
    for block in range(blocks):
        first, end = block * _BLOCK, (block + 1) * _BLOCK
        here, size, behind = host[first:end], nbytes[first:end], host[first + 1 : end + 1]
        owner, next_owner = allocation[first:end], allocation[first + 1 : end + 1]
        gaps, borders = np.uint64(0), np.int64(0)
        for k in range(here.shape[0]):
            gaps |= (here[k] + size[k]) ^ behind[k]
            borders |= owner[k] ^ next_owner[k]
        if gaps or borders:
            return block
    return blocks
