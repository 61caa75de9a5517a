"""Edges of decision tables and the shape that stands for each of their cells."""

from dataclasses import dataclass
from math import ceil

from pega_tune.autotune.sweep.shapes import RANGE_OCTAVES, SIZE_OCTAVES
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.table import centres


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a table, in half octaves around the powers of two, which are what sweeps measure.

    Attributes:
        edges: ascending lower edges; the first is 1.
        centres: the value that stands for each cell, as the table tells it.
    """

    edges: tuple[int, ...]
    centres: tuple[int, ...]


def axis(octaves: tuple[int, int]) -> Axis:
    """The axis from the first to the last octave. The outer cells reach down to 1 and up without end."""
    low, high = octaves
    # Below 2 there are half octaves without a whole number.
    halves = (half for half in range(2 * low + 1, 2 * high + 1) if round(2 ** (half / 2)) >= _lower_edge(half))
    edges = (1, *map(_lower_edge, halves))
    return Axis(edges, centres(edges))


def _lower_edge(half: int) -> int:
    return ceil(2 ** (half / 2 - 0.25))


RANGES = axis(RANGE_OCTAVES)
SIZES = axis(SIZE_OCTAVES)


def cell_shapes(direction: Direction) -> tuple[TransferShape, ...]:
    """The shape that stands for each cell, row by row (ranges), within a row by size."""
    return tuple(TransferShape(n, n * size, direction) for n in RANGES.centres for size in SIZES.centres)
