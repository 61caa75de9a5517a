"""Choosing among the options of a table cell. Pure, and small enough to be written again in another language.

A plan is *sustainable* if its completion latency is below the burst period: else bursts pile up. Among the sustainable
plans the objective decides; only exact ties, and transfer times within the measured noise, go to the plan that is
easier on decode and simpler.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from pega_tune.kernels.plan import AnyPlan, Backend, CopyPlan
from pega_tune.profiles.policy.errors import QuestionError
from pega_tune.profiles.policy.table import Option
from pega_tune.profiles.policy.terms import Evidence, Objective

DEFAULT_BUDGET = 0.10
DEFAULT_PERIOD_S = 0.050
MAX_ITL_COST = 0.01  # mean inter-token latency that `balanced` may cost, as a fraction

_UNKNOWN = "what it costs decode is not known well enough"

BY_SIMPLICITY = (Backend.DIRECT, Backend.BATCH, Backend.PITCHED, Backend.KERNEL, Backend.STAGED)
"""Backends, the simplest first: ties go to it."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What is asked of a plan, whatever the shape.

    Attributes:
        objective: what to optimise.
        budget: stall that `tail-bounded` allows per burst, as a fraction of a decode step.
        period_s: from one burst to the next, in seconds.
        step_s: undisturbed decode step in seconds; None if unknown, and then no stall is known to fit a budget.
    """

    objective: Objective = Objective.BALANCED
    budget: float = DEFAULT_BUDGET
    period_s: float = DEFAULT_PERIOD_S
    step_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.budget < inf:
            raise QuestionError(f"budget is a fraction of a decode step, 0 or more, not {self.budget}")
        if not 0 < self.period_s < inf:
            raise QuestionError(f"period is a positive number of seconds, not {self.period_s}")
        if self.step_s is not None and not 0 < self.step_s < inf:
            raise QuestionError(f"step is a positive number of seconds, not {self.step_s}")


@dataclass(frozen=True, slots=True)
class Choice:
    """The option chosen.

    Attributes:
        option: the plan and what it is expected to cost.
        budget_met: whether it is known to be sustainable and to keep what the objective promises; `throughput`
            promises nothing more.
        evidence: what the claim about decode rests on.
        reason: why this one, as the predicate of a sentence about the plan.
    """

    option: Option
    budget_met: bool
    evidence: Evidence
    reason: str


def choose(options: Sequence[Option], demand: Demand, margin: float) -> Choice:
    """Applies objective, budget and period to the options of one cell.

    Args:
        options: at least one, in any order.
        demand: what is asked.
        margin: relative difference of transfer times that is noise.
    """
    sustainable = [option for option in options if option.predicted.latency_s < demand.period_s]
    if not sustainable:
        option = _least(options, _latency)
        return Choice(option, False, evidence_of(option), "is the quickest, though none completes within the period")
    if demand.objective is Objective.THROUGHPUT:
        option = _fastest(sustainable, margin)
        return Choice(option, True, evidence_of(option), "takes the least time, within the noise")
    known = [option for option in sustainable if evidence_of(option) is not Evidence.NONE]
    return _with_evidence(known, demand) if known else _without_evidence(sustainable, demand, margin)


def _with_evidence(options: Sequence[Option], demand: Demand) -> Choice:
    least_stall = _least(options, _stall)
    if demand.objective is Objective.STRICT:
        return Choice(least_stall, True, evidence_of(least_stall), "stalls decode the least")
    fits, limit = promise_of(demand)
    within = [option for option in options if fits(option)]
    if within:
        reason = f"completes first of those that {limit}"
        first = _least(within, _latency)
        return Choice(first, True, evidence_of(first), reason)
    reason = f"stalls decode the least, as no plan is known to {limit}"
    return Choice(least_stall, False, evidence_of(least_stall), reason)


def promise_of(demand: Demand) -> tuple[Callable[[Option], bool], str]:
    """What an option must keep under `balanced` or `tail-bounded`, and how to say so."""
    if demand.objective is Objective.BALANCED:
        most_extra_s = MAX_ITL_COST * demand.period_s
        return lambda option: _extra(option) <= most_extra_s, f"cost at most {MAX_ITL_COST:.0%} of mean ITL"
    most_stall_s = -inf if demand.step_s is None else demand.budget * demand.step_s
    return lambda option: _stall(option) <= most_stall_s, f"stall at most {demand.budget:.4g} of a decode step"


def _without_evidence(options: Sequence[Option], demand: Demand, margin: float) -> Choice:
    """Copy engines leave the SMs to decode, so a tail objective without evidence goes to them, `direct` first."""
    if demand.objective is Objective.BALANCED:
        reason = f"takes the least time, within the noise; {_UNKNOWN}"
        return Choice(_fastest(options, margin), False, Evidence.NONE, reason)
    gentlest = min(options, key=lambda option: (*burden(option.plan), _latency(option), option.plan.key))
    return Choice(gentlest, False, Evidence.NONE, f"holds the fewest threads; {_UNKNOWN}")


def _fastest(options: Sequence[Option], margin: float) -> Option:
    limit_s = min(option.predicted.time_s for option in options) * (1 + margin)
    return _least([option for option in options if option.predicted.time_s <= limit_s], lambda _: 0.0)


def _least(options: Sequence[Option], cost_s: Callable[[Option], float]) -> Option:
    """The option of least cost; exact ties go to fewer resident threads, then the simpler plan, then its key."""
    least_s = min(map(cost_s, options))
    tied = [option for option in options if cost_s(option) == least_s]
    return tied[0] if len(tied) == 1 else min(tied, key=lambda option: (*burden(option.plan), option.plan.key))


def burden(plan: AnyPlan) -> tuple[int, int]:
    """Resident threads, then how far from the simplest backend."""
    legs = (plan,) if isinstance(plan, CopyPlan) else (plan.load, plan.save)
    return plan.resident_threads, max(BY_SIMPLICITY.index(leg.backend) for leg in legs)


def evidence_of(option: Option) -> Evidence:
    """What the claim of an option about decode rests on."""
    predicted = option.predicted
    unknown = predicted.stall_s is None or predicted.extra_s is None
    return Evidence.NONE if unknown else Evidence.FITTED if option.fitted else Evidence.MEASURED


def _latency(option: Option) -> float:
    return option.predicted.latency_s


def _stall(option: Option) -> float:
    return inf if option.predicted.stall_s is None else option.predicted.stall_s


def _extra(option: Option) -> float:
    return inf if option.predicted.extra_s is None else option.predicted.extra_s
