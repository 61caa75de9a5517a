"""The dot product of one thread: a part of a row of weights with the same part of a vector.

Built, like the loops of `copy_kernels`, from accesses and a `jit`, so that it also runs as plain Python.
"""

from dataclasses import dataclass
from typing import Any

from pega_tune.kernels.copy_kernels import Jit
from pega_tune.kernels.ptx import Access
from pega_tune.kernels.recipe import DeviceFunction

_UNIT_BYTES = 16


@dataclass(frozen=True, slots=True)
class DotParts:
    """What a dot product is made of.

    Attributes:
        weights: accesses of 16 bytes whose values are pairs of int64.
        inputs: likewise.
        add_products: `add_products(total, a, b) -> total`, of two int64.
        loads: units of weights, and as many of inputs, that a thread has in flight; a power of two.
    """

    weights: Access
    inputs: Access
    add_products: DeviceFunction
    loads: int


def build_dot(parts: DotParts, jit: Jit) -> DeviceFunction:
    """The loop of one thread over the units of a row that fall to it.

    Returns:
        `dot(total, row, vector, count, share) -> total`: adds the products of the units `rank`, `rank + threads`, ...
        of `count`, where `share` is (rank, threads). The last pass is free of branches, as those before.
    """
    loads = parts.loads
    weights, inputs = _loads(parts.weights, loads, jit), _loads(parts.inputs, loads, jit)
    some_weights, some_inputs = _loads_if(parts.weights, loads, jit), _loads_if(parts.inputs, loads, jit)
    fold = _fold(parts.add_products, loads, jit)

    @jit
    def dot(total: Any, row: int, vector: int, count: int, share: tuple[int, int]) -> Any:
        rank, threads = share
        step = threads * _UNIT_BYTES
        place = rank * _UNIT_BYTES
        while count >= loads * threads:
            total = fold(total, weights(row + place, step), inputs(vector + place, step))
            place += loads * step
            count -= loads * threads
        if count > 0:
            left = (count - rank) * _UNIT_BYTES
            total = fold(total, some_weights(row + place, step, left), some_inputs(vector + place, step, left))
        return total

    return dot


def _loads(data: Access, count: int, jit: Jit) -> DeviceFunction:
    """`load(place, step)`: so many units, `step` bytes apart, as a tree of pairs: written out for the compiler."""
    if count == 1:
        load_one = data.load

        @jit
        def load(place: int, _step: int) -> Any:
            return load_one(place)

        return load
    distance = count // 2
    half = _loads(data, distance, jit)

    @jit
    def load_both(place: int, step: int) -> Any:
        return half(place, step), half(place + distance * step, step)

    return load_both


def _loads_if(data: Access, count: int, jit: Jit) -> DeviceFunction:
    """`load(place, step, left)`: as `_loads`, with zeros for units that begin `left` bytes from the first, or later."""
    if count == 1:
        load_if = data.load_if

        @jit
        def load(place: int, _step: int, left: int) -> Any:
            low, high = load_if(place, left > 0)
            return (low if left > 0 else 0), (high if left > 0 else 0)

        return load
    distance = count // 2
    half = _loads_if(data, distance, jit)

    @jit
    def load_both(place: int, step: int, left: int) -> Any:
        return half(place, step, left), half(place + distance * step, step, left - distance * step)

    return load_both


def _fold(add_products: DeviceFunction, count: int, jit: Jit) -> DeviceFunction:
    """`fold(total, weights, inputs)`: adds the products of two trees of so many units."""
    if count == 1:

        @jit
        def fold(total: Any, weights: Any, inputs: Any) -> Any:
            return add_products(add_products(total, weights[0], inputs[0]), weights[1], inputs[1])

        return fold
    half = _fold(add_products, count // 2, jit)

    @jit
    def fold_both(total: Any, weights: Any, inputs: Any) -> Any:
        return half(half(total, weights[0], inputs[0]), weights[1], inputs[1])

    return fold_both
