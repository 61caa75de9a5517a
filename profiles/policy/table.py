"""Decision tables: the compiled form of a profile, and the only part of it that a serving process reads."""

from bisect import bisect_right
from dataclasses import dataclass

from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.terms import Colocation, Runtime

MAX_OPTIONS = 4


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a plan is expected to cost at the centre of its table cell.

    Attributes:
        time_s: transfer time in seconds, from the submit call to completion seen, preparation included.
        stall_s: what one burst costs decode at its worst step, in seconds; None without serving evidence.
        extra_s: extra time of all decode steps that one burst touches, in seconds; None likewise.
        completion_p99_s: 99th percentile of the transfer time beside decode, in seconds; None likewise.
    """

    time_s: float
    stall_s: float | None = None
    extra_s: float | None = None
    completion_p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """A plan worth choosing at some objective, with what it is expected to cost."""

    plan: AnyPlan
    predicted: Predicted


@dataclass(frozen=True, slots=True)
class Table:
    """Options by merged ranges and average range size, for one direction, colocation and runtime.

    Attributes:
        direction, colocation, runtime: what the table is for.
        range_edges: ascending lower edges of the rows, in merged ranges; the first is 1.
        size_edges: ascending lower edges of the columns, in bytes; the first is 1.
        cells: `len(range_edges) * len(size_edges)` entries, row by row; each holds 1 to 4 Pareto options,
            fastest first.
        measured_ranges, measured_sizes: lowest and highest measured; outside them an answer is extrapolated.
        margin: relative difference of transfer times within which two plans are equivalent: measured noise.
    """

    direction: Direction
    colocation: Colocation
    runtime: Runtime
    range_edges: tuple[int, ...]
    size_edges: tuple[int, ...]
    cells: tuple[tuple[Option, ...], ...]
    measured_ranges: tuple[int, int]
    measured_sizes: tuple[int, int]
    margin: float

    def look_up(self, merged_ranges: int, average_range_bytes: int) -> tuple[Option, ...]:
        """The options for a shape; both arguments are at least 1."""
        row = bisect_right(self.range_edges, merged_ranges) - 1
        column = bisect_right(self.size_edges, average_range_bytes) - 1
        return self.cells[row * len(self.size_edges) + column]

    def covers(self, merged_ranges: int, average_range_bytes: int) -> bool:
        """Whether the shape lies inside what was measured."""
        low, high = self.measured_ranges
        small, large = self.measured_sizes
        return low <= merged_ranges <= high and small <= average_range_bytes <= large


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """All tables of one profile."""

    tables: tuple[Table, ...]

    def find(self, direction: Direction, colocation: Colocation, runtime: Runtime) -> Table | None:
        """The table for the three keys, or None."""
        wanted = (direction, colocation, runtime)
        return next((t for t in self.tables if (t.direction, t.colocation, t.runtime) == wanted), None)
