"""Cutting DMA copies into chunks of bounded size."""

import itertools
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import UsageError
from pega_tune.kernels.native import native
from pega_tune.kernels.ranges import Addresses
from pega_tune.kernels.shape import MAX_BYTES

CopyColumns: TypeAlias = tuple[Addresses, Addresses, Addresses]
"""Destinations, sources and sizes in bytes, each (n,)."""


class Chunks(NamedTuple):
    """Copies in chunks.

    Attributes:
        columns: of the (m,) pieces, in the order of the copies.
        bounds: (k + 1,) int64; chunk i has the pieces from bounds[i] to bounds[i + 1].
    """

    columns: CopyColumns
    bounds: NDArray[np.int64]

    @property
    def parts(self) -> list[tuple[int, int]]:
        """First piece and number of pieces of each chunk."""
        begins = self.bounds.tolist()
        return [(first, end - first) for first, end in itertools.pairwise(begins)]


def cut(columns: CopyColumns, chunk_bytes: int) -> Chunks:
    """Cuts copies that are larger than a chunk, and puts whole pieces, in order, into as few chunks as they fit.

    A copy that would fit a chunk is never cut, since a DMA command costs more than an uneven chunk.

    Args:
        columns: (n,) copies of at least 1 byte, n at least 1.
        chunk_bytes: most bytes of a chunk.

    Raises:
        UsageError: a chunk has no bytes.
    """
    if chunk_bytes < 1:
        raise UsageError(f"a chunk has at least 1 byte, not {chunk_bytes}")
    limit = np.uint64(min(chunk_bytes, MAX_BYTES))
    pieces = _count(columns[2], limit)
    cut_columns = np.empty((3, pieces), np.uint64)
    bounds = np.empty(pieces + 1, np.int64)
    chunks = _cut(columns, limit, cut_columns, bounds)
    return Chunks((cut_columns[0], cut_columns[1], cut_columns[2]), bounds[: chunks + 1])


@native
def _count(nbytes: Addresses, limit: np.uint64) -> int:
    """Pieces of at most `limit` bytes."""
    pieces = np.uint64(0)
    for i in range(nbytes.shape[0]):
        pieces += (nbytes[i] - np.uint64(1)) // limit + np.uint64(1)
    return int(pieces)


@native
def _cut(columns: CopyColumns, limit: np.uint64, cut_columns: Addresses, bounds: NDArray[np.int64]) -> int:
    """Writes the pieces, and where chunks begin and the last one ends; how many chunks there are."""
    destination, source, nbytes = columns
    piece = chunk = 0
    filled = np.uint64(0)
    bounds[0] = 0
    for i in range(nbytes.shape[0]):
        to, at, left = destination[i], source[i], nbytes[i]
        while left > np.uint64(0):
            size = min(left, limit)
            if size > limit - filled:
                chunk += 1
                bounds[chunk] = piece
                filled = np.uint64(0)
            cut_columns[0, piece], cut_columns[1, piece], cut_columns[2, piece] = to, at, size
            to, at, left = to + size, at + size, left - size
            filled += size
            piece += 1
    bounds[chunk + 1] = piece
    return chunk + 1
