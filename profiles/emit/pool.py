"""Gathers what profiles hold, everything once."""

from enum import StrEnum
from functools import cache

from pega_tune.kernels.plan import AnyPlan, Backend, Completion, CopyPlan, PlanPair, Variant
from pega_tune.profiles.emit.errors import EmitError
from pega_tune.profiles.emit.listing import (
    BUCKETS,
    NO_EDGE,
    PARTS_BITS,
    Ints,
)
from pega_tune.profiles.policy.choose import burden, evidence_of
from pega_tune.profiles.policy.table import MAX_OPTIONS, Option, Table, centres
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint

_MOST = 2**31 - 1
_MOST_BYTES = 2**63 - 1
_UNKNOWN = -1.0


@cache
def place(word: StrEnum, words: type[StrEnum]) -> int:
    """Where a word stands in its enumeration."""
    return list(words).index(word)


class Pool:
    """What was gathered so far, in the order of its first use."""

    def __init__(self) -> None:
        self.plans: dict[Ints, int] = {}
        self.options: dict[tuple[Ints, Ints, tuple[float, ...]], int] = {}
        self._weighed: dict[AnyPlan, tuple[Ints, Ints, str]] = {}
        # By identity first: tens of thousands of cells share lists, and comparing those takes long.
        self._seen: dict[int, tuple[tuple[Option, ...], int]] = {}
        self.lists: dict[Ints, int] = {}
        self.entries: list[int] = []
        self.cells: list[int] = []
        self.axes: dict[Ints, int] = {}
        self.edges: list[int] = []
        self.centres: list[int] = []
        self.buckets: list[int] = []

    def add_option(self, option: Option) -> int:
        """Its index."""
        predicted = option.predicted
        costs = predicted.time_s, predicted.stall_s, predicted.extra_s, predicted.completion_p99_s
        return self._add_option(option.plan, place(evidence_of(option), Evidence), costs)

    def add_rule(self, plan: AnyPlan) -> int:
        """The index of an option of which nothing is known."""
        return self._add_option(plan, place(Evidence.NONE, Evidence), (None,) * 4)

    def add_table(self, table: Table) -> Ints:
        """Its row, as `Listing.tables` has it."""
        rows, columns = self.add_axis(table.range_edges), self.add_axis(table.size_edges)
        first = len(self.cells)
        self.cells += [self._add_list(options) for options in table.cells]
        measured = (*table.measured_ranges, *table.measured_sizes, *table.measured_bytes)
        return place(table.colocation, Colocation), place(table.hint, Hint), *rows, *columns, first, *measured

    def option_rows(self) -> tuple[Ints, ...]:
        """As `Listing.options`."""
        ranks = {weight: rank for rank, weight in enumerate(sorted({weight for _, weight, _ in self.options}))}
        return tuple((*row, ranks[weight]) for row, weight, _ in self.options)

    def _add_option(self, plan: AnyPlan, evidence: int, costs: tuple[float | None, ...]) -> int:
        row, weight, _ = self._weigh(plan)
        known = tuple(_UNKNOWN if cost is None else float(cost) for cost in costs)
        return self.options.setdefault(((*row, evidence), weight, known), len(self.options))

    def _weigh(self, plan: AnyPlan) -> tuple[Ints, Ints, str]:
        """Load, save and fused; the burden; the key."""
        if plan not in self._weighed:
            pair = plan if isinstance(plan, PlanPair) else PlanPair(plan, plan)
            row = self._add_plan(pair.load), self._add_plan(pair.save), int(pair.fused)
            self._weighed[plan] = row, burden(plan), plan.key
        return self._weighed[plan]

    def _add_plan(self, plan: CopyPlan) -> int:
        return self.plans.setdefault(_plan_row(plan), len(self.plans))

    def _add_list(self, options: tuple[Option, ...]) -> int:
        if id(options) not in self._seen:
            ranked = sorted(options, key=lambda option: self._weigh(option.plan)[1:])
            entry = tuple(map(self.add_option, ranked))
            start = self.lists.setdefault(entry, len(self.entries))
            if start == len(self.entries):
                self.entries += entry
            self._seen[id(options)] = options, MAX_OPTIONS * start + len(entry) - 1
        return self._seen[id(options)][1]

    def add_axis(self, edges: Ints) -> Ints:
        """Where it begins in `edges`, how many there are, and where its buckets begin."""
        start = self.axes.setdefault(edges, len(self.edges))
        if start == len(self.edges):
            self.edges += (*edges, NO_EDGE)
            self.centres += (*centres(edges), NO_EDGE)
            self.buckets += _buckets(edges)
        return start, len(edges), BUCKETS * list(self.axes).index(edges)


def _plan_row(plan: CopyPlan) -> Ints:
    options = plan.options
    descriptors = (options.chunk_descriptors if options else None) or 0
    chunk_bytes, sms = plan.chunk_bytes or 0, plan.sm_partition or 0
    for value, most in ((descriptors, _MOST_BYTES), (chunk_bytes, _MOST_BYTES), (sms, _MOST)):
        if value > most:
            raise EmitError(f"the plan {plan.key[:200]} has a number larger than {most}")
    if abs(plan.stream_priority) > _MOST:
        raise EmitError(f"the plan {plan.key[:200]} has a priority out of its range")
    return (
        place(plan.backend, Backend),
        -1 if plan.variant is None else place(plan.variant, Variant),
        plan.threads or 0,
        options.max_grid_blocks if options else 0,
        descriptors,
        chunk_bytes,
        plan.stream_priority,
        place(plan.completion, Completion),
        int(plan.backpressure),
        sms,
        int(plan.prefer_overlap),
    )


def _buckets(edges: Ints) -> list[int]:
    """The place of the last edge that is not above the smallest value of each bucket."""
    places, at = [], 0
    for bucket in range(BUCKETS):
        octave, part = divmod(bucket, 1 << PARTS_BITS)
        smallest = -(-(((1 << PARTS_BITS) + part) << octave) >> PARTS_BITS)  # rounded up
        while at + 1 < len(edges) and edges[at + 1] <= smallest:
            at += 1
        places.append(at)
    return places
