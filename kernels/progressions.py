"""Arithmetic progressions in a batch: equal ranges at constant distances on both sides, which one 2-D copy can move."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from pega_tune.errors import UsageError
from pega_tune.kernels.ordering import Sorter
from pega_tune.kernels.prepare import MAX_RANGES, CapacityError
from pega_tune.kernels.progression_search import Table, search, search_joined
from pega_tune.kernels.ranges import Addresses, RangeBatch

COLUMNS: Final = 6
"""Of a `Table`."""

# Sorting costs up to some tens of nanoseconds per range and a command a few microseconds, so where there is no more
# than one command for so many ranges, a better order cannot save what finding it costs.
_RANGES_PER_COMMAND = 64


@dataclass(frozen=True, slots=True, eq=False)
class Progressions:
    """Copies of one or more rows of equal size; one row is a plain copy.

    Attributes:
        table: (6, at least count) rows `device`, `host`, `nbytes`, `device_pitch`, `host_pitch` and `rows`, for native
            code; what follows `count` has no meaning.
        count: m, how many copies.
    """

    table: Table
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def device(self) -> Addresses:
        """(m,) device addresses of the first rows."""
        return self._column(0)

    @property
    def host(self) -> Addresses:
        """(m,) host addresses of the first rows."""
        return self._column(1)

    @property
    def nbytes(self) -> Addresses:
        """(m,) bytes per row."""
        return self._column(2)

    @property
    def device_pitch(self) -> Addresses:
        """(m,) bytes from one row to the next, at least `nbytes`, and equal to it if there is one row."""
        return self._column(3)

    @property
    def host_pitch(self) -> Addresses:
        """(m,) likewise."""
        return self._column(4)

    @property
    def rows(self) -> Addresses:
        """(m,) number of rows, at least 1."""
        return self._column(5)

    def _column(self, number: int) -> Addresses:
        column: Addresses = self.table[number, : self.count]
        return column


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
        self._scratch = np.empty((3, capacity), np.uint64), np.empty((2, capacity), np.int64)
        self._as_given, self._by_host = (np.empty((COLUMNS, capacity), np.uint64) for _ in range(2))

    def find(self, batch: RangeBatch) -> Progressions:
        """Progressions that together cover exactly the bytes of a batch.

        Ranges that follow one another and are adjacent on both sides inside the same two allocations are joined first.
        The given order is searched first: it costs nothing, and engines list blocks layer by layer, where sorting by
        address would mix the layers. Only if that finds little, and the ranges do not ascend by host address, they are
        sorted by it, and the order with fewer copies wins.

        Returns:
            A view of this finder's buffers, valid until its next use. The order is that of the search.

        Raises:
            CapacityError: the batch has more ranges than the buffers.
        """
        if len(batch) > self.capacity:
            raise CapacityError(f"{len(batch)} ranges do not fit a finder for {self.capacity}")
        columns = (batch.device, batch.host, batch.nbytes)
        allocations = (batch.device_allocation, batch.host_allocation)
        count, joins, ascending = search(columns, allocations, self._scratch, self._as_given)
        if not ascending and count * _RANGES_PER_COMMAND > len(batch) - joins:
            order = self._sorter.order(batch.host)
            sorted_count = search_joined((columns, allocations), order, self._scratch, self._by_host)
            if sorted_count < count:
                return Progressions(self._by_host, sorted_count)
        return Progressions(self._as_given, count)
