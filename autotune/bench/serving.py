"""Transfers beside decode: what every rule and plan costs the steps, interleaved with a baseline of their own."""

from dataclasses import dataclass
from statistics import median
from typing import Final

from pega_tune.autotune.bench.batch import Entry
from pega_tune.autotune.bench.serving_plan import BenchBlock
from pega_tune.autotune.engine import CandidateKind, Engine, Status
from pega_tune.autotune.measuring.cells import flags_of
from pega_tune.autotune.measuring.serving.cells import collect_segments, segment_flags, used_period_s
from pega_tune.autotune.measuring.serving.options import option_of
from pega_tune.autotune.measuring.serving.summary import ServingSummary, summarise
from pega_tune.kernels.plan import AnyPlan
from pega_tune.kernels.shape import Direction
from pega_tune.profiles.policy.choose import DEFAULT_BUDGET, DEFAULT_PERIOD_S, Choice, Demand, choose
from pega_tune.profiles.policy.terms import Colocation, Objective
from pega_tune.profiles.store.records import BlockFlag, CellRecord

EQUAL: Final = 0.02
"""Relative difference of completion times that is noise: medians of equal plans differ by so much."""


@dataclass(frozen=True, slots=True)
class Row:
    """One entry, measured.

    Attributes:
        name, kind, plan: as in `Entry`.
        label: of its block.
        colocation, direction: where and which way.
        status, detail: of its cell.
        summary: None if it was not measured.
        same_as: the entry that it was measured with, because both launch the same; None if it was measured itself.
    """

    name: str
    kind: CandidateKind
    plan: AnyPlan
    label: str
    colocation: Colocation
    direction: Direction
    status: str
    detail: str
    summary: ServingSummary | None
    same_as: str | None


@dataclass(frozen=True, slots=True)
class BenchResult:
    """A measured block.

    Attributes:
        planned: what was to be measured.
        rows: its entries.
        flags: what was wrong while it ran.
        period_s: from one burst to the next, the longest that was used; None if nothing ran.
    """

    planned: BenchBlock
    rows: tuple[Row, ...]
    flags: tuple[BlockFlag, ...]
    period_s: float | None


def measure(planned: BenchBlock, engine: Engine) -> BenchResult:
    """Measures a block.

    Raises:
        DeviceError: the engine cannot run it, or is lost.
    """
    block = planned.block
    segments = tuple(engine.beside_decode(block))
    cells = {cell.name: cell for cell in collect_segments(block, segments)}
    conditions = engine.conditions()
    rows = tuple(_row(entry, planned, cells[entry.candidate]) for entry in planned.entries)
    flags = dict.fromkeys((*flags_of(conditions, engine.facts.identity.max_link), *segment_flags(segments)))
    return BenchResult(planned, rows, tuple(flags), used_period_s(segments))


def _row(entry: Entry, planned: BenchBlock, cell: CellRecord) -> Row:
    block = planned.block
    return Row(
        name=entry.name,
        kind=entry.kind,
        plan=entry.plan,
        label=planned.label,
        colocation=block.colocation,
        direction=block.shape.direction,
        status=cell.status,
        detail=cell.detail,
        summary=summarise(cell, block.shape.moved_bytes),
        same_as=entry.candidate if entry.candidate != entry.name else None,
    )


def undisturbed_step_s(result: BenchResult) -> float | None:
    """The undisturbed decode step of a block, in seconds; None if nothing was measured."""
    steps = [row.summary.baseline.p50.value for row in result.rows if row.summary is not None]
    return median(steps) if steps else None


def name_of(result: BenchResult, plan: AnyPlan) -> str:
    """The row that measured a plan, which may be a rule that systems ship."""
    return next(row.name for row in result.rows if row.same_as is None and row.plan == plan)


def chosen(result: BenchResult, objective: Objective, budget: float = DEFAULT_BUDGET) -> Choice | None:
    """What an objective takes of all that was measured in a block, whoever ships it.

    A plan has to complete within the period, or within the reference period where the block leaves it open.

    Args:
        result: of one block.
        objective: what to optimise.
        budget: stall that `tail-bounded` allows, as a fraction of a decode step.
    """
    plans = [row for row in result.rows if row.same_as is None and row.status == Status.OK]
    options = [option_of(row.plan, row.summary) for row in plans if row.summary is not None]
    if not options:
        return None
    period_s = result.planned.block.pacing.period_s or DEFAULT_PERIOD_S
    demand = Demand(objective, budget, period_s, undisturbed_step_s(result))
    return choose(options, demand, EQUAL)
