"""Edges of decision tables, and the shapes that stand for their cells."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp2, log2, sqrt
from statistics import median
from typing import Final

from pega_tune.autotune.layouts import STRIDE_RANGES
from pega_tune.autotune.sweep.observations import RANGES_PER_RUN, Observations
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.table import centres
from pega_tune.profiles.policy.terms import Hint

MAX_CLIFFS: Final = 4
"""Most edges that cliffs add to an axis: the deepest ones."""

WORTH: Final = 1.5
"""A cliff counts if the plan takes at most so many times as long as the fastest one behind it."""

LEAST_FALL: Final = 1.15
"""A cliff is a fall by so much: several times what neighbouring blocks differ by without one."""

_APART: Final = 1.05  # an edge so near to another one, as a ratio, adds nothing


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of a table.

    Attributes:
        range_edges, size_edges: ascending lower edges; the first is 1.
        direction, hint: of the table.
    """

    range_edges: tuple[int, ...]
    size_edges: tuple[int, ...]
    direction: Direction
    hint: Hint

    @property
    def shapes(self) -> tuple[TransferShape, ...]:
        """The shape that stands for each cell, row by row (ranges), within a row by size."""
        sizes = centres(self.size_edges)
        return tuple(self._shape(n, size) for n in centres(self.range_edges) for size in sizes)

    @property
    def corners(self) -> tuple[TransferShape, ...]:
        """The largest shape of each cell, in the same order; in the outer cells, the one that stands for them."""
        largest = [
            [*(edge - 1 for edge in edges[1:]), centres(edges)[-1]] for edges in (self.range_edges, self.size_edges)
        ]
        return tuple(self._shape(n, size) for n in largest[0] for size in largest[1])

    def _shape(self, ranges: int, size: int) -> TransferShape:
        match self.hint:
            case Hint.NONE:
                return TransferShape(ranges, ranges * size, self.direction)
            case Hint.HOST_RUNS:
                return TransferShape(ranges, ranges * size, self.direction, max(1, ranges // RANGES_PER_RUN))
        pitch = STRIDE_RANGES * size if self.hint is Hint.STRIDED else None
        return TransferShape(ranges, ranges * size, self.direction, 1, pitch=pitch)


def grid_of(seen: Observations) -> Grid:
    """Half octaves around the powers of two, which are what sweeps measure, from the least to the most measured.

    The outer cells reach down to 1 and up without end. An edge is added at each cliff.
    """
    ranges = [s.merged_ranges for s in seen.shapes]
    sizes = [s.average_range_bytes for s in seen.shapes]
    return Grid(
        _edges(ranges, _cliffs(seen, by_size=False)),
        _edges(sizes, _cliffs(seen, by_size=True)),
        seen.direction,
        seen.hint,
    )


def _edges(measured: Sequence[int], cliffs: Iterable[int]) -> tuple[int, ...]:
    first, last = (round(2 * log2(value)) for value in (min(measured), max(measured)))
    # The outer cells stand for the outermost values, and a value that is alone for a cell between the two.
    inner = range(first, last + 2) if first == last else range(first + 1, last + 1)
    # Below 2 there are half octaves without a whole number.
    halves = (half for half in inner if round(exp2(half / 2)) >= _edge(half))
    edges = {1, *map(_edge, halves)}
    for cliff in cliffs:
        if all(max(cliff, edge) > _APART * min(cliff, edge) for edge in edges):
            edges.add(cliff)
    return tuple(sorted(edges))


def _edge(half: int) -> int:
    return ceil(exp2(half / 2 - 0.25))


def _cliffs(seen: Observations, *, by_size: bool) -> list[int]:
    """Where a plan worth choosing moves more in less time: the middle, as a ratio, of the measured values around it.

    A block may have been slower than the one next to it, for all plans alike. That is no cliff.
    """
    fastest = [min(times[s] for times in seen.times_s if s in times) for s in range(len(seen.shapes))]
    found: dict[int, float] = {}
    for one, other in _neighbours(seen, by_size):
        depths = [(t[one] / t[other], t[other]) for t in seen.times_s if one in t and other in t]
        alike = max(1.0, median(depth for depth, _ in depths)) if depths else 1.0
        worth = [depth / alike for depth, time_s in depths if time_s <= WORTH * fastest[other]]
        deepest = max(worth, default=1.0)
        if deepest > max(LEAST_FALL, (1 + seen.margin) ** 2):
            middle = ceil(sqrt(_along(seen.shapes[one], by_size) * _along(seen.shapes[other], by_size)))
            found[middle] = max(deepest, found.get(middle, 0.0))
    return sorted(found, key=lambda cliff: -found[cliff])[:MAX_CLIFFS]


def _neighbours(seen: Observations, by_size: bool) -> Iterator[tuple[int, int]]:
    """Pairs of shapes, indices, next to each other along an axis and equal in the other one."""
    lines: dict[int, list[int]] = {}
    for s, shape in enumerate(seen.shapes):
        lines.setdefault(_along(shape, not by_size), []).append(s)
    for line in lines.values():
        yield from pairwise(sorted(line, key=lambda s: _along(seen.shapes[s], by_size)))


def _along(shape: TransferShape, by_size: bool) -> int:
    return shape.average_range_bytes if by_size else shape.merged_ranges
