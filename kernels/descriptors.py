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
        pinned_alias: address of the view for kernels; None if they cannot read it.
    """

    pinned: NDArray[np.uint64]
    pinned_address: int
    device_address: int
    capacity: int
    pinned_alias: int | None = None

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
        CapacityError: they might not fit (see `descriptor_bound`); nothing was written.
    """
    destination, source = sides(batch.device, batch.host_alias, direction)
    if tile is None:
        _require(len(batch), space)
        _write_ranges(destination, source, batch.nbytes, space.pinned)
        return len(batch)
    if tile < 1:
        raise UsageError(f"a tile has at least 1 byte, not {tile}")
    _require(descriptor_bound(len(batch), batch.total_bytes, tile), space)
    allocations = (batch.device_allocation, batch.host_allocation)
    count: int = _write_tiles((destination, source), batch.nbytes, allocations, np.uint64(tile), space.pinned)
    return count


def _require(descriptors: int, space: DescriptorSpace) -> None:
    if descriptors > space.capacity:
        raise CapacityError(f"{descriptors} descriptors do not fit a space for {space.capacity}")


def sides(device: Addresses, host: Addresses, direction: Direction) -> tuple[Addresses, Addresses]:
    """Destination and source.

    Raises:
        UsageError: the direction is both.
    """
    if direction is Direction.BOTH:
        raise UsageError("a backend moves one direction; run a load and a save, each with its own backend")
    return (device, host) if direction is Direction.H2D else (host, device)


@native
def _write_ranges(
    destination: Addresses, source: Addresses, nbytes: Addresses, descriptors: NDArray[np.uint64]
) -> None:
    """Writes (n,) ranges into (at least n, 3) descriptors."""
    for i in range(nbytes.shape[0]):
        descriptors[i, 0] = destination[i]
        descriptors[i, 1] = source[i]
        descriptors[i, 2] = nbytes[i]


@native
def _write_tiles(
    sides: tuple[Addresses, Addresses],
    nbytes: Addresses,
    allocations: tuple[Ids, Ids],
    tile: np.uint64,
    descriptors: NDArray[np.uint64],
) -> int:
    """Joins neighbours and writes the pieces into descriptors, of which there are enough; how many were written.

    A range that continues the one before it first fills the last descriptor up, which joins and cuts in one step.
    """
    destination, source = sides
    one_id, other_id = allocations
    row = -1
    destination_end = source_end = np.uint64(0)
    for i in range(nbytes.shape[0]):
        to, at, left = destination[i], source[i], nbytes[i]
        touching = to == destination_end and at == source_end and i > 0
        if touching and one_id[i] == one_id[i - 1] and other_id[i] == other_id[i - 1]:
            taken = min(tile - descriptors[row, 2], left)
            descriptors[row, 2] += taken
            to, at, left = to + taken, at + taken, left - taken
        destination_end, source_end = to + left, at + left
        while left > tile:
            row += 1
            descriptors[row, 0], descriptors[row, 1], descriptors[row, 2] = to, at, tile
            to, at, left = to + tile, at + tile, left - tile
        if left > 0:
            row += 1
            descriptors[row, 0], descriptors[row, 1], descriptors[row, 2] = to, at, left
    return row + 1
