"""Profiles as arrays of numbers: what the files in all languages are printed from.

Indices count from 0, -1 stands for nothing; words are told by their place in the enumeration that they are of. A file
holds the arrays as they are here, and look-ups read them the same way in every language.
"""

from dataclasses import dataclass
from typing import TypeAlias

from pega_tune.kernels.facts import DeviceFacts

PARTS_BITS = 2
BUCKETS = 64 << PARTS_BITS
"""An octave has 4 buckets, and a number of 64 bits lies in one of 64 octaves."""

NO_EDGE = (1 << 64) - 1
"""More than any value: ends the edges of an axis."""

Ints: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ListedProfile:
    """One profile.

    Attributes:
        profile_id: its id.
        created_at: ISO 8601, UTC.
        published: it is no draft.
        device: what it was measured on.
    """

    profile_id: str
    created_at: str
    published: bool
    device: DeviceFacts


@dataclass(frozen=True, slots=True)
class Vectors:
    """Answers of `Auto` to check a file with.

    Attributes:
        questions: rows of profile, direction, objective, colocation (-1 unasked), runtime.
        terms: for each question budget, period_s and step_s; 0 for a step that is not told.
        shapes: rows of question, merged ranges, total bytes, host runs (0 unknown), pitch (0 unknown), option,
            whether it was measured there, whether the budget is met, colocation, hint.
    """

    questions: tuple[Ints, ...]
    terms: tuple[tuple[float, ...], ...]
    shapes: tuple[Ints, ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """Several profiles.

    Attributes:
        profiles: newest first; each id once.
        plans: rows of backend, variant, threads, max_grid_blocks, chunk_descriptors, chunk_bytes, stream_priority,
            completion, backpressure, sm_partition, prefer_overlap. Variant is -1 for plans without a kernel; 0
            stands for no chunks and for no partition.
        options: rows of plan to load with, plan to save with (a plan for one direction is both), fused, evidence, and
            burden: its rank by resident threads, then by backend.
        costs: for each option time, stall, extra time and completion p99 in seconds; -1 where not known.
        entries: options of the cells' lists; in a list, ties go to the one that stands first.
        cells: for each cell 4 times the start of its list in `entries`, plus one less than its length.
        edges: lower edges of all axes, `NO_EDGE` after each axis.
        centres: for each edge the value that predictions are made for.
        buckets: `BUCKETS` for each axis: the last edge that is not above the smallest value of a bucket, from the
            first edge of the axis.
        tables: the first is the rule's, whose cells are nowhere and which covers nothing. Rows of colocation, hint,
            first range edge, range edges, buckets of the ranges, first size edge, size edges, buckets of the sizes,
            first cell, and the lowest and highest measured ranges, sizes and bytes.
        noise: for each table margin and step_s; 0 for a step that is not known.
        routes: tables by hint (`Hint`'s order), -1 without one, by profile, direction, colocation (one more row for
            unasked) and runtime. For `Hint.NONE` there is always one; that of the rule if the profile has none, -1 if
            the runtime was left out of the file. One of another colocation than that of `Hint.NONE` is lent by the idle
            device, as `policy.chain.Chain` has it.
        rule: options of the rule: `direct`, then the kernel of each runtime.
        vectors: answers to check it with.
    """

    profiles: tuple[ListedProfile, ...]
    plans: tuple[Ints, ...]
    options: tuple[Ints, ...]
    costs: tuple[tuple[float, ...], ...]
    entries: Ints
    cells: Ints
    edges: Ints
    centres: Ints
    buckets: Ints
    tables: tuple[Ints, ...]
    noise: tuple[tuple[float, ...], ...]
    routes: tuple[Ints, ...]
    rule: Ints
    vectors: Vectors

    @property
    def most_cells(self) -> int:
        """Most cells that answer one question."""
        counts = [row[3] * row[6] for row in self.tables]
        return max(sum(counts[table] for table in route if table >= 0) for route in self.routes)
