"""Answers by cell, each made when it is first asked for, so that a look-up is two bisections and two indices.

There is no lock. Two threads that ask the same for the first time may both make the answer; the two are equal, and
one of them is kept, or neither, until somebody asks again.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pega_tune.kernels.shape import MAX_BYTES
from pega_tune.profiles.policy.chain import Chain
from pega_tune.profiles.policy.decision import Decision
from pega_tune.profiles.policy.terms import Evidence

FAST_BYTES = MAX_BYTES // 2
"""Most product of ranges and average size of a kept answer: the bytes themselves, less than twice that, are allowed."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Where the shapes of a source lie, whatever is asked about them.

    Attributes:
        range_edges, size_edges: ascending lower edges of the cells, from 1, in merged ranges and in bytes.
        ranges, sizes, nbytes: lowest and highest that answers hold for, as `Table` has them.
    """

    range_edges: tuple[int, ...]
    size_edges: tuple[int, ...]
    ranges: tuple[int, int] = (1, MAX_BYTES)
    sizes: tuple[int, int] = (1, MAX_BYTES)
    nbytes: tuple[int, int] = (1, MAX_BYTES)

    def cell(self, merged_ranges: int, average_range_bytes: int) -> int:
        """The cell of a shape, counted row by row."""
        row = bisect_right(self.range_edges, merged_ranges) - 1
        return row * len(self.size_edges) + bisect_right(self.size_edges, average_range_bytes) - 1

    def covers(self, merged_ranges: int, average_range_bytes: int) -> bool:
        """Whether answers hold for the shape."""
        pairs = (
            (merged_ranges, self.ranges),
            (average_range_bytes, self.sizes),
            (merged_ranges * average_range_bytes, self.nbytes),
        )
        return all(low <= value <= high for value, (low, high) in pairs)


Row: TypeAlias = list[Decision | None]


class Source(Protocol):
    """What makes decisions: a table or the rule, and a question."""

    @property
    def frame(self) -> Frame:
        """Its cells."""
        ...

    def decision(self, cell: int, covered: bool) -> Decision:
        """The answer for the shapes of a cell: those that answers hold for, or the others."""
        ...


class Cells:
    """Answers of one source, each made once.

    Attributes:
        frame: where they lie.
    """

    __slots__ = ("_made", "_source", "frame")

    def __init__(self, source: Source) -> None:
        self.frame = source.frame
        self._source = source
        self._made: dict[tuple[int, bool], Decision] = {}

    def of(self, cell: int, covered: bool) -> Decision:
        """The answer of a cell, for shapes that answers hold for or for the others."""
        made = self._made.get((cell, covered))
        return made or self._made.setdefault((cell, covered), self._source.decision(cell, covered))

    def at(self, merged_ranges: int, average_range_bytes: int) -> Decision:
        """The answer for a shape."""
        frame = self.frame
        covered = frame.covers(merged_ranges, average_range_bytes)
        return self.of(frame.cell(merged_ranges, average_range_bytes), covered)


@dataclass(frozen=True, slots=True)
class Axes:
    """What tells apart the shapes that have different answers, in several frames at once: ascending lower edges.

    Attributes:
        rows: of merged ranges.
        columns: of average range sizes, in bytes.
        products: of the two multiplied, in bytes.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    products: tuple[int, ...]

    @classmethod
    def of(cls, frames: Sequence[Frame]) -> "Axes":
        """Those of the frames: their edges, and where what they hold for begins and ends."""
        return cls(
            tuple(sorted({edge for f in frames for edge in (*f.range_edges, f.ranges[0], f.ranges[1] + 1)})),
            tuple(sorted({edge for f in frames for edge in (*f.size_edges, f.sizes[0], f.sizes[1] + 1)})),
            tuple(sorted({FAST_BYTES + 1, *(edge for f in frames for edge in (f.nbytes[0], f.nbytes[1] + 1))})),
        )


class Grid:
    """Answers of several sources, by the rule of `Chain`.

    Attributes:
        chain: the sources.
        rows, columns, products: of the axes.
        whole: answers by row and column, each the place of the last edge that is not above, and one more; None where
            none was made yet, and where an edge of the products lies between.
        kept: all answers, by product first; None where none was made yet. What is no shape lies before the first row or
            column, or after `FAST_BYTES`, and stays None in both.
    """

    __slots__ = ("chain", "columns", "kept", "products", "rows", "whole")

    def __init__(self, chain: Chain[Cells], axes: Axes) -> None:
        self.chain = chain
        self.rows, self.columns, self.products = axes.rows, axes.columns, axes.products
        blank: Row = [None] * (len(axes.columns) + 1)  # shared by all rows: one with an answer is a copy
        self.whole = [blank] * (len(axes.rows) + 1)
        self.kept = [[blank] * (len(axes.rows) + 1) for _ in range(len(axes.products) + 1)]

    def answer(self, merged_ranges: int, average_range_bytes: int) -> Decision:
        """The answer for a shape; it is kept for all that lie with it."""
        decision = self._found(merged_ranges, average_range_bytes)
        product = merged_ranges * average_range_bytes
        if product <= FAST_BYTES:
            row, column = bisect_right(self.rows, merged_ranges), bisect_right(self.columns, average_range_bytes)
            _keep(self.kept[bisect_right(self.products, product)], row, column, decision)
            if self._is_whole(row, column):
                _keep(self.whole, row, column, decision)
        return decision

    def _is_whole(self, row: int, column: int) -> bool:
        """Whether all shapes that share a row and a column have the same answer."""
        if row == len(self.rows) or column == len(self.columns):
            return False
        lowest = self.rows[row - 1] * self.columns[column - 1]
        highest = (self.rows[row] - 1) * (self.columns[column] - 1)
        same = bisect_right(self.products, lowest) == bisect_right(self.products, highest)
        return same and highest <= FAST_BYTES

    def _found(self, *shape: int) -> Decision:
        chain = self.chain
        for cells in chain.hinted:
            if cells.frame.covers(*shape):
                return cells.at(*shape)
        decision = chain.plain.at(*shape)
        if decision.evidence is Evidence.NONE:
            lent = (cells.at(*shape) for cells in chain.lent if cells.frame.covers(*shape))
            return next(lent, decision)
        return decision


def _keep(rows: list[Row], row: int, column: int, decision: Decision) -> None:
    changed = rows[row].copy()
    changed[column] = decision
    rows[row] = changed
