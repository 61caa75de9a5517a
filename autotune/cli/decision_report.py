"""How decisions are told to people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pega_tune.autotune.cli.output import fields, table
from pega_tune.autotune.cli.units import format_age, format_size
from pega_tune.kernels.plan import CopyPlan, PlanPair
from pega_tune.profiles.policy.explain import counted, format_duration
from pega_tune.profiles.policy.terms import Colocation, Evidence, Hint, Tier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pega_tune.autotune.kv.traffic import CountedShape
    from pega_tune.profiles.policy.decision import Decision
    from pega_tune.profiles.policy.explanation import Considered, Explanation

_HEADINGS = ("RANGES", "OF", "DIRECTION", "COUNT", "PLAN", "MEDIAN", "STALL P95", "BUDGET MET", "EVIDENCE")
_RIVAL_HEADINGS = ("PASSED OVER", "MEDIAN", "STALL P95", "AS IT")
_UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Terms:
    """What was asked of every shape, as far as answers are told by it.

    Attributes:
        period_s: from one burst to the next, in seconds.
        colocation: where decode runs, the default one if nothing was said.
    """

    period_s: float
    colocation: Colocation


def explanation_lines(explanation: Explanation, terms: Terms) -> Iterator[str]:
    """One decision, a field a line, and what else its cell holds."""
    yield from _fields(explanation, terms)
    rivals = [each for each in explanation.considered if not each.chosen]
    if rivals and explanation.decision.predicted_for is not None:
        yield ""
        yield from table(_RIVAL_HEADINGS, map(_rival, rivals))


def _rival(each: Considered) -> tuple[str, ...]:
    predicted = each.predicted
    return each.plan.key, _time(predicted.time_s), _time(predicted.stall_s) or "-", each.reason


def _fields(explanation: Explanation, terms: Terms) -> list[str]:
    decision = explanation.decision
    plan = decision.plan
    known = "" if decision.hint is Hint.NONE else str(decision.hint)
    plans = [("plan", plan.key)] if isinstance(plan, CopyPlan) else [("load", plan.load.key), ("save", plan.save.key)]
    return fields(
        [
            *plans,
            ("fused", "load and save share each launch" if isinstance(plan, PlanPair) and plan.fused else ""),
            *_predicted(decision, terms),
            ("budget met", _budget_met(decision, terms.period_s)),
            ("decode", f"{_colocation(decision, terms)}, evidence {decision.evidence}"),
            ("tier", str(decision.tier)),
            ("profile", _profile(decision)),
            ("ranges lie", known),
            ("rests on", ", ".join(explanation.blocks)),
            ("why", decision.why),
        ]
    )


def _predicted(decision: Decision, terms: Terms) -> Iterator[tuple[str, str]]:
    """The numbers with what they are; of a transfer beside decode it is said, too, which are not known."""
    predicted, meaning = decision.predicted, decision.predicted.meaning(decision.evidence)
    if predicted.time_s is None:
        return
    missing = "" if terms.colocation is Colocation.IDLE else _UNKNOWN
    yield "time", f"{format_duration(predicted.time_s)}, {meaning.time_s}{_place(decision)}"
    yield "stall", _told(predicted.stall_s, meaning.stall_s) or missing
    yield "completion", _told(predicted.completion_p99_s, meaning.completion_p99_s) or missing


def _told(seconds: float | None, meaning: str | None) -> str:
    return "" if seconds is None else f"{format_duration(seconds)}, {meaning}"


def _colocation(decision: Decision, terms: Terms) -> str:
    """Where decode runs, by the table that answered."""
    if decision.tier is Tier.RULE:
        return "nothing was measured"
    if decision.colocation is not terms.colocation:
        return f"{decision.colocation} in place of {terms.colocation}"
    return "none (idle)" if decision.colocation is Colocation.IDLE else str(decision.colocation)


def _profile(decision: Decision) -> str:
    if decision.profile is None:
        return "none"
    age = "" if decision.age_s is None else f", {format_age(decision.age_s)} old"
    return f"{decision.profile}{age}{', SIMULATED' if decision.simulated else ''}"


def _place(decision: Decision) -> str:
    place = decision.predicted_for
    return "" if place is None else f" (for {counted(place.merged_ranges, 'range')} of {place.average_range_bytes} B)"


def _budget_met(decision: Decision, period_s: float) -> str:
    if decision.budget_met:
        return "yes"
    predicted = decision.predicted
    latency_s = predicted.time_s if predicted.completion_p99_s is None else predicted.completion_p99_s
    too_slow = latency_s is not None and latency_s >= period_s  # whatever it costs decode
    return "no" if too_slow or decision.evidence is not Evidence.NONE else _UNKNOWN


def _time(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def decision_table(asked: Sequence[CountedShape], decisions: Sequence[Decision], terms: Terms) -> Iterator[str]:
    """Decisions about several shapes, one a line, and what they rest on."""
    rows = (_cells(each, decision, terms.period_s) for each, decision in zip(asked, decisions, strict=True))
    yield from table(_HEADINGS, rows)
    yield ""
    tiers = dict.fromkeys(str(decision.tier) for decision in decisions)
    profiles = dict.fromkeys(_profile(decision) for decision in decisions)
    yield from fields([("tier", ", ".join(tiers)), ("profile", ", ".join(profiles))])


def _cells(asked: CountedShape, decision: Decision, period_s: float) -> tuple[str, ...]:
    shape, predicted = asked.shape, decision.predicted
    return (
        str(shape.merged_ranges),
        format_size(shape.average_range_bytes),
        str(shape.direction),
        str(asked.count),
        decision.plan.key,
        _time(predicted.time_s) or "-",
        _time(predicted.stall_s) or "-",
        _budget_met(decision, period_s),
        str(decision.evidence),
    )
