"""Cutting progressions into groups of at most so many bytes (`chunks` does it for plain copies)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import UsageError
from pega_tune.kernels.native import native
from pega_tune.kernels.progression_search import Table
from pega_tune.kernels.progressions import COLUMNS, Progressions


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Copies in groups, one after another.

    Attributes:
        copies: (m,) copies of all groups.
        bounds: (g + 1,) group i holds the copies from `bounds[i]` up to `bounds[i + 1]`.
    """

    copies: Progressions
    bounds: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """First copy, and the one past the last, of each group."""
        return pairwise(self.bounds.tolist())


def cut_progressions(copies: Progressions, chunk_bytes: int | None) -> Groups:
    """Cuts copies, in their order, into groups.

    A copy is cut only if it does not fit a group: a progression between rows, and a row only if it is itself larger
    than a group.

    Args:
        copies: (n,) copies.
        chunk_bytes: most bytes of a group, at least 1; None makes one group of all, without copying.

    Returns:
        The groups, none empty; all of their copies in the order of `copies`.

    Raises:
        UsageError: a group would have no bytes.
    """
    if chunk_bytes is None:
        return Groups(copies, np.array([0, len(copies)], np.int64))
    if chunk_bytes < 1:
        raise UsageError(f"a chunk has at least 1 byte, not {chunk_bytes}")
    limit = np.uint64(min(chunk_bytes, 2**63))
    most: int = _most_pieces(copies.table, copies.count, limit)
    pieces = np.empty((COLUMNS, most), np.uint64)
    bounds = np.zeros(most + 1, np.int64)
    count, groups = _cut(copies.table, copies.count, limit, (pieces, bounds))
    return Groups(Progressions(pieces, count), bounds[: groups + 1])


@native
def _most_pieces(copies: Table, count: int, limit: np.uint64) -> int:
    """An upper bound on the pieces of some copies.

    Between two cuts of a progression lies more than half a group, except before the first and behind the last.
    """
    most = np.uint64(0)
    for i in range(count):
        nbytes, rows = copies[2, i], copies[5, i]
        if nbytes > limit:
            most += rows * ((nbytes - np.uint64(1)) // limit + np.uint64(1))
        else:
            most += min(rows, np.uint64(2) + np.uint64(2) * rows * nbytes // limit)
    return int(most)


@native
def _cut(copies: Table, total: int, limit: np.uint64, into: tuple[Table, NDArray[np.int64]]) -> tuple[int, int]:
    """Writes the pieces and the bounds of the groups, of which there is room for enough; how many of each."""
    pieces, bounds = into
    count = groups = 0
    room = limit
    for i in range(total):
        device, host, size = copies[0, i], copies[1, i], copies[2, i]
        device_pitch, host_pitch, rows = copies[3, i], copies[4, i], copies[5, i]
        row = offset = np.uint64(0)
        while row < rows:
            width, height = min(size - offset, limit), np.uint64(1)
            if width > room:
                groups += 1
                bounds[groups] = count
                room = limit
            if size <= limit:
                height = min(rows - row, room // size)
            pieces[0, count] = device + row * device_pitch + offset
            pieces[1, count] = host + row * host_pitch + offset
            pieces[2, count] = width
            pieces[3, count] = width if height == 1 else device_pitch
            pieces[4, count] = width if height == 1 else host_pitch
            pieces[5, count] = height
            count += 1
            room -= width * height
            offset += width
            if offset == size:
                row, offset = row + height, np.uint64(0)
    bounds[groups + 1] = count
    return count, groups + 1
