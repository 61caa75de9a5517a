"""What plans cost decode, over several processes, and which of them the objectives would take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from pega_tune.autotune.engine import Status
from pega_tune.autotune.measuring.serving.options import option_of
from pega_tune.autotune.measuring.serving.summary import ServingSummary, summarise
from pega_tune.kernels.plan import AnyPlan
from pega_tune.profiles.policy.choose import Choice, Demand, choose
from pega_tune.profiles.policy.table import Option, Predicted
from pega_tune.profiles.policy.terms import Objective
from pega_tune.profiles.store.records import BlockRecord

EQUAL: Final = 0.02
"""Relative difference of completion times that is noise: medians of equal plans in one block differ by so much."""

# The objectives that look at decode come first: who wins them is what a survey is for.
_TURNS: Final = (Objective.STRICT, Objective.TAIL_BOUNDED, Objective.BALANCED, Objective.THROUGHPUT)


@dataclass(frozen=True, slots=True)
class ServingCost:
    """A plan beside decode, by the worst of the processes in which it ran.

    Attributes:
        plan: what was measured.
        option: what it costs; each figure is the worst of all processes.
        step_s: undisturbed decode step in seconds, the median of all processes.
        summaries: one per process.
    """

    plan: AnyPlan
    option: Option
    step_s: float
    summaries: tuple[ServingSummary, ...]

    @property
    def p99_delta(self) -> float:
        """Increase of the p99 step over the baseline, at the period it was measured with; the worst process counts."""
        return max(summary.delta.p99.value for summary in self.summaries)

    @property
    def mean_delta(self) -> float:
        """Likewise of the mean step."""
        return max(summary.delta.mean.value for summary in self.summaries)


def costs_of(blocks: Iterable[BlockRecord]) -> tuple[ServingCost, ...]:
    """The plans that ran well in all of the blocks, which measured the same thing in different processes."""
    found: dict[AnyPlan, list[ServingSummary]] = {}
    count = 0
    for block in blocks:
        count += 1
        for cell in block.cells:
            summary = summarise(cell, block.shape.moved_bytes)
            if cell.status == Status.OK and cell.verified and summary is not None:
                found.setdefault(cell.plan, []).append(summary)
    return tuple(_cost(plan, summaries) for plan, summaries in found.items() if len(summaries) == count)


def _cost(plan: AnyPlan, summaries: Sequence[ServingSummary]) -> ServingCost:
    options = [option_of(plan, summary) for summary in summaries]
    step_s = median(summary.baseline.p50.value for summary in summaries)
    return ServingCost(plan, Option(plan, _worst([o.predicted for o in options])), step_s, tuple(summaries))


def _worst(seen: Sequence[Predicted]) -> Predicted:
    return Predicted(
        time_s=max(one.time_s for one in seen),
        stall_s=max(one.stall_s or 0.0 for one in seen),
        extra_s=max(one.extra_s or 0.0 for one in seen),
        completion_p99_s=max(one.latency_s for one in seen),
    )


def best(costs: Sequence[ServingCost], objective: Objective) -> tuple[ServingCost, Choice]:
    """What an objective takes, at the reference budget and period, and why.

    Args:
        costs: at least one.
        objective: what to optimise.
    """
    demand = Demand(objective, step_s=median(cost.step_s for cost in costs))
    choice = choose([cost.option for cost in costs], demand, EQUAL)
    return next(cost for cost in costs if cost.option is choice.option), choice


def finalists(costs: Sequence[ServingCost], most: int) -> tuple[ServingCost, ...]:
    """At most so many: in turns, what each objective takes of those that are left."""
    kept: list[ServingCost] = []
    left = list(costs)
    while left and len(kept) < most:
        winner, _ = best(left, _TURNS[len(kept) % len(_TURNS)])
        kept.append(winner)
        left.remove(winner)
    return tuple(kept)
