"""Decision tables: the compiled form of a profile, and the only part of it that a serving process reads."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log2, sqrt

from pega_tune.kernels.plan import AnyPlan, PlanPair
from pega_tune.kernels.shape import MAX_BYTES, Direction
from pega_tune.profiles.policy.errors import PolicyFormatError
from pega_tune.profiles.policy.terms import Colocation, Hint, Runtime

MAX_OPTIONS = 4
_QUARTER_OCTAVE = 2**0.25


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a plan is expected to cost at the centre of its table cell.

    Attributes:
        time_s: transfer time in seconds, from the submit call to completion seen, preparation included.
        stall_s: what one burst costs decode at its worst step, in seconds, not negative; None without serving evidence.
        extra_s: extra time of all decode steps that one burst touches, in seconds, not negative; None likewise.
        completion_p99_s: 99th percentile of the transfer time beside decode, in seconds; None likewise.
    """

    time_s: float
    stall_s: float | None = None
    extra_s: float | None = None
    completion_p99_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.time_s < inf:
            raise PolicyFormatError(f"time_s is positive and finite, not {self.time_s}")
        if self.completion_p99_s is not None and not 0 < self.completion_p99_s < inf:
            raise PolicyFormatError(f"completion_p99_s is positive and finite, not {self.completion_p99_s}")
        for name, value in (("stall_s", self.stall_s), ("extra_s", self.extra_s)):
            if value is not None and not 0 <= value < inf:
                raise PolicyFormatError(f"{name} is not negative and finite, not {value}")

    @property
    def latency_s(self) -> float:
        """Completion latency in seconds: the p99 beside decode, or the transfer time where there is none."""
        return self.time_s if self.completion_p99_s is None else self.completion_p99_s


@dataclass(frozen=True, slots=True)
class Option:
    """A plan worth choosing at some objective, with what it is expected to cost.

    Attributes:
        plan: what to do.
        predicted: what it is expected to cost.
        fitted: its stall, extra time and completion latency come from a curve, not from a measurement at its cell.
    """

    plan: AnyPlan
    predicted: Predicted
    fitted: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """The values that share a row or a column: from `low` to `high`, both included; None is without end."""

    low: int
    high: int | None

    @classmethod
    def around(cls, edges: tuple[int, ...], value: int) -> "Bounds":
        """The interval between two edges in which `value` lies."""
        index = bisect_right(edges, value)
        return cls(edges[index - 1], edges[index] - 1 if index < len(edges) else None)

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low} and more"
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


def centres(edges: tuple[int, ...]) -> tuple[int, ...]:
    """The value that stands for each interval between ascending lower edges: what a prediction is made for.

    It is the half octave nearest to the geometric centre, or that centre, rounded down, where the interval holds no
    half octave. The outer intervals, which reach down to 1 and up without end, count as half an octave wide.
    """
    return tuple(_centre(edges, index) for index in range(len(edges)))


def _centre(edges: tuple[int, ...], index: int) -> int:
    low, end = edges[index], edges[index + 1] if index + 1 < len(edges) else None
    if end is None:
        ideal = low * _QUARTER_OCTAVE
    elif index == 0:
        ideal = max(low, end / _QUARTER_OCTAVE)
    else:
        ideal = sqrt(low * end)
    half_octave = round(2 ** (round(2 * log2(ideal)) / 2))
    return half_octave if low <= half_octave and (end is None or half_octave < end) else int(ideal)


@dataclass(frozen=True, slots=True)
class Table:
    """Options by merged ranges and average range size, for one direction, colocation, runtime and hint.

    Attributes:
        direction, colocation, runtime: what the table is for.
        range_edges: ascending lower edges of the rows, in merged ranges; the first is 1.
        size_edges: ascending lower edges of the columns, in bytes; the first is 1.
        cells: `len(range_edges) * len(size_edges)` entries, row by row; each holds 1 to 4 Pareto options,
            fastest first. The plans are pairs if and only if the direction is `both`.
        measured_ranges, measured_sizes: lowest and highest measured, in merged ranges and in average bytes of one.
        measured_bytes: lowest and highest measured product of the two: bytes per direction. Outside any of the three
            nothing is known about times.
        margin: relative difference of transfer times within which two plans are equivalent: measured noise.
        step_s: median undisturbed decode step of the serving measurements, in seconds, of which the budget of
            `Objective.TAIL_BOUNDED` is a fraction; None without serving evidence.
        hint: what has to be known of the ranges for the table to answer. Only the runtime `full` can use more than
            their number and size.
        sources: keys of the measured blocks that the cells rest on, each once; empty if they are not told.
        evidence: for each cell, the index of its block in `sources`; empty if that is.
    """

    direction: Direction
    colocation: Colocation
    runtime: Runtime
    range_edges: tuple[int, ...]
    size_edges: tuple[int, ...]
    cells: tuple[tuple[Option, ...], ...]
    measured_ranges: tuple[int, int]
    measured_sizes: tuple[int, int]
    measured_bytes: tuple[int, int]
    margin: float
    step_s: float | None = None
    hint: Hint = Hint.NONE
    sources: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, edges in (("range_edges", self.range_edges), ("size_edges", self.size_edges)):
            if not edges or edges[0] != 1 or edges[-1] > MAX_BYTES or any(a >= b for a, b in pairwise(edges)):
                raise self._error(f"{name} do not ascend from 1")
        for name in ("measured_ranges", "measured_sizes", "measured_bytes"):
            low, high = getattr(self, name)
            if not 1 <= low <= high <= MAX_BYTES:
                raise self._error(f"{name} {low} to {high} is no interval")
        if not 0 <= self.margin < inf:
            raise self._error(f"margin is not negative and finite, not {self.margin}")
        if self.step_s is not None and not 0 < self.step_s < inf:
            raise self._error(f"step_s is positive and finite, not {self.step_s}")
        if self.hint is not Hint.NONE and self.runtime is not Runtime.FULL:
            raise self._error(f"the hint {self.hint} is for the runtime {Runtime.FULL} alone")
        self._check_cells()
        self._check_evidence()

    def _check_cells(self) -> None:
        wanted = len(self.range_edges) * len(self.size_edges)
        if len(self.cells) != wanted:
            raise self._error(f"{len(self.cells)} cells where the edges make {wanted}")
        pairs = self.direction is Direction.BOTH
        for index, options in enumerate(self.cells):
            if not 1 <= len(options) <= MAX_OPTIONS:
                raise self._error(f"cell {index} has {len(options)} options, not 1 to {MAX_OPTIONS}")
            if any(isinstance(option.plan, PlanPair) != pairs for option in options):
                raise self._error(f"cell {index} has a plan for another direction")

    def _check_evidence(self) -> None:
        if len(set(self.sources)) != len(self.sources) or not all(self.sources):
            raise self._error("a source is empty or named twice")
        if len(self.evidence) != (len(self.cells) if self.sources else 0):
            raise self._error(f"{len(self.evidence)} pieces of evidence for {len(self.cells)} cells")
        if self.evidence and not 0 <= min(self.evidence) <= max(self.evidence) < len(self.sources):
            raise self._error("evidence is no index of a source")

    def _error(self, what: str) -> PolicyFormatError:
        hint = "" if self.hint is Hint.NONE else f"/{self.hint}"
        return PolicyFormatError(f"table {self.direction}/{self.colocation}/{self.runtime}{hint}: {what}")

    def look_up(self, merged_ranges: int, average_range_bytes: int) -> tuple[Option, ...]:
        """The options for a shape; both arguments are at least 1."""
        return self.cells[self.index(merged_ranges, average_range_bytes)]

    def index(self, merged_ranges: int, average_range_bytes: int) -> int:
        """Where the options for a shape stand in `cells`; both arguments are at least 1."""
        row = bisect_right(self.range_edges, merged_ranges) - 1
        column = bisect_right(self.size_edges, average_range_bytes) - 1
        return row * len(self.size_edges) + column

    def bounds(self, merged_ranges: int, average_range_bytes: int) -> tuple[Bounds, Bounds]:
        """The ranges and the sizes that share the cell of a shape."""
        return Bounds.around(self.range_edges, merged_ranges), Bounds.around(self.size_edges, average_range_bytes)

    def centre(self, merged_ranges: int, average_range_bytes: int) -> tuple[int, int]:
        """The merged ranges and the average range size that the predictions in the cell of a shape are made for."""
        row = bisect_right(self.range_edges, merged_ranges) - 1
        column = bisect_right(self.size_edges, average_range_bytes) - 1
        return _centre(self.range_edges, row), _centre(self.size_edges, column)

    def corner(self, index: int) -> tuple[int, int]:
        """The merged ranges and the average range size of the smallest shape of a cell."""
        row, column = divmod(index, len(self.size_edges))
        return self.range_edges[row], self.size_edges[column]

    def covers(self, merged_ranges: int, average_range_bytes: int) -> bool:
        """Whether the shape lies inside what was measured: its ranges, their size, and both together."""
        pairs = (
            (merged_ranges, self.measured_ranges),
            (average_range_bytes, self.measured_sizes),
            (merged_ranges * average_range_bytes, self.measured_bytes),
        )
        return all(low <= value <= high for value, (low, high) in pairs)


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """All tables of one profile, at most one for each direction, colocation, runtime and hint."""

    tables: tuple[Table, ...]

    def __post_init__(self) -> None:
        keys = {(t.direction, t.colocation, t.runtime, t.hint) for t in self.tables}
        if len(keys) != len(self.tables):
            raise PolicyFormatError("two tables for the same direction, colocation, runtime and hint")

    def find(
        self, direction: Direction, colocation: Colocation, runtime: Runtime, hint: Hint = Hint.NONE
    ) -> Table | None:
        """The table for the four keys, or None."""
        wanted = (direction, colocation, runtime, hint)
        return next((t for t in self.tables if (t.direction, t.colocation, t.runtime, t.hint) == wanted), None)
