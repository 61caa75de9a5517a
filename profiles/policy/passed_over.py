"""Says in words why an option of a cell was not chosen."""

from pega_tune.profiles.policy.answer import Chosen
from pega_tune.profiles.policy.choose import burden, evidence_of, promise_of
from pega_tune.profiles.policy.explain import format_duration
from pega_tune.profiles.policy.table import Option
from pega_tune.profiles.policy.terms import Evidence, Objective


def passed_over(option: Option, chosen: Chosen) -> str:
    """Why another one was chosen, as the predicate of a sentence about the option."""
    choice, demand = chosen.choice, chosen.demand
    if option.predicted.latency_s >= demand.period_s:
        sustained = choice.option.predicted.latency_s < demand.period_s
        return f"does not complete within the period of {format_duration(demand.period_s)}" + (
            "" if sustained else f" and {_later(option, choice.option)}"
        )
    if demand.objective is Objective.THROUGHPUT:
        return _slower(option, chosen)
    if choice.evidence is Evidence.NONE:
        tail = demand.objective is not Objective.BALANCED
        return _heavier(option, choice.option) if tail else _slower(option, chosen)
    if evidence_of(option) is Evidence.NONE:
        return "is not known to be easy on decode"
    return _harder(option, chosen)


def _slower(option: Option, chosen: Chosen) -> str:
    period_s = chosen.demand.period_s
    times_s = [o.predicted.time_s for o in chosen.table.cells[chosen.cell] if o.predicted.latency_s < period_s]
    ratio = option.predicted.time_s / min(times_s)
    if ratio > 1 + chosen.table.margin:
        much = f"{ratio:.3g} times as long as" if ratio >= 2 else f"{ratio - 1:.1%} longer than"
        return f"takes {much} the fastest"
    return f"is as fast, within the noise, but {_heavier(option, chosen.choice.option)}"


def _harder(option: Option, chosen: Chosen) -> str:
    """What decides between two options whose cost to decode is known."""
    choice, demand = chosen.choice, chosen.demand
    if demand.objective is Objective.STRICT:
        return _stalls_longer(option, choice.option)
    fits, limit = promise_of(demand)
    if not choice.budget_met:
        return f"is not known to {limit}, and {_stalls_longer(option, choice.option)}"
    return _later(option, choice.option) if fits(option) else f"is not known to {limit}"


def _stalls_longer(option: Option, other: Option) -> str:
    stall_s, other_s = option.predicted.stall_s, other.predicted.stall_s
    if stall_s is None or stall_s == other_s:
        return f"stalls decode as long, but {_heavier(option, other)}"
    return f"stalls decode longer ({format_duration(stall_s)})"


def _later(option: Option, other: Option) -> str:
    predicted = option.predicted
    if predicted.latency_s == other.predicted.latency_s:
        return f"completes at the same time, but {_heavier(option, other)}"
    which = "median" if predicted.completion_p99_s is None else "p99"
    return f"completes later ({which} {format_duration(predicted.latency_s)})"


def _heavier(option: Option, other: Option) -> str:
    """What decides between two options of which nothing else does."""
    (threads, complexity), (other_threads, other_complexity) = burden(option.plan), burden(other.plan)
    if threads != other_threads:
        return "holds more threads"
    if complexity != other_complexity:
        return "is less simple"
    return "is slower" if option.predicted.latency_s > other.predicted.latency_s else "comes later by its name"
