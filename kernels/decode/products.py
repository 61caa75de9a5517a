"""Rows of a matrix times a vector, as the warps of a product share them: built from accesses, like `copy_kernels`.

A warp takes `GROUP_ROWS` rows at once, which meet the same units of the vector, pass by pass. All loads of a pass are
on their way before the first of them is used. There is one kind of pass, without branches: what lies beyond the end is
neither loaded nor counted.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from pega_tune.kernels.copy_kernels import Jit
from pega_tune.kernels.decode.geometry import (
    GROUP_ROWS,
    LANE_UNITS,
    PASS_UNITS,
    PRODUCT_WARPS,
    TILE_ROWS,
    UNIT_BYTES,
    WARP,
)
from pega_tune.kernels.ptx import Access
from pega_tune.kernels.recipe import DeviceFunction


class Operands(NamedTuple):
    """A matrix of bf16, vectors, and where the products go.

    Attributes:
        weights: address of the rows.
        row_bytes: of a row, and of a vector.
        inputs: address of the vectors: a group of rows meets one, the next group the next one.
        vectors: how many.
        outputs: address of a float32 per row.
    """

    weights: int
    row_bytes: int
    inputs: int
    vectors: int
    outputs: int


class Share(NamedTuple):
    """What one lane reads.

    Attributes:
        row: the first of its warp's first group; the next group is `PRODUCT_WARPS` groups further.
        end: where the rows of its CTA end.
        begin: the first unit that its CTA reads of every row.
        stop: where those units end.
        lane: the place in a pass of the first of its units, the others of which follow `WARP` units apart.
    """

    row: int
    end: int
    begin: int
    stop: int
    lane: int


@dataclass(frozen=True, slots=True)
class ProductParts:
    """What a product is made of.

    Attributes:
        weights: accesses of 16 bytes whose values are pairs of int64.
        inputs: likewise.
        add_products: `add_products(total, a, b) -> total`, of two int64.
        finish: `finish(outputs, row, totals)`: adds up the totals of all lanes, and writes the results of a group.
    """

    weights: Access
    inputs: Access
    add_products: DeviceFunction
    finish: DeviceFunction


def share_of(thread: int, block: tuple[int, int], grid: tuple[int, int], shape: tuple[int, int]) -> Share:
    """The share of a thread.

    Args:
        thread: its place in the CTA.
        block: place of the CTA in the grid.
        grid: CTAs that share the rows in tiles, and those that share the units of a row in passes.
        shape: rows of the matrix, and units of a row.
    """
    rows, units = shape
    tiles, passes = (rows + TILE_ROWS - 1) // TILE_ROWS, (units + PASS_UNITS - 1) // PASS_UNITS
    block_rows = (tiles + grid[0] - 1) // grid[0] * TILE_ROWS
    first = block[0] * block_rows
    begin, stop = block[1] * passes // grid[1] * PASS_UNITS, (block[1] + 1) * passes // grid[1] * PASS_UNITS
    row, end = first + (thread >> 5) * GROUP_ROWS, min(first + block_rows, rows)
    return Share(row, end, begin, min(stop, units), thread & 31)


def build_product(parts: ProductParts, jit: Jit) -> DeviceFunction:
    """The loop of one lane.

    Returns:
        `multiply_rows(operands, share, zero)`: calls `finish` for every group of its warp; totals begin at `zero`.
    """
    add_pass, finish = _add_pass(parts, jit), parts.finish

    @jit
    def multiply_rows(operands: Operands, share: Share, zero: Any) -> None:
        row = share.row
        while row < share.end:
            weights = operands.weights + row * operands.row_bytes
            vector = operands.inputs + row // GROUP_ROWS % operands.vectors * operands.row_bytes
            totals = zero, zero, zero, zero
            unit = share.begin
            while unit < share.stop:  # alike in all lanes, of which the last may find nothing left
                left, place = share.stop - unit - share.lane, (unit + share.lane) * UNIT_BYTES
                totals = add_pass(totals, weights + place, operands.row_bytes, vector + place, left)
                unit += PASS_UNITS
            finish(operands.outputs, row, totals)
            row += PRODUCT_WARPS * GROUP_ROWS

    return multiply_rows


def _add_pass(parts: ProductParts, jit: Jit) -> DeviceFunction:
    """`add_pass(totals, weights, row_bytes, vector, left)`: one pass over the rows of a group."""
    load_weights, load_vector = _load(parts.weights, jit), _load(parts.inputs, jit)
    add = _add(parts.add_products, jit)

    @jit
    def add_pass(totals: Any, weights: int, row_bytes: int, vector: int, left: int) -> Any:
        units = load_vector(vector, left)
        one = load_weights(weights, left)
        two = load_weights(weights + row_bytes, left)
        three = load_weights(weights + 2 * row_bytes, left)
        four = load_weights(weights + 3 * row_bytes, left)
        return (
            add(totals[0], one, units, left),
            add(totals[1], two, units, left),
            add(totals[2], three, units, left),
            add(totals[3], four, units, left),
        )

    return add_pass


def _load(data: Access, jit: Jit, units: int = LANE_UNITS) -> DeviceFunction:
    """`load(place, left)`: the first units of a lane in a pass, of those that begin before the end."""
    load_if, before = data.load_if, (units - 1) * WARP
    if units == 1:
        return jit(lambda place, left: (load_if(place, left > 0),))
    load_others = _load(data, jit, units - 1)

    @jit
    def load(place: int, left: int) -> Any:
        return (*load_others(place, left), load_if(place + before * UNIT_BYTES, left > before))

    return load


def _add(add_products: DeviceFunction, jit: Jit, units: int = LANE_UNITS) -> DeviceFunction:
    """`add(total, weights, vector, left)`: the products of the first units of a lane, of those that were loaded."""
    last, before = units - 1, (units - 1) * WARP

    @jit
    def add_last(total: Any, weights: Any, vector: Any, left: int) -> Any:
        one, other = weights[last], vector[last]
        made = add_products(add_products(total, one[0], other[0]), one[1], other[1])
        return made if left > before else total

    if units == 1:
        return add_last
    add_others = _add(add_products, jit, units - 1)

    @jit
    def add(total: Any, weights: Any, vector: Any, left: int) -> Any:
        return add_last(add_others(total, weights, vector, left), weights, vector, left)

    return add
