"""Decides for many shapes at once, with numpy, which is loaded only when this is asked for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from math import ceil
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pega_tune.kernels.shape import MAX_BYTES
from pega_tune.profiles.policy.decision import Decision
from pega_tune.profiles.policy.grid import Cells, Frame
from pega_tune.profiles.policy.lookup import Grids
from pega_tune.profiles.policy.many_shapes import Array, Shapes
from pega_tune.profiles.policy.terms import Evidence

Places: TypeAlias = npt.NDArray[np.intp]
Mask: TypeAlias = npt.NDArray[np.bool_]

_MANTISSA_BITS = 52  # of a double, IEEE 754
_BIAS = 1023
_EXACT = 2.0**53
_OCTAVES = MAX_BYTES.bit_length()
_BLOCK = 8192  # shapes at a time: what is worked out on the way stays in the nearest cache
_PARTS_BITS = 2  # an octave has so many buckets, as a power of two: half octaves, most edges, have one each


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """Answers for many shapes.

    Attributes:
        distinct: the decisions, each once.
        index: for each shape, which of them; read-only.
    """

    distinct: tuple[Decision, ...]
    index: Places

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, shape: int) -> Decision:
        return self.distinct[int(self.index[shape])]

    def __iter__(self) -> Iterator[Decision]:
        return map(self.distinct.__getitem__, self.index.tolist())


def decide_shapes(shapes: Shapes, answers: Grids) -> Decisions:
    """The answers for shapes; each is what it is for the shape alone."""
    decided = _Decided(len(shapes.ranges))
    if shapes.known is None:
        decided.add(answers[0].chain.plain, shapes.ranges, shapes.sizes, slice(None))
        return decided.decisions()
    for known in np.flatnonzero(np.bincount(shapes.known)).tolist():
        left = np.flatnonzero(shapes.known == known)
        chain = answers[known].chain
        left = decided.add_covered(chain.hinted, shapes, left)
        decided.add(chain.plain, shapes.ranges[left], shapes.sizes[left], left)
        if chain.lent:
            decided.add_covered(chain.lent, shapes, left[decided.is_unknown(left)])
    return decided.decisions()


class _Decided:
    """Decisions gathered so far, each once."""

    def __init__(self, count: int) -> None:
        self._index = np.empty(count, np.intp)
        self._places: dict[int, int] = {}  # by id: a source gives each of its decisions once
        self._distinct: list[Decision] = []

    def add(self, cells: Cells, ranges: Array, sizes: Array, where: Places | slice) -> None:
        """Takes what a source answers for shapes, whose places in the whole are given."""
        frame = cells.frame
        codes = np.empty(len(ranges), np.intp)
        for start in range(0, len(ranges), _BLOCK):
            block = slice(start, start + _BLOCK)
            codes[block] = _codes(frame, ranges[block], sizes[block])
        places = np.zeros(2 * len(frame.range_edges) * len(frame.size_edges), np.intp)
        places[codes] = 1
        for code in np.flatnonzero(places).tolist():
            places[code] = self._place(cells.of(code // 2, bool(code % 2)))
        self._index[where] = places[codes]

    def add_covered(self, chain: Iterable[Cells], shapes: Shapes, left: Places) -> Places:
        """Takes what the first source that covers a shape answers; gives the places of those that none covers."""
        for cells in chain:
            ranges, sizes = shapes.ranges[left], shapes.sizes[left]
            covered = _covered(cells.frame, ranges, sizes)
            self.add(cells, ranges[covered], sizes[covered], left[covered])
            left = left[~covered]
        return left

    def is_unknown(self, where: Places) -> Mask:
        """Whether the cost to decode of what was taken for shapes is not known."""
        unknown = np.array([decision.evidence is Evidence.NONE for decision in self._distinct], np.bool_)
        found: Mask = unknown[self._index[where]]
        return found

    def _place(self, decision: Decision) -> int:
        place = self._places.setdefault(id(decision), len(self._distinct))
        if place == len(self._distinct):
            self._distinct.append(decision)
        return place

    def decisions(self) -> Decisions:
        """All of them; those that another one took the place of everywhere are left out."""
        used = np.bincount(self._index, minlength=len(self._distinct)) > 0
        if not used.all():
            self._index = (np.cumsum(used) - 1)[self._index]
        self._index.flags.writeable = False
        return Decisions(tuple(compress(self._distinct, used)), self._index)


def _codes(frame: Frame, ranges: Array, sizes: Array) -> Places:
    """Twice the cell of each shape, and one more where it is covered."""
    cells = axis(frame.range_edges).find(ranges) * len(frame.size_edges) + axis(frame.size_edges).find(sizes)
    return 2 * cells + _covered(frame, ranges, sizes)


def _covered(frame: Frame, ranges: Array, sizes: Array) -> Mask:
    """As `Frame.covers`, for each shape."""
    pairs = ((ranges, frame.ranges), (sizes, frame.sizes), (ranges * sizes, frame.nbytes))
    (a, b, c) = ((low <= values) & (values <= high) for values, (low, high) in pairs)
    return a & b & c


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Ascending edges, made ready to find many values among them.

    The leading bits of a value, as those of the double next to it, say nearly where it lies; what is left is a
    comparison with the next edge, or with so many as share those bits. On random values that is several times as
    fast as a bisection, which guesses wrong at every second step.

    Attributes:
        first: by bucket of leading bits, the place of the smallest value in it.
        next_edges: by place, the edge above; the last has none, and more than any value.
        steps: most edges in one bucket.
    """

    first: Places
    next_edges: Array
    steps: int

    def find(self, values: Array) -> Places:
        """The index of the last edge that is not above, for each value from the first edge on."""
        leading = values.astype(np.float64).view(np.int64) >> (_MANTISSA_BITS - _PARTS_BITS)
        places: Places = self.first[leading - (_BIAS << _PARTS_BITS)]
        for _ in range(self.steps):
            places += self.next_edges[places] <= values
        return places


@lru_cache(maxsize=64)
def axis(edges: tuple[int, ...]) -> Axis:
    """Ascending edges from 1 to `MAX_BYTES`, made ready."""
    parts = 1 << _PARTS_BITS
    lows = [2.0**octave * (1 + part / parts) for octave in range(_OCTAVES) for part in range(parts)]
    smallest = [_smallest(low) for low in lows]
    above = [ceil(low) for low in (*lows[1:], lows[-1])]  # no value is in the last bucket
    known = np.array(edges)
    first = np.searchsorted(known, smallest, side="right") - 1
    last = np.searchsorted(known, above, side="left") - 1
    next_edges = np.array([*edges[1:], np.iinfo(np.int64).max])
    return Axis(first, next_edges, int(np.max(last - first)))


def _smallest(low: float) -> int:
    """The smallest whole number whose double is not below a bucket's lower end: large ones are rounded, also up."""
    return ceil(low) if low <= _EXACT else int(low) - (int(low) >> _MANTISSA_BITS)
