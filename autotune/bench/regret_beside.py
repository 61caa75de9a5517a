"""Measures the bursts of which `Auto` claims something: alone on the device, to find rivals, then beside decode.

A plan keeps the budget if 95 of 100 bursts stall decode by no more, and if it completes within the period; those are
the terms of the claim. The budget is a fraction of the undisturbed step of the same block.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from pega_tune.autotune.bench.batch import Entry
from pega_tune.autotune.bench.regret_claims import Burst, ClaimsPlan, ClaimsRequest
from pega_tune.autotune.bench.regret_plan import AUTO, compared, rivals
from pega_tune.autotune.bench.regret_statistics import Halves
from pega_tune.autotune.engine import (
    Candidate,
    CandidateKind,
    Engine,
    MemoryLimitError,
    SamplingLimits,
    Status,
    TransferBlock,
)
from pega_tune.autotune.measuring.cells import collect, flags_of
from pega_tune.autotune.measuring.serving.cells import collect_segments, segment_flags
from pega_tune.autotune.measuring.serving.options import option_of
from pega_tune.autotune.measuring.serving.summary import summarise
from pega_tune.autotune.serving import Pacing, ServingBlock, ServingLimits
from pega_tune.autotune.sweep.representatives import representatives
from pega_tune.autotune.sweep.survivors import MeasuredPlan, prune
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.choose import DEFAULT_PERIOD_S
from pega_tune.profiles.store.records import BlockFlag, CellRecord, Metric

RIVALS: Final = 4
"""Plans beside `Auto`'s and the static rules: as different as can be in what decode suffers from."""

BURSTS: Final = 12
"""In a segment, of which there are three to five: of 36 bursts or more the p95 of the stall is not just the largest."""

_SLOW: Final = 2.0  # times as long as Auto's choice, alone on the device: whether it keeps the budget is no matter
_ALONE: Final = SamplingLimits(budget_s=0.1, min_rounds=3, max_rounds=8)
_BESIDE: Final = ServingLimits(budget_s=12.0, min_rounds=3, max_rounds=5)


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """One entry beside decode.

    Attributes:
        name, kind, plan: as in `Entry`.
        status, detail: of its cell.
        same_as: the entry that it was measured with, because both launch the same; None if it was measured itself.
        kept: whether it kept the budget and the period.
        stall_s: what 95 of 100 bursts cost decode at most, in seconds; None if it was not measured.
        completion_s: median completion latency in seconds; None likewise.
        halves: completion latencies by halves of the bursts; None likewise.
    """

    name: str
    kind: CandidateKind
    plan: AnyPlan
    status: str
    detail: str
    same_as: str | None
    kept: bool = False
    stall_s: float | None = None
    completion_s: float | None = None
    halves: Halves | None = None


@dataclass(frozen=True, slots=True)
class BurstResult:
    """A measured burst.

    Attributes:
        burst: what it was, and what was claimed.
        rows: what ran: `Auto`'s choice, a few other plans, and the static rules that may be as fast.
        step_s: undisturbed decode step in seconds; None if nothing could be measured.
        flags: what was wrong while it ran.
    """

    burst: Burst
    rows: tuple[ClaimRow, ...]
    step_s: float | None
    flags: tuple[BlockFlag, ...]

    @property
    def claimed(self) -> bool:
        """Whether `Auto` says that its plan keeps the budget."""
        return self.burst.decision.budget_met

    @property
    def kept(self) -> bool:
        """Whether it did."""
        row = self.row(AUTO)
        return row is not None and row.kept

    @property
    def possible(self) -> bool:
        """Whether anything that was measured did."""
        return any(row.kept for row in self.rows)

    def row(self, name: str) -> ClaimRow | None:
        """The entry of that name; None if it did not run."""
        return next((row for row in self.rows if row.name == name), None)


@dataclass(frozen=True, slots=True)
class ClaimsResult:
    """All that was measured.

    Attributes:
        bursts: one by one.
        too_large: bursts that memory was too small for.
        too_late: bursts for which no time was left.
    """

    bursts: tuple[BurstResult, ...]
    too_large: int
    too_late: int


def check_all(
    plan: ClaimsPlan, auto: Auto, engine: Engine, within_s: float, done: Callable[[Burst], None]
) -> ClaimsResult:
    """Measures burst after burst, and begins none when the time is up.

    Args:
        plan: what to measure.
        auto: who claims.
        engine: what measures.
        within_s: seconds after which nothing is begun.
        done: called after each burst.

    Raises:
        DeviceError: the engine cannot go on, or has no such decode.
    """
    end_s = time.monotonic() + within_s
    found: list[BurstResult] = []
    refused = late = 0
    for burst in plan.bursts:
        if time.monotonic() >= end_s:
            late += 1
            continue
        try:
            found.append(check(burst, plan.request, auto, engine))
        except MemoryLimitError:
            refused += 1
        done(burst)
    return ClaimsResult(tuple(found), plan.too_large + refused, late)


def check(burst: Burst, request: ClaimsRequest, auto: Auto, engine: Engine) -> BurstResult:
    """Measures one burst.

    Raises:
        DeviceError: as `Engine.transfer` and `Engine.beside_decode`.
    """
    shape, layout = burst.held_out.shape, burst.held_out.layout
    others = rivals(auto, burst.held_out, engine.capabilities())
    candidates, entries = compared(burst.decision.plan, others, shape)
    alone = TransferBlock(f"claims/{burst.held_out.key}", shape, candidates, _ALONE, request.seed, layout=layout)
    cells = collect(alone, tuple(engine.transfer(alone)))
    static = frozenset(entry.candidate for entry in entries if entry.kind is CandidateKind.STATIC)
    chosen = _chosen(candidates, cells, static, shape)
    block = ServingBlock(
        key=f"{request.colocation}/{burst.held_out.key}",
        shape=shape,
        candidates=chosen,
        colocation=request.colocation,
        limits=_BESIDE,
        seed=request.seed,
        pacing=Pacing(period_s=None, bursts=BURSTS),
        layout=layout,
    )
    names = {candidate.name for candidate in chosen}
    return _measured(burst, block, tuple(e for e in entries if e.candidate in names), request.budget, engine)


def _chosen(
    candidates: Sequence[Candidate], cells: Sequence[CellRecord], static: frozenset[str], shape: TransferShape
) -> tuple[Candidate, ...]:
    """What runs beside decode: `Auto`'s choice, some rivals, and the static rules that are not hopelessly slow.

    Args:
        candidates: all that ran alone.
        cells: what came of it.
        static: names of the candidates that measure a static rule.
        shape: what is moved.
    """
    known = {cell.name: MeasuredPlan.of(cell, shape) for cell in cells if cell.status == Status.OK}
    timed = {name: plan for name, plan in known.items() if plan is not None and plan.transfer_s < DEFAULT_PERIOD_S}
    pruned = prune([timed[candidate.name] for candidate in candidates if candidate.name in timed])
    rivals_of_auto = {plan.plan for plan in representatives(pruned, RIVALS)} if pruned else set()
    slow_s = _SLOW * timed[AUTO].transfer_s if AUTO in timed else DEFAULT_PERIOD_S

    def runs(candidate: Candidate) -> bool:
        name = candidate.name
        rule = name in static and name in timed and timed[name].transfer_s <= slow_s
        return rule or name == AUTO or candidate.plan in rivals_of_auto

    return tuple(candidate for candidate in candidates if runs(candidate))


def _measured(
    burst: Burst, block: ServingBlock, entries: Sequence[Entry], budget: float, engine: Engine
) -> BurstResult:
    segments = tuple(engine.beside_decode(block))
    cells = {cell.name: cell for cell in collect_segments(block, segments)}
    flags = dict.fromkeys((*flags_of(engine.conditions(), engine.facts.identity.max_link), *segment_flags(segments)))
    summaries = [summarise(cell, block.shape.moved_bytes) for cell in cells.values()]
    steps = [summary.baseline.p50.value for summary in summaries if summary is not None]
    step_s = median(steps) if steps else None
    rows = tuple(_row(entry, cells[entry.candidate], block.shape, budget * (step_s or 0.0)) for entry in entries)
    return BurstResult(burst, rows, step_s, tuple(flags))


def _row(entry: Entry, cell: CellRecord, shape: TransferShape, budget_s: float) -> ClaimRow:
    same_as = None if entry.candidate == entry.name else entry.candidate
    row = ClaimRow(entry.name, entry.kind, entry.plan, cell.status, cell.detail, same_as)
    summary = summarise(cell, shape.moved_bytes)
    if cell.status != Status.OK or summary is None:
        return row
    cost = option_of(entry.plan, summary).predicted
    stall_s = cost.stall_s or 0.0
    completion = next(record.samples for record in cell.measurements if record.metric is Metric.COMPLETION)
    return replace(
        row,
        kept=cell.verified and stall_s <= budget_s and cost.latency_s < DEFAULT_PERIOD_S,
        stall_s=stall_s,
        completion_s=median(completion),
        halves=Halves.of(completion),
    )
