"""The transfers that a setting is chosen for."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from pega_tune.autotune.compiling.laws import Array
from pega_tune.autotune.kv.traffic import CountedShape
from pega_tune.kernels.shape import Direction, TransferShape

MAX_SHAPES: Final = 512
"""Most shapes that are worked with; the time to choose grows with their number."""


@dataclass(frozen=True)
class Mix:
    """C shapes and how often each occurs.

    Attributes:
        counted: the shapes.
        left_out: fraction of the bytes that belong to shapes that were left out, as they are too many.
    """

    counted: tuple[CountedShape, ...]
    left_out: float = 0.0

    @classmethod
    def of(cls, traffic: Iterable[CountedShape]) -> "Mix":
        """Those shapes that move most, the first one first."""
        ordered = sorted(traffic, key=_moved_bytes, reverse=True)
        total = sum(map(_moved_bytes, ordered))
        kept = tuple(ordered[:MAX_SHAPES])
        return cls(kept, 1 - sum(map(_moved_bytes, kept)) / total)

    @cached_property
    def shapes(self) -> tuple[TransferShape, ...]:
        """The shapes, (C,)."""
        return tuple(each.shape for each in self.counted)

    @cached_property
    def counts(self) -> Array:
        """Transfers of each shape, (C,)."""
        return np.array([each.count for each in self.counted], dtype=np.float64)

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """The directions that occur, in the order of `Direction`."""
        found = {shape.direction for shape in self.shapes}
        return tuple(direction for direction in Direction if direction in found)

    @property
    def loads(self) -> bool:
        """Whether anything moves to the device."""
        return any(Direction.H2D in direction.legs for direction in self.directions)


def _moved_bytes(each: CountedShape) -> int:
    return each.count * each.shape.moved_bytes
