"""Copy plans by the shape of a transfer, as pega-tune measured them. Needs Python 3.10 and its standard library.

    profile = profile_for(Facts.from_json(facts))  # None: there is none of this device
    policy = profile.policy("h2d", objective="balanced", period_s=0.05)
    decision = policy.decide(merged_ranges, total_bytes)

`facts` are those of a device as `pega-tune devices --json` shows them. Run as a program, the file checks itself.
"""

from __future__ import annotations

import json
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import inf
from typing import Any, Final, TypeAlias

# @DATA
DEFAULT_BUDGET: Final = 0.1
DEFAULT_PERIOD_S: Final = 0.05
MAX_BYTES: Final = 1
MAX_ITL_COST: Final = 0.01
RANGES_PER_RUN: Final = 16
BACKENDS: Final[Sequence[str]] = ()
VARIANTS: Final[Sequence[str]] = ()
COMPLETIONS: Final[Sequence[str]] = ()
DIRECTIONS: Final[Sequence[str]] = ()
OBJECTIVES: Final[Sequence[str]] = ()
COLOCATIONS: Final[Sequence[str]] = ()
RUNTIMES: Final[Sequence[str]] = ()
HINTS: Final[Sequence[str]] = ()
EVIDENCES: Final[Sequence[str]] = ()
_PROFILES: Final[Sequence[str]] = ()
_PLANS = _OPTIONS = _COSTS = _ENTRIES = _CELLS = _EDGES = _CENTRES = _TABLES = _NOISE = _ROUTES = _RULE = ""
_QUESTIONS = _TERMS = _VECTORS = ""
# @END

_UNREAL = ("sim:", "replay:")
_MAX_QUESTIONS = 64
_ALIGNMENTS = frozenset((1, 2, 4, 8, 16))

# What is known of how ranges lie; the sum is what is known in all.
_MANY_PER_RUN, _ONE_RUN, _PITCH = 1, 2, 4
_ALL_KNOWN = _MANY_PER_RUN + _ONE_RUN + _PITCH
_STRONGEST_FIRST = ((_PITCH, "strided"), (_ONE_RUN, "host-ordered"), (_MANY_PER_RUN, "host-runs"))


@dataclass(frozen=True, slots=True)
class Link:
    """The widest and fastest PCIe link that device and slot can train."""

    generation: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a device is; None where the host does not tell."""

    uuid: str = ""
    compute_capability: tuple[int, int]
    sm_count: int
    memory_gib: int
    copy_engines: int
    mig_slice: str = ""
    pci_device_id: str | None = None
    pci_subsystem_id: str | None = None
    max_link: Link | None = None
    host_cpu: str | None = None
    numa_distance: int | None = None
    iommu: bool | None = None
    confidential: bool | None = None

    @classmethod
    def from_json(cls, device: Mapping[str, Any]) -> Facts:
        """The facts in `{"uuid": ..., "identity": {...}}`; anything else in it is left alone."""
        known = {each.name for each in fields(cls)}
        identity = {name: value for name, value in device["identity"].items() if name in known}
        identity["compute_capability"] = tuple(identity["compute_capability"])
        link = identity.get("max_link")
        return cls(**identity | {"uuid": device["uuid"], "max_link": None if link is None else Link(**link)})

    def _class(self) -> tuple[object, ...]:
        link_apart = ("uuid", "max_link", "confidential")
        rest = (getattr(self, each.name) for each in fields(self) if each.name not in link_apart)
        return (*rest, bool(self.confidential))

    def same_as(self, other: Facts) -> bool:
        """Whether what was measured on one holds for the other. An unknown link is taken for the same."""
        unreal = self.uuid.startswith(_UNREAL) or other.uuid.startswith(_UNREAL)
        if unreal and self.uuid != other.uuid:
            return False
        links = {self.max_link, other.max_link} - {None}
        return self._class() == other._class() and len(links) < 2


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """Bounds on the copy kernel; None puts the whole transfer into one launch."""

    max_grid_blocks: int
    chunk_descriptors: int | None


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """How to run one direction of a transfer; variant, threads and options are None without a kernel."""

    backend: str
    variant: str | None
    threads: int | None
    options: KernelOptions | None
    chunk_bytes: int | None
    stream_priority: int
    completion: str
    backpressure: bool
    sm_partition: int | None
    prefer_overlap: bool


@dataclass(frozen=True, slots=True)
class PlanPair:
    """How to run a load and a save at once; fused ones share a launch."""

    load: CopyPlan
    save: CopyPlan
    fused: bool


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a plan is expected to cost, in seconds; None where nothing was measured."""

    time_s: float | None = None
    stall_s: float | None = None
    completion_p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The shape that a prediction is made for."""

    merged_ranges: int
    average_range_bytes: int


@dataclass(frozen=True, slots=True)
class Decision:
    """How to run a transfer, and how far to trust it.

    Attributes:
        plan: what to do; a pair if both directions were asked for.
        predicted: what it is expected to cost.
        predicted_for: where; None if nothing is predicted, as the shape lies outside what was measured.
        budget_met: whether the plan is known to keep what the objective promises within the period.
        colocation: beside what it was measured.
        hint: what it supposes of the ranges, beside their number and size.
        evidence: what the claim about decode rests on: `measured`, `fitted` or `none`.
        profile: id of the profile behind it; None if the rule answers, for want of a table.
    """

    plan: CopyPlan | PlanPair
    predicted: Predicted
    predicted_for: Place | None
    budget_met: bool
    direction: str
    objective: str
    runtime: str
    colocation: str
    hint: str
    evidence: str
    profile: str | None


_Row: TypeAlias = "tuple[int, ...]"


def _ints(text: str) -> _Row:
    return tuple(map(int, text.split()))


def _rows(text: str, width: int) -> list[_Row]:
    values = _ints(text)
    return [values[start : start + width] for start in range(0, len(values), width)]


def _numbers(text: str, width: int) -> list[tuple[float, ...]]:
    values = tuple(map(float, text.split()))
    return [values[start : start + width] for start in range(0, len(values), width)]


def _plan(row: _Row) -> CopyPlan:
    backend, variant, threads, grid, descriptors, nbytes, priority, completion, backpressure, sms, overlap = row
    return CopyPlan(
        BACKENDS[backend],
        None if variant < 0 else VARIANTS[variant],
        threads or None,
        KernelOptions(grid, descriptors or None) if grid else None,
        nbytes or None,
        priority,
        COMPLETIONS[completion],
        bool(backpressure),
        sms or None,
        bool(overlap),
    )


_plans = list(map(_plan, _rows(_PLANS, 11)))
_options, _costs = _rows(_OPTIONS, 5), _numbers(_COSTS, 4)
_entries, _cells, _edges, _centres, _rule = map(_ints, (_ENTRIES, _CELLS, _EDGES, _CENTRES, _RULE))
_tables, _noise, _routes = _rows(_TABLES, 15), _numbers(_NOISE, 2), _rows(_ROUTES, len(HINTS) or 1)


@dataclass(frozen=True, slots=True)
class _Terms:
    """What is asked of a plan."""

    objective: str
    budget: float
    period_s: float
    step_s: float | None


def _choose(options: Sequence[int], terms: _Terms, margin: float) -> tuple[int, bool]:
    """The option of a list, and whether the budget is met; ties go to the one that stands first."""
    sustained = [option for option in options if _latency(option) < terms.period_s]
    if not sustained:
        return min(options, key=_latency), False
    if terms.objective == "throughput":
        return _fastest(sustained, margin), True
    known = [option for option in sustained if EVIDENCES[_options[option][3]] != "none"]
    if not known:
        if terms.objective == "balanced":
            return _fastest(sustained, margin), False
        return min(sustained, key=lambda option: (_options[option][4], _latency(option))), False
    least_stall = min(known, key=lambda option: _costs[option][1])
    if terms.objective == "strict":
        return least_stall, True
    if terms.objective == "balanced":
        most_extra_s = MAX_ITL_COST * terms.period_s
        within = [option for option in known if _costs[option][2] <= most_extra_s]
    else:
        most_stall_s = -inf if terms.step_s is None else terms.budget * terms.step_s
        within = [option for option in known if _costs[option][1] <= most_stall_s]
    return (min(within, key=_latency), True) if within else (least_stall, False)


def _latency(option: int) -> float:
    time_s, _, _, completion_s = _costs[option]
    return time_s if completion_s < 0 else completion_s


def _fastest(options: Sequence[int], margin: float) -> int:
    limit_s = min(_costs[option][0] for option in options) * (1 + margin)
    return next(option for option in options if _costs[option][0] <= limit_s)


class _Answers:
    """What one table answers to a question, each made when it is first asked for."""

    __slots__ = ("_decide", "_made", "_measured", "_ranges", "_sizes", "_table", "lent")

    def __init__(self, table: int, lent: bool, decide: Callable[[int, int, bool, bool], Decision]) -> None:
        row = _tables[table]
        self._table, self._decide, self.lent = table, decide, lent
        self._ranges = _edges[row[2] : row[2] + row[3]]
        self._sizes = _edges[row[5] : row[5] + row[6]]
        self._measured = row[9:]
        self._made: dict[tuple[int, bool], Decision] = {}

    def edges(self) -> tuple[Iterable[int], Iterable[int], Iterable[int]]:
        """Where answers change: by ranges, by size, and by the two multiplied."""
        a, b, c, d, e, f = self._measured
        return (*self._ranges, a, b + 1), (*self._sizes, c, d + 1), (e, f + 1)

    def covers(self, ranges: int, size: int) -> bool:
        """Whether the shape lies inside what was measured."""
        a, b, c, d, e, f = self._measured
        return a <= ranges <= b and c <= size <= d and e <= ranges * size <= f

    def of(self, ranges: int, size: int) -> Decision:
        """The answer for a shape."""
        row, column = bisect_right(self._ranges, ranges) - 1, bisect_right(self._sizes, size) - 1
        cell, covered = row * len(self._sizes) + column, self.covers(ranges, size)
        made = self._made.get((cell, covered))
        return made or self._made.setdefault((cell, covered), self._decide(self._table, cell, covered, self.lent))


class _Grid:
    """What several tables answer, kept by where a shape lies among the edges of them all.

    The first of the colocation's tables that covers a shape answers, the last of them if none does. Where that one does
    not know what its answer costs decode, the first lent one that covers the shape does.
    """

    __slots__ = ("_lent", "_own", "columns", "kept", "products", "rows")

    def __init__(self, own: Sequence[_Answers], lent: Sequence[_Answers]) -> None:
        self._own, self._lent = own, lent
        rows, columns, products = zip(*(answers.edges() for answers in (*own, *lent)), strict=True)
        self.rows, self.columns, self.products = _merged(rows), _merged(columns), _merged(products)
        blank: list[Decision | None] = [None] * (len(self.columns) + 1)  # shared: a row with an answer is a copy
        self.kept = [[blank] * (len(self.rows) + 1) for _ in range(len(self.products) + 1)]

    def answer(self, ranges: int, size: int) -> Decision:
        """The answer for a shape, kept for all that lie with it."""
        *hinted, plain = self._own
        found = next((each for each in hinted if each.covers(ranges, size)), plain)
        decision = found.of(ranges, size)
        if found is plain and decision.evidence == "none":
            lent = (each.of(ranges, size) for each in self._lent if each.covers(ranges, size))
            decision = next(lent, decision)
        rows, place = self.kept[bisect_right(self.products, ranges * size)], bisect_right(self.rows, ranges)
        row = rows[place].copy()
        row[bisect_right(self.columns, size)] = decision
        rows[place] = row
        return decision


def _merged(edges: Iterable[Iterable[int]]) -> list[int]:
    return sorted({edge for each in edges for edge in each})


class Policy:
    """A profile's answers to one question, whatever the shape. Threads may share it."""

    __slots__ = ("_asked", "_grids", "_ruled", "_terms")

    def __init__(self, profile: Profile, words: tuple[str, str | None, str], terms: _Terms, route: _Row) -> None:
        self._asked, self._terms = (profile, *words), terms
        self._ruled = not route[0]
        where = _tables[route[0]][0]
        tables = ((hint, table) for hint, table in zip(HINTS, route, strict=True) if table >= 0)
        answers = {hint: _Answers(table, _tables[table][0] != where, self._decision) for hint, table in tables}
        found: dict[tuple[str, ...], _Grid] = {}
        self._grids: list[_Grid] = []
        for known in range(_ALL_KNOWN + 1):
            chain = *(hint for bit, hint in _STRONGEST_FIRST if known & bit and hint in answers), "none"
            if chain not in found:
                linked = [answers[hint] for hint in chain]
                own, lent = ([each for each in linked if each.lent == wanted] for wanted in (False, True))
                found[chain] = _Grid(own, lent)
            self._grids.append(found[chain])

    def decide(
        self,
        merged_ranges: int,
        total_bytes: int,
        *,
        host_runs: int | None = None,
        alignment: int | None = None,
        pitch: int | None = None,
    ) -> Decision:
        """How to run a transfer. Does no I/O and takes no lock.

        Args:
            merged_ranges: ranges per direction, after joining those adjacent on both sides.
            total_bytes: bytes per direction.
            host_runs: runs that are adjacent on the host side; None if unknown.
            alignment: largest power of two, at most 16, dividing every address and size; None if unknown.
            pitch: device stride in bytes if the ranges are one arithmetic progression; None if not, or unknown.

        Raises:
            ValueError: a number is out of its range.
        """
        if not 1 <= merged_ranges <= total_bytes <= MAX_BYTES:
            raise ValueError(f"there is no transfer of {merged_ranges} ranges with {total_bytes} bytes")
        size = total_bytes // merged_ranges
        known = 0
        if host_runs is not None:
            if not 1 <= host_runs <= merged_ranges:
                raise ValueError(f"host runs are 1 to the number of ranges, not {host_runs}")
            if merged_ranges >= RANGES_PER_RUN * host_runs:
                known = _MANY_PER_RUN
            if host_runs == 1:
                known += _ONE_RUN
        if pitch is not None:
            if pitch < size:
                raise ValueError(f"pitch is at least the size of a range, {size} bytes, not {pitch}")
            known += _PITCH
        if alignment is not None and alignment not in _ALIGNMENTS:
            raise ValueError(f"alignment is 1, 2, 4, 8 or 16, not {alignment}")
        grid = self._grids[known]
        rows = grid.kept[bisect_right(grid.products, merged_ranges * size)]
        kept = rows[bisect_right(grid.rows, merged_ranges)][bisect_right(grid.columns, size)]
        return kept or grid.answer(merged_ranges, size)

    def _decision(self, table: int, cell: int, covered: bool, lent: bool) -> Decision:
        profile, direction, colocation, runtime = self._asked
        row = _tables[table]
        option, met = self._ruling(cell) if self._ruled else self._choice(table, cell)
        at, column = divmod(cell, row[6])
        return Decision(
            plan=_plan_of(option, direction),
            predicted=_predicted(option) if covered else Predicted(),
            predicted_for=Place(_centres[row[2] + at], _centres[row[5] + column]) if covered else None,
            budget_met=covered and met and not lent,
            direction=direction,
            objective=self._terms.objective,
            runtime=runtime,
            colocation=(colocation or "idle") if self._ruled else COLOCATIONS[row[0]],
            hint=HINTS[row[1]],
            evidence=EVIDENCES[_options[option][3]] if covered and not lent else "none",
            profile=None if self._ruled else profile.profile_id,
        )

    def _ruling(self, cell: int) -> tuple[int, bool]:
        """Of many small ranges, which are in the third cell of four."""
        launches = cell == 2 and self._terms.objective in ("throughput", "balanced")
        return _rule[1 + RUNTIMES.index(self._asked[3]) if launches else 0], False

    def _choice(self, table: int, cell: int) -> tuple[int, bool]:
        margin, step_s = _noise[table]
        terms = self._terms
        if terms.step_s is None and step_s:
            terms = _Terms(terms.objective, terms.budget, terms.period_s, step_s)
        start, more = divmod(_cells[_tables[table][8] + cell], 4)
        return _choose(_entries[start : start + more + 1], terms, margin)


def _plan_of(option: int, direction: str) -> CopyPlan | PlanPair:
    load, save, fused, *_ = _options[option]
    return PlanPair(_plans[load], _plans[save], bool(fused)) if direction == "both" else _plans[load]


def _predicted(option: int) -> Predicted:
    time_s, stall_s, _, completion_s = (None if cost < 0 else cost for cost in _costs[option])
    return Predicted(time_s, stall_s, completion_s)


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """What was measured on one device.

    Attributes:
        index: its place in this file.
        profile_id: its id.
        created_at: when it was made, ISO 8601.
        published: false for a draft, which should decide nothing unless somebody looked at it.
        facts: of the device.
    """

    index: int
    profile_id: str
    created_at: str
    published: bool
    facts: Facts

    @property
    def simulated(self) -> bool:
        """Whether the device does not exist."""
        return self.facts.uuid.startswith("sim:")

    def matches(self, facts: Facts) -> bool:
        """Whether a device is like the one that was measured; no real one is like a simulated one."""
        return self.facts.same_as(facts)

    def policy(  # noqa: PLR0913  (flat keywords, as those of `Auto.decide`)
        self,
        direction: str = "both",
        *,
        objective: str = "balanced",
        budget: float = DEFAULT_BUDGET,
        period_s: float = DEFAULT_PERIOD_S,
        step_s: float | None = None,
        colocation: str | None = None,
        runtime: str = "full",
    ) -> Policy:
        """The answers to a question.

        Args:
            direction: `h2d`, `d2h` or `both`.
            objective: `throughput`, `balanced`, `tail-bounded` or `strict`.
            budget: stall that `tail-bounded` allows per burst, as a fraction of a decode step.
            period_s: from one burst to the next, in seconds; plans that take longer are passed over.
            step_s: undisturbed decode step in seconds; None takes the step that the profile was measured beside.
            colocation: `idle`, `same-context`, `time-sliced` or `mps`; None takes `time-sliced` if it was measured.
            runtime: plans that the caller can run: `pegaflow`, `kernel-options` or `full`.

        Raises:
            ValueError: an unknown word, or a number out of its range.
        """
        if not (0 <= budget < inf and 0 < period_s < inf and (step_s is None or 0 < step_s < inf)):
            raise ValueError(f"budget, period or step is out of its range: {budget}, {period_s}, {step_s}")
        terms = _Terms(_word(objective, OBJECTIVES), budget, period_s, step_s)
        where = len(COLOCATIONS) if colocation is None else COLOCATIONS.index(_word(colocation, COLOCATIONS))
        at = self.index * len(DIRECTIONS) + DIRECTIONS.index(_word(direction, DIRECTIONS))
        at = at * (len(COLOCATIONS) + 1) + where
        route = _routes[at * len(RUNTIMES) + RUNTIMES.index(_word(runtime, RUNTIMES))]
        if route[0] < 0:
            raise ValueError(f"this file was written without the runtime {runtime}")
        return Policy(self, (direction, colocation, runtime), terms, route)


def _word(word: str, words: Sequence[str]) -> str:
    if word not in words:
        raise ValueError(f"{word!r} is none of {', '.join(words)}")
    return word


def _profile(index: int, text: str) -> Profile:
    content = json.loads(text)
    return Profile(
        index, content["profile_id"], content["created_at"], content["published"], Facts.from_json(content["device"])
    )


PROFILES: Final = tuple(_profile(index, text) for index, text in enumerate(_PROFILES))
"""The newest first."""


def profile_for(facts: Facts, *, allow_drafts: bool = False) -> Profile | None:
    """The profile of this very board, else the newest of a device like it; None if there is none."""
    matching = [each for each in PROFILES if (each.published or allow_drafts) and each.matches(facts)]
    return next((each for each in matching if each.facts.uuid == facts.uuid), matching[0] if matching else None)


def matches(facts: Facts) -> bool:
    """Whether a published profile of this file is of a device like this one."""
    return profile_for(facts) is not None


def failures() -> Iterator[tuple[int, ...]]:
    """Test vectors that are not answered as they were when the file was written."""
    policies = []
    terms = _numbers(_TERMS, 3)
    for (at, *words), (budget, period_s, step_s) in zip(_rows(_QUESTIONS, 5), terms, strict=True):
        direction, objective, colocation, runtime = words
        policies.append(
            PROFILES[at].policy(
                DIRECTIONS[direction],
                objective=OBJECTIVES[objective],
                budget=budget,
                period_s=period_s,
                step_s=step_s or None,
                colocation=None if colocation < 0 else COLOCATIONS[colocation],
                runtime=RUNTIMES[runtime],
            )
        )
    for row in _rows(_VECTORS, 10):
        question, ranges, total_bytes, runs, pitch, option, covered, *rest = row
        found = policies[question].decide(ranges, total_bytes, host_runs=runs or None, pitch=pitch or None)
        plan = _plan_of(option, found.direction)
        words = [found.budget_met, COLOCATIONS.index(found.colocation), HINTS.index(found.hint)]
        if (found.plan, found.predicted, words) != (plan, _predicted(option) if covered else Predicted(), rest):
            yield row


if __name__ == "__main__":
    wrong = sum(1 for _ in failures())
    sys.exit(f"{wrong} answers are wrong" if wrong else 0)
