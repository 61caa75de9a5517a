"""Arithmetic progressions in a batch: equal ranges at constant distances on both sides, which one 2-D copy can move."""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import UsageError
from pega_tune.kernels.native import native
from pega_tune.kernels.ordering import Indices, Sorter
from pega_tune.kernels.prepare import MAX_RANGES, CapacityError
from pega_tune.kernels.ranges import Addresses, Ids, RangeBatch

MIN_ROWS: Final = 3  # a 2-D copy costs the host about as much as two plain ones
MAX_PERIOD: Final = 8
MAX_PITCH: Final = 2**31 - 1  # CU_DEVICE_ATTRIBUTE_MAX_PITCH of every device

# Sorting costs up to some tens of nanoseconds per range and a command a few microseconds, so where there is no more
# than one command for so many ranges, a better order cannot save what finding it costs.
_RANGES_PER_COMMAND = 64

_IN_PLACE = np.empty(0, np.int32)  # stands for the order 0, 1, 2, ...
_COLUMNS = 6
_LONGEST = np.uint64(MAX_PITCH)
_ZERO = np.uint64(0)

_Columns: TypeAlias = tuple[Addresses, Addresses, Addresses]  # device, host, nbytes
_Allocations: TypeAlias = tuple[Ids, Ids]  # device, host


@dataclass(frozen=True, slots=True, eq=False)
class Progressions:
    """Copies of one or more rows of equal size; one row is a plain copy.

    Attributes:
        device: (m,) device addresses of the first rows.
        host: (m,) host addresses of the first rows.
        nbytes: (m,) bytes per row.
        device_pitch: (m,) bytes from one row to the next, at least `nbytes`, and equal to it if there is one row.
        host_pitch: (m,) likewise.
        rows: (m,) number of rows, at least 1.
    """

    device: Addresses
    host: Addresses
    nbytes: Addresses
    device_pitch: Addresses
    host_pitch: Addresses
    rows: Addresses

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> tuple[Addresses, Addresses, Addresses, Addresses, Addresses, Addresses]:
        """All of it, in the order of the attributes, for native code."""
        return self.device, self.host, self.nbytes, self.device_pitch, self.host_pitch, self.rows


class ProgressionFinder:
    """Buffers in which batches of up to `capacity` ranges are searched one after another. It is not thread-safe."""

    def __init__(self, capacity: int) -> None:
        """Allocates the buffers.

        Raises:
            UsageError: the capacity is not 1 to 2^31 - 1.
        """
        if not 1 <= capacity <= MAX_RANGES:
            raise UsageError(f"progressions are sought among 1 to {MAX_RANGES} ranges, not {capacity}")
        self.capacity = capacity
        self._sorter = Sorter(capacity)
        self._merged = np.empty((3, capacity), np.uint64)
        self._ids = np.empty((2, capacity), np.int64)
        self._found = np.empty((2, _COLUMNS, capacity), np.uint64)

    def find(self, batch: RangeBatch) -> Progressions:
        """Progressions that together cover exactly the bytes of a batch.

        Ranges that follow one another and are adjacent on both sides inside the same two allocations are joined first.
        The given order is searched first: it costs nothing, and engines list blocks layer by layer, where sorting by
        address would mix the layers. Only if that finds little, and the ranges do not ascend by host address, they are
        sorted by it, and the order with fewer copies wins.

        Returns:
            Views of this finder's buffers, valid until its next use. Their order is that of the search.

        Raises:
            CapacityError: the batch has more ranges than the buffers.
        """
        if len(batch) > self.capacity:
            raise CapacityError(f"{len(batch)} ranges do not fit a finder for {self.capacity}")
        columns = (batch.device, batch.host, batch.nbytes)
        allocations = (batch.device_allocation, batch.host_allocation)
        joins, ascending = _count_joins(columns, allocations)
        best = self._found[0]
        if joins:
            count = self._search_joined(columns, allocations, _IN_PLACE, best)
        else:
            count = _find(columns, allocations, best)
        if not ascending and count * _RANGES_PER_COMMAND > len(batch) - joins:
            sorted_count = self._search_joined(columns, allocations, self._sorter.order(batch.host), self._found[1])
            if sorted_count < count:
                best, count = self._found[1], sorted_count
        return Progressions(*best[:, :count])

    def _search_joined(
        self, columns: _Columns, allocations: _Allocations, order: Indices, found: NDArray[np.uint64]
    ) -> int:
        length = _join(columns, allocations, order, self._merged, self._ids)
        device, host, nbytes = self._merged[:, :length]
        device_ids, host_ids = self._ids[:, :length]
        count: int = _find((device, host, nbytes), (device_ids, host_ids), found)
        return count


@native
def _count_joins(columns: _Columns, allocations: _Allocations) -> tuple[int, bool]:
    """How many of (n,) ranges continue the one before them on both sides, and whether host addresses ascend."""
    device, host, nbytes = columns
    device_ids, host_ids = allocations
    joins = 0
    ascending = True
    for k in range(1, device.shape[0]):
        i = k - 1
        size = nbytes[i]
        ascending &= host[k] >= host[i]
        touching = (device[i] + size == device[k]) & (host[i] + size == host[k])  # without branches: it vectorises
        joins += touching & (device_ids[i] == device_ids[k]) & (host_ids[i] == host_ids[k])
    return joins, ascending


@native
def _join(
    columns: _Columns, allocations: _Allocations, order: Indices, merged: NDArray[np.uint64], ids: NDArray[np.int64]
) -> int:
    """Joins ranges to those before them, in an order.

    Args:
        columns: three arrays (n,).
        allocations: two arrays (n,).
        order: (n,) indices, or `_IN_PLACE`.
        merged: (3, at least n), receives the joined columns.
        ids: (2, at least n), receives their allocations.

    Returns:
        How many are left.
    """
    device, host, nbytes = columns
    device_ids, host_ids = allocations
    in_place = order.shape[0] == 0
    last = -1
    for k in range(device.shape[0]):
        i = k if in_place else np.int64(order[k])
        if (
            last >= 0
            and merged[0, last] + merged[2, last] == device[i]
            and merged[1, last] + merged[2, last] == host[i]
            and ids[0, last] == device_ids[i]
            and ids[1, last] == host_ids[i]
        ):
            merged[2, last] += nbytes[i]
            continue
        last += 1
        merged[0, last], merged[1, last], merged[2, last] = device[i], host[i], nbytes[i]
        ids[0, last], ids[1, last] = device_ids[i], host_ids[i]
    return last + 1


@native
def _find(columns: _Columns, allocations: _Allocations, found: NDArray[np.uint64]) -> int:
    """Covers (n,) ranges with runs, from the first on, each as long per progression as any period makes it.

    A run of period p is p interleaved progressions. A period is followed up only if its first progression can have
    more rows than the best run so far, which one element tells. So a step costs no more than a constant times the
    ranges that it covers.

    Args:
        columns: three arrays (n,).
        allocations: two arrays (n,).
        found: (6, at least n), receives the progressions.

    Returns:
        How many they are.
    """
    device, host, _ = columns
    total = device.shape[0]
    count = start = 0
    while start < total:
        length, period, rows = 1, 1, MIN_ROWS - 1
        for candidate in range(1, MAX_PERIOD + 1):
            second, next_row = start + candidate, start + candidate * rows
            if next_row >= total:
                break
            steps = np.uint64(rows)
            if device[next_row] - device[start] != steps * (device[second] - device[start]):
                continue
            if host[next_row] - host[start] != steps * (host[second] - host[start]):
                continue
            reach = _reach(columns, allocations, start, candidate)
            if reach // candidate > rows:
                length, period, rows = reach, candidate, reach // candidate
        _write(columns, (start, length, period), found, count)
        count += period
        start += length
    return count


@native
def _reach(columns: _Columns, allocations: _Allocations, start: int, period: int) -> int:
    """The length of the longest run of a period that begins at `start`."""
    device, host, nbytes = columns
    device_ids, host_ids = allocations
    k = start + period
    third_rows = k + period
    while k < device.shape[0]:
        i = k - period
        if nbytes[k] != nbytes[i] or device_ids[k] != device_ids[i] or host_ids[k] != host_ids[i]:
            break
        device_step, host_step = device[k] - device[i], host[k] - host[i]
        if k >= third_rows:
            j = i - period
            if device_step != device[i] - device[j] or host_step != host[i] - host[j]:
                break
        else:
            if device_step > _LONGEST:  # descending, if anything
                device_step, host_step = _ZERO - device_step, _ZERO - host_step
            if min(device_step, host_step) < nbytes[k] or max(device_step, host_step) > _LONGEST:
                break
        k += 1
    return k - start


@native
def _write(columns: _Columns, run: tuple[int, int, int], found: NDArray[np.uint64], count: int) -> None:
    """Writes the progressions of a run (start, length, period), each ascending, from column `count` of `found` on."""
    device, host, nbytes = columns
    start, length, period = run
    for phase in range(period):
        first = start + phase
        rows = (length - phase + period - 1) // period
        size = nbytes[first]
        device_pitch = host_pitch = size
        if rows > 1:
            device_pitch, host_pitch = device[first + period] - device[first], host[first + period] - host[first]
            if device_pitch > _LONGEST:
                first += (rows - 1) * period
                device_pitch, host_pitch = _ZERO - device_pitch, _ZERO - host_pitch
            if device_pitch == size and host_pitch == size:  # interleaved or descending, but without gaps
                size, rows = size * np.uint64(rows), 1
                device_pitch = host_pitch = size
        column = count + phase
        found[0, column], found[1, column], found[2, column] = device[first], host[first], size
        found[3, column], found[4, column], found[5, column] = device_pitch, host_pitch, np.uint64(rows)
