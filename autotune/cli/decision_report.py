"""How decisions are told to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pega_tune.autotune.cli.output import fields, table
from pega_tune.autotune.cli.units import format_age, format_size
from pega_tune.kernels.plan import CopyPlan
from pega_tune.profiles.policy.explain import counted, format_duration
from pega_tune.profiles.policy.terms import Evidence, Hint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pega_tune.autotune.kv.traffic import CountedShape
    from pega_tune.profiles.policy.decision import Decision
    from pega_tune.profiles.policy.explanation import Considered, Explanation

_HEADINGS = ("RANGES", "OF", "DIRECTION", "COUNT", "PLAN", "TIME", "STALL", "BUDGET MET", "EVIDENCE")
_RIVAL_HEADINGS = ("PASSED OVER", "TIME", "STALL", "AS IT")


def explanation_lines(explanation: Explanation, period_s: float) -> Iterator[str]:
    """One decision, a field a line, and what else its cell holds."""
    yield from _fields(explanation, period_s)
    rivals = [each for each in explanation.considered if not each.chosen]
    if rivals and explanation.decision.predicted_for is not None:
        yield ""
        yield from table(_RIVAL_HEADINGS, map(_rival, rivals))


def _rival(each: Considered) -> tuple[str, ...]:
    predicted = each.predicted
    return each.plan.key, _time(predicted.time_s), _time(predicted.stall_s) or "-", each.reason


def _fields(explanation: Explanation, period_s: float) -> list[str]:
    decision = explanation.decision
    plan, predicted = decision.plan, decision.predicted
    known = "" if decision.hint is Hint.NONE else str(decision.hint)
    plans = [("plan", plan.key)] if isinstance(plan, CopyPlan) else [("load", plan.load.key), ("save", plan.save.key)]
    return fields(
        [
            *plans,
            ("time", _time(predicted.time_s) + _place(decision)),
            ("stall", _time(predicted.stall_s)),
            ("completion p99", _time(predicted.completion_p99_s)),
            ("budget met", _budget_met(decision, period_s)),
            ("decode", f"{decision.colocation}, evidence {decision.evidence}"),
            ("tier", str(decision.tier)),
            ("profile", _profile(decision)),
            ("ranges lie", known),
            ("measured in", ", ".join(explanation.blocks)),
            ("why", decision.why),
        ]
    )


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
    time_s = decision.predicted.time_s
    too_slow = time_s is not None and time_s >= period_s  # whatever it costs decode
    return "no" if too_slow or decision.evidence is not Evidence.NONE else "not known"


def _time(seconds: float | None) -> str:
    return "" if seconds is None else format_duration(seconds)


def decision_table(asked: Sequence[CountedShape], decisions: Sequence[Decision], period_s: float) -> Iterator[str]:
    """Decisions about several shapes, one a line, and what they rest on."""
    rows = (_cells(each, decision, period_s) for each, decision in zip(asked, decisions, strict=True))
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
