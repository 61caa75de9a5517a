"""Descriptors of the kernel that scatters ranges from staging, or gathers them into it."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pega_tune.kernels.descriptors import DescriptorSpace
from pega_tune.kernels.host_runs import HostRuns
from pega_tune.kernels.native import native
from pega_tune.kernels.ordering import Indices
from pega_tune.kernels.prepare import CapacityError
from pega_tune.kernels.ranges import Addresses, Ids, RangeBatch
from pega_tune.kernels.shape import Direction
from pega_tune.kernels.staging import Schedule

_NO_ROOM = -1
_MANY_TILES = 16  # calling the fast loop costs as much as some fifty descriptors


@dataclass(frozen=True, slots=True, eq=False)
class StagedLeg:
    """One direction of a staged transfer.

    Attributes:
        direction: which way; not both.
        batch: the ranges.
        runs: their host runs.
        schedule: their way through staging.
        tile: largest piece of one descriptor in bytes.
    """

    direction: Direction
    batch: RangeBatch
    runs: HostRuns
    schedule: Schedule
    tile: int


class DescriptorWriter:
    """Writes the descriptors of a leg in the order of its parts.

    Ranges that are adjacent on the device, and in staging, are joined, and cut into tiles.
    """

    def __init__(self, leg: StagedLeg, space: DescriptorSpace) -> None:
        self._leg: Final = leg
        self._space: Final = space
        self._part = 0
        self._place = np.zeros(2, np.uint64)  # the range that comes next, in the order, and its bytes already written
        self._ends = np.empty(leg.schedule.parts, np.int64)

    def write(self, row: int, parts: int | None = None) -> list[int]:
        """Writes the next parts.

        Args:
            row: of the first descriptor.
            parts: how many; None for all that are left.

        Returns:
            The row behind each part.

        Raises:
            CapacityError: they do not fit the space.
        """
        leg, first = self._leg, self._part
        self._part = leg.schedule.parts if parts is None else first + parts
        begin = int(leg.schedule.part_ends[first - 1]) if first else 0
        part_ends, ends = leg.schedule.part_ends[first : self._part], self._ends[first : self._part]
        columns = (leg.batch.device, leg.batch.nbytes, leg.runs.order)
        commands = (leg.schedule.staging, leg.schedule.nbytes, part_ends)
        device_column = 0 if leg.direction is Direction.H2D else 1
        numbers = (begin, row, device_column, np.uint64(leg.tile))
        ids, rows = leg.batch.device_allocation, self._space.pinned
        if _write(columns, ids, commands, numbers, self._place, (rows, ends)) == _NO_ROOM:
            raise CapacityError(f"the descriptors of {len(leg.batch)} ranges do not fit a space for {len(rows)}")
        rows_behind: list[int] = ends.tolist()
        return rows_behind


@native
def _write(
    columns: tuple[Addresses, Addresses, Indices],
    allocation: Ids,
    commands: tuple[Addresses, Addresses, Ids],
    numbers: tuple[int, int, int, np.uint64],
    place: Addresses,
    out: tuple[NDArray[np.uint64], Ids],
) -> int:
    """Walks through ranges and DMA commands, which hold the same bytes in the same order.

    Args:
        columns: (n,) device addresses and sizes, and their order, empty if they are in it.
        allocation: (n,) ids of the device allocations.
        commands: (m,) staging addresses and sizes, and (p,) ends of parts.
        numbers: first command, first row, column of the device address, and bytes of a tile.
        place: (2,) index in the order and bytes of that range already written; read and brought up to date.
        out: receives the descriptors, and (p,) rows behind each part.

    Returns:
        The row behind the last one, or `_NO_ROOM`.
    """
    device, nbytes, order = columns
    staging, sizes, part_ends = commands
    next_command, row, device_column, tile = numbers
    rows, ends = out
    staging_column, in_place, zero = 1 - device_column, order.shape[0] == 0, np.uint64(0)
    many_tiles = tile * np.uint64(_MANY_TILES)
    k = np.int64(place[0])
    i = k if in_place else np.int64(order[k])
    at, left = device[i] + place[1], nbytes[i] - place[1]
    for part in range(part_ends.shape[0]):
        device_end = staging_end = filled = zero
        last, part_row = i, row
        for command in range(next_command, part_ends[part]):
            spot, room = staging[command], sizes[command]
            while room > zero:
                if left == zero and room > many_tiles:
                    many, moved = _write_whole(
                        columns, k + 1, (spot, room, device_end, tile), rows[row:], device_column
                    )
                    if many > 0:
                        k, row, spot, room = k + many, row + many, spot + moved, room - moved
                        last = k if in_place else np.int64(order[k])
                        filled = nbytes[last]
                        device_end, staging_end = device[last] + filled, spot
                        continue
                if left == zero:
                    k += 1
                    i = k if in_place else np.int64(order[k])
                    at, left = device[i], nbytes[i]
                taken = min(left, room)
                left, room = left - taken, room - taken
                touching = at == device_end and spot == staging_end and row > part_row
                if touching and allocation[i] == allocation[last]:
                    more = min(tile - filled, taken)
                    filled += more
                    rows[row - 1, 2] = filled
                    at, spot, taken = at + more, spot + more, taken - more
                last = i
                while taken > zero:
                    if row == rows.shape[0]:
                        return _NO_ROOM
                    filled = min(tile, taken)
                    rows[row, device_column], rows[row, staging_column], rows[row, 2] = at, spot, filled
                    row += 1
                    at, spot, taken = at + filled, spot + filled, taken - filled
                device_end, staging_end = at, spot
        next_command = part_ends[part]
        ends[part] = row
    place[0], place[1] = k, nbytes[k if in_place else np.int64(order[k])] - left
    return row


@native
def _write_whole(
    columns: tuple[Addresses, Addresses, Indices],
    first: np.int64,
    limits: tuple[np.uint64, np.uint64, np.uint64, np.uint64],
    rows: NDArray[np.uint64],
    device_column: int,
) -> tuple[int, np.uint64]:
    """Writes ranges that need neither joining nor cutting, which takes less than half the time of the general way.

    Args:
        columns: as in `_write`.
        first: index in the order.
        limits: staging address, bytes left of the DMA command, end of the last range on the device, bytes of a tile.
        rows: receives the descriptors.
        device_column: where the device address goes.

    Returns:
        How many ranges until the first one that does not fit in, and their bytes.
    """
    device, nbytes, order = columns
    spot, room, device_end, tile = limits
    in_place, start = order.shape[0] == 0, spot
    for row in range(min(rows.shape[0], nbytes.shape[0] - first)):
        i = first + row if in_place else np.int64(order[first + row])
        at, size = device[i], nbytes[i]
        if size > room or size > tile or at == device_end:
            return row, spot - start
        if device_column == 0:
            rows[row, 0], rows[row, 1], rows[row, 2] = at, spot, size
        else:
            rows[row, 0], rows[row, 1], rows[row, 2] = spot, at, size
        device_end, spot, room = at + size, spot + size, room - size
    return min(rows.shape[0], nbytes.shape[0] - first), spot - start
