"""Writing the descriptors of the kernel that scatters ranges from staging, or gathers them into it.

Native code does it, a part at a time, while the program that needs them runs: one `Op.CALL` a part (see `executor`).
"""

from functools import cache
from typing import Any, Final

import numpy as np
from numba import carray, types
from numpy.typing import NDArray

from pega_tune.kernels.commands import WORDS
from pega_tune.kernels.descriptors import DESCRIPTOR_BYTES
from pega_tune.kernels.driver import SUCCESS
from pega_tune.kernels.native import callback, native, pointer
from pega_tune.kernels.ordering import Indices
from pega_tune.kernels.ranges import Addresses, Ids

LEG: Final = np.dtype(
    [
        ("device", np.uint64),  # address of the (n,) device addresses
        ("nbytes", np.uint64),  # likewise sizes
        ("allocation", np.uint64),  # likewise ids of the device allocations
        ("order", np.uint64),  # likewise indices, of which there are
        ("ordered", np.int64),  # none if the ranges are in the order of their bytes in the runs
        ("ranges", np.int64),
        ("staging", np.uint64),  # address of the (m,) staging addresses of DMA commands
        ("sizes", np.uint64),  # likewise their sizes
        ("part_ends", np.uint64),  # address of the commands before the end of each part
        ("places", np.uint64),  # address of (parts + 1, 2): index in the order, and bytes of that range already written
        ("device_column", np.int64),  # of a descriptor: 0 to scatter, 1 to gather
        ("tile", np.uint64),  # largest piece of one descriptor in bytes
    ]
)
"""One direction of a staged transfer, as the writer sees it."""

PIECE: Final = np.dtype(
    [
        ("leg", np.uint64),  # address of its `LEG`
        ("part", np.int64),
        ("starts", np.int64),  # whether its launch starts with this piece
        ("begin", np.int64),  # its first row; the writer passes both on to the next piece
        ("launch_begin", np.int64),  # first row of the launch
        ("capacity", np.int64),  # descriptors that there is room for
        ("rows", np.uint64),  # address of the descriptors, as the host has it
        ("device_rows", np.uint64),  # address of the descriptors, as the kernel has it
        ("launch", np.uint64),  # address of the launch, whose CTAs and arguments are told here
        ("upload", np.uint64),  # address of the upload, likewise; 0 for none
        ("max_grid_blocks", np.int64),
        ("per_block", np.int64),  # descriptors that a CTA takes at once
    ]
)
"""The descriptors of one part, for which the writer is called; they are written in turn. One more follows the last."""

_MANY_TILES = 16  # calling the fast loop costs as much as some fifty descriptors
_FIRST_OPERAND = 2  # word of a command
_BLOCKS, _PARAMETERS = 3, 5  # words of a launch


@cache
def writer_address() -> int:
    """Address of `int32 write(uint64)`, which writes the descriptors of the `PIECE` at its argument.

    It can be called again, in turn from any piece on; there must be room (see `StagedLeg.descriptor_bound`).
    """
    address: int = callback(types.int32(types.uint64))(_write_at).address
    return address


def _write_at(address: Any) -> Any:
    pieces = carray(pointer(address), 2, PIECE)
    leg = carray(pointer(pieces[0].leg), 1, LEG)[0]
    rows = carray(pointer(pieces[0].rows), (pieces[0].capacity, 3), np.uint64)
    end = _write_part(leg, pieces[0].part, pieces[0].begin, rows)
    launch_begin = pieces[0].begin if pieces[0].starts else pieces[0].launch_begin
    pieces[1].begin, pieces[1].launch_begin = end, launch_begin
    _complete_launch(pieces[0], launch_begin, end - launch_begin)
    return SUCCESS


@native
def _complete_launch(piece: Any, first: int, count: int) -> None:
    """Tells a launch, and the upload before it, about its descriptors."""
    offset = np.uint64(first) * np.uint64(DESCRIPTOR_BYTES)
    launch = carray(pointer(piece.launch), WORDS, np.uint64)
    launch[_BLOCKS] = min(piece.max_grid_blocks, (count + piece.per_block - 1) // piece.per_block)
    parameters = carray(pointer(launch[_PARAMETERS]), 2, np.uint64)
    carray(pointer(parameters[0]), 1, np.uint64)[0] = piece.device_rows + offset
    carray(pointer(parameters[1]), 1, np.uint64)[0] = count
    if piece.upload:
        upload = carray(pointer(piece.upload), WORDS, np.uint64)[_FIRST_OPERAND:]
        upload[0], upload[1] = piece.device_rows + offset, piece.rows + offset
        upload[2] = np.uint64(count) * np.uint64(DESCRIPTOR_BYTES)


@native
def _write_part(leg: Any, part: int, row: int, rows: NDArray[np.uint64]) -> int:
    """Writes the descriptors of a part from a row on; the row behind them."""
    part_ends = carray(pointer(leg.part_ends), part + 1, np.int64)
    first, end = part_ends[part - 1] if part else 0, part_ends[part]
    columns = (
        carray(pointer(leg.device), leg.ranges, np.uint64),
        carray(pointer(leg.nbytes), leg.ranges, np.uint64),
        carray(pointer(leg.order), leg.ordered, np.int32),
        carray(pointer(leg.allocation), leg.ranges, np.int64),
    )
    staging, sizes = carray(pointer(leg.staging), end, np.uint64), carray(pointer(leg.sizes), end, np.uint64)
    places = carray(pointer(leg.places), (part + 2, 2), np.uint64)
    places[part + 1, 0], places[part + 1, 1] = places[part, 0], places[part, 1]
    numbers = (row, leg.device_column, leg.tile)
    return _write(columns, (staging[first:], sizes[first:]), numbers, places[part + 1], rows)


@native
def _write(
    columns: tuple[Addresses, Addresses, Indices, Ids],
    commands: tuple[Addresses, Addresses],
    numbers: tuple[int, int, np.uint64],
    place: Addresses,
    rows: NDArray[np.uint64],
) -> int:
    """Walks through ranges and the DMA commands of a part, which hold the same bytes in the same order.

    Ranges that are adjacent on the device, and in staging, are joined, and cut into tiles.

    Args:
        columns: (n,) device addresses, sizes, order, empty if they are in it, and ids of the device allocations.
        commands: (m,) staging addresses and sizes.
        numbers: first row, column of the device address, and bytes of a tile.
        place: (2,) index in the order and bytes of that range already written; read and brought up to date.
        rows: receives the descriptors, of which there is room for enough.

    Returns:
        The row behind the last one.
    """
    device, nbytes, order, allocation = columns
    staging, sizes = commands
    row, device_column, tile = numbers
    first_row, staging_column = row, 1 - device_column
    in_place, zero = order.shape[0] == 0, np.uint64(0)
    many_tiles = tile * np.uint64(_MANY_TILES)
    k = np.int64(place[0])
    i = last = k if in_place else np.int64(order[k])
    at, left = device[i] + place[1], nbytes[i] - place[1]
    device_end = staging_end = filled = zero
    for command in range(staging.shape[0]):
        spot, room = staging[command], sizes[command]
        while room > zero:
            if left == zero and room > many_tiles:
                many, moved = _write_whole(columns, k + 1, (spot, room, device_end, tile), rows[row:], device_column)
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
            touching = at == device_end and spot == staging_end and row > first_row
            if touching and allocation[i] == allocation[last]:
                more = min(tile - filled, taken)
                filled += more
                rows[row - 1, 2] = filled
                at, spot, taken = at + more, spot + more, taken - more
            last = i
            while taken > zero:
                filled = min(tile, taken)
                rows[row, device_column], rows[row, staging_column], rows[row, 2] = at, spot, filled
                row += 1
                at, spot, taken = at + filled, spot + filled, taken - filled
            device_end, staging_end = at, spot
    place[0], place[1] = k, nbytes[k if in_place else np.int64(order[k])] - left
    return row


@native
def _write_whole(
    columns: tuple[Addresses, Addresses, Indices, Ids],
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
    device, nbytes, order, _ = columns
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
