"""Descriptors: what the copy kernels read. One is (destination, source, bytes) as three uint64, 24 bytes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pega_tune.errors import UsageError
from pega_tune.kernels.native import native
from pega_tune.kernels.prepare import CapacityError
from pega_tune.kernels.ranges import Addresses, Ids, RangeBatch
from pega_tune.kernels.shape import Direction

DESCRIPTOR_BYTES = 24
MIN_TILE_BYTES = 4096
MAX_TILE_BYTES = 65_536

_TILES_PER_WARP = 4


@dataclass(frozen=True, slots=True, eq=False)
class DescriptorSpace:
    """Memory through which descriptors reach the device; one transfer at a time may use it.

    Attributes:
        pinned: (capacity, 3) uint64 view of pinned host memory; it keeps that memory alive.
        pinned_address: host address of the view.
        device_address: device memory of the same size.
        capacity: descriptors that fit.
    """

    pinned: NDArray[np.uint64]
    pinned_address: int
    device_address: int
    capacity: int

    def __post_init__(self) -> None:
        pinned = self.pinned
        if pinned.dtype != np.uint64 or pinned.shape != (self.capacity, 3) or not pinned.flags.c_contiguous:
            raise UsageError(f"the view of {self.capacity} descriptors is not ({self.capacity}, 3) contiguous uint64")
        if pinned.ctypes.data != self.pinned_address:
            raise UsageError("the view of the descriptors does not lie at their pinned address")


def tile_bytes(total_bytes: int, warps: int) -> int:
    """The size of the pieces into which a grid of warps cuts large ranges.

    Every warp should get about four tiles, so that one huge range uses all warps of the grid and the last tiles to end
    leave few of them idle. A tile is at least 4 KiB, one unrolled step of a warp (32 lanes x 8 loads x 16 bytes):
    smaller pieces would only idle lanes, while at 4 KiB a small transfer still spreads over as many warps as it can
    feed. It is at most 64 KiB, where reading its descriptor costs nothing any more and the wait for the last tile is a
    few microseconds. A multiple of 4 KiB keeps the alignment of the range and whole steps.

    Args:
        total_bytes: bytes of the transfer.
        warps: warps in the largest grid that the plan allows, at least 1.

    Returns:
        A multiple of 4 KiB from 4 KiB to 64 KiB.
    """
    share = total_bytes // (warps * _TILES_PER_WARP)
    steps = share // MIN_TILE_BYTES
    return max(MIN_TILE_BYTES, min(MAX_TILE_BYTES, steps * MIN_TILE_BYTES))


def descriptor_bound(ranges: int, total_bytes: int, tile: int) -> int:
    """Most descriptors that so many ranges of so many bytes in total can need when cut into tiles."""
    return ranges + total_bytes // tile


def write_descriptors(batch: RangeBatch, direction: Direction, space: DescriptorSpace, tile: int | None = None) -> int:
    """Writes the descriptors of a batch, in its order.

    Args:
        batch: (n,) ranges.
        direction: which way; not both.
        space: receives them, in its pinned view.
        tile: None writes one descriptor per range. Otherwise ranges that follow one another and are adjacent on both
            sides inside the same allocations are joined, and cut into pieces of so many bytes, one after another.
            Joining costs no pass of its own; sorting first would cost more than fewer descriptors save.

    Returns:
        How many were written.

    Raises:
        UsageError: the direction is both, or a tile has no bytes.
        CapacityError: they do not fit; what the space holds is then of no use.
    """
    destination, source = sides(batch.device, batch.host_alias, direction)
    count: int
    if tile is None:
        count = _write_ranges(destination, source, batch.nbytes, space.pinned)
    elif tile < 1:
        raise UsageError(f"a tile has at least 1 byte, not {tile}")
    else:
        allocations = (batch.device_allocation, batch.host_allocation)
        count = _write_tiles(destination, source, batch.nbytes, allocations, np.uint64(tile), space.pinned)
    if count > space.capacity:
        raise CapacityError(f"{count} descriptors do not fit a space for {space.capacity}")
    return count


def sides(device: Addresses, host: Addresses, direction: Direction) -> tuple[Addresses, Addresses]:
    """Destination and source.

    Raises:
        UsageError: the direction is both.
    """
    if direction is Direction.BOTH:
        raise UsageError("a backend moves one direction; run a load and a save, each with its own backend")
    return (device, host) if direction is Direction.H2D else (host, device)


@native
def _write_ranges(destination: Addresses, source: Addresses, nbytes: Addresses, descriptors: NDArray[np.uint64]) -> int:
    """Writes (n,) ranges into (capacity, 3) descriptors as far as they fit; how many there are."""
    for i in range(min(nbytes.shape[0], descriptors.shape[0])):
        descriptors[i, 0] = destination[i]
        descriptors[i, 1] = source[i]
        descriptors[i, 2] = nbytes[i]
    return len(nbytes)


@native
def _write_tiles(
    destination: Addresses,
    source: Addresses,
    nbytes: Addresses,
    allocations: tuple[Ids, Ids],
    tile: np.uint64,
    descriptors: NDArray[np.uint64],
) -> int:
    """Joins neighbours and writes the pieces into (capacity, 3) descriptors as far as they fit; how many there are."""
    one_side, other_side = allocations
    ranges, capacity = nbytes.shape[0], descriptors.shape[0]
    row = first = 0
    while first < ranges:
        size = nbytes[first]
        after = first + 1
        while (
            after < ranges
            and destination[first] + size == destination[after]
            and source[first] + size == source[after]
            and one_side[first] == one_side[after]
            and other_side[first] == other_side[after]
        ):
            size += nbytes[after]
            after += 1
        done = np.uint64(0)
        while done < size:
            piece = min(tile, size - done)
            if row < capacity:
                descriptors[row, 0] = destination[first] + done
                descriptors[row, 1] = source[first] + done
                descriptors[row, 2] = piece
            row += 1
            done += piece
        first = after
    return row
