"""What was measured beside decode, survey by survey, and which plans of it a table cell gets."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf
from statistics import median

from pega_tune.autotune.sweep.keys import is_final, survey_key
from pega_tune.autotune.sweep.serving_costs import ServingCost, best, costs_of
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.choose import DEFAULT_PERIOD_S, Choice
from pega_tune.profiles.policy.table import MAX_OPTIONS, Option
from pega_tune.profiles.policy.terms import Colocation, Objective
from pega_tune.profiles.store.records import BlockRecord


@dataclass(frozen=True, slots=True)
class Survey:
    """A shape beside decode, with its finalists if they were measured.

    Attributes:
        key: of its block.
        shape: what was moved.
        colocation: where decode ran.
        costs: of every plan; the finalists by the worst of all processes, the survey's own included.
        finals: how many fresh processes the finalists ran in.
    """

    key: str
    shape: TransferShape
    colocation: Colocation
    costs: tuple[ServingCost, ...]
    finals: int

    @property
    def step_s(self) -> float:
        """Undisturbed decode step, in seconds."""
        return median(cost.step_s for cost in self.costs)

    @property
    def contenders(self) -> tuple[ServingCost, ...]:
        """Those that may be chosen: the finalists alone, once there are any, since fewer processes flatter a plan."""
        confirmed = tuple(cost for cost in self.costs if len(cost.summaries) > self.finals > 0)
        return confirmed or self.costs

    def best(self, objective: Objective) -> tuple[ServingCost, Choice]:
        """What an objective takes among the contenders; throughput, which promises nothing of decode, among all."""
        return best(self.costs if objective is Objective.THROUGHPUT else self.contenders, objective)


def surveys(blocks: Iterable[BlockRecord]) -> tuple[Survey, ...]:
    """What was measured beside decode, in the order of the keys; surveys without a usable plan are left out."""
    serving = [block for block in blocks if block.colocation is not Colocation.IDLE]
    serving.sort(key=lambda b: (survey_key(b.key), b.key))
    groups = (tuple(members) for _, members in groupby(serving, key=lambda b: survey_key(b.key)))
    return tuple(survey for members in groups if (survey := _survey(members)) is not None)


def _survey(blocks: Sequence[BlockRecord]) -> Survey | None:
    first = [block for block in blocks if not is_final(block.key)]
    finals = [block for block in blocks if is_final(block.key)]
    worst = {cost.plan: cost for cost in costs_of(blocks)} if finals else {}
    costs = tuple(worst.get(cost.plan, cost) for cost in costs_of(first)) if first else ()
    if not costs:
        return None
    return Survey(first[0].key, first[0].shape, first[0].colocation, costs, len(finals))


def measured_options(survey: Survey, idle: tuple[Option, ...]) -> tuple[Option, ...]:
    """The options of a cell whose shape was measured beside decode.

    Where none of the measured ones completes in the reference period, options of the idle device join them: a runtime
    may have only one plan that was worth measuring beside decode, and that one must not pass for the quickest.

    Args:
        survey: with the plans that the runtime can run, at least one.
        idle: options of the cell without decode.
    """
    beside = _options(survey)
    if any(option.predicted.latency_s < DEFAULT_PERIOD_S for option in beside):
        return beside
    measured = {option.plan for option in beside}
    others = [option for option in idle if option.plan not in measured]
    joined = (*beside[: MAX_OPTIONS // 2], *others)[:MAX_OPTIONS]
    return tuple(sorted(joined, key=lambda option: option.predicted.time_s))


def _options(survey: Survey) -> tuple[Option, ...]:
    """At most `MAX_OPTIONS`, fastest first: what each objective takes, then whatever else nothing dominates.

    What is there for its throughput alone, and was not confirmed, has no evidence: no other objective may take it.
    """
    contenders = [cost.option for cost in survey.contenders]
    taken = dict.fromkeys(survey.best(objective)[0].option for objective in Objective)
    for option in contenders:
        if len(taken) < MAX_OPTIONS and not any(_dominates(other, option) for other in contenders):
            taken.setdefault(option)
    options = [option if option in contenders else _without_evidence(option) for option in taken]
    return tuple(sorted(options, key=lambda option: option.predicted.time_s))


def _without_evidence(option: Option) -> Option:
    return replace(option, predicted=replace(option.predicted, stall_s=None, extra_s=None))


def _dominates(one: Option, other: Option) -> bool:
    mine, others = _burdens(one), _burdens(other)
    return mine != others and all(a <= b for a, b in zip(mine, others, strict=True))


def _burdens(option: Option) -> tuple[float, ...]:
    predicted = option.predicted
    stall_s = inf if predicted.stall_s is None else predicted.stall_s
    extra_s = inf if predicted.extra_s is None else predicted.extra_s
    return predicted.time_s, predicted.latency_s, stall_s, extra_s
