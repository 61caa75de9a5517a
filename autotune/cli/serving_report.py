"""What a sweep has measured beside decode: a table per shape, layout and colocation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pega_tune.autotune.cli.output import table
from pega_tune.autotune.cli.units import format_duration
from pega_tune.profiles.policy.terms import Objective

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pega_tune.autotune.sweep.serving_costs import ServingCost
    from pega_tune.autotune.sweep.serving_policy import Survey

_HEADINGS = ("PLAN", "PROCESSES", "MEAN", "P99", "STALL", "EXTRA", "DONE P50", "DONE P99", "BEST")


def serving_documents(seen: Sequence[Survey]) -> list[dict[str, Any]]:
    """One document per survey."""
    return [_document(survey) for survey in seen]


def serving_lines(seen: Sequence[Survey]) -> Iterator[str]:
    """The same for people; nothing if nothing was measured beside decode."""
    for survey in seen:
        words = _objectives(survey)
        yield ""
        yield f"{survey.key}, undisturbed step {format_duration(survey.step_s)}; of all processes the worst counts"
        if survey.finals:
            yield f"only what ran in all {1 + survey.finals} processes may be best, but for throughput"
        yield from table(_HEADINGS, _rows(survey, words))


def _rows(survey: Survey, words: dict[str, list[str]]) -> Iterable[tuple[str, ...]]:
    for cost in sorted(survey.costs, key=lambda cost: cost.option.predicted.stall_s or 0.0):
        predicted = cost.option.predicted
        yield (
            cost.plan.key,
            str(len(cost.summaries)),
            f"{cost.mean_delta:+.1%}",
            f"{cost.p99_delta:+.1%}",
            _time(predicted.stall_s),
            _time(predicted.extra_s),
            _time(predicted.time_s),
            _time(predicted.latency_s),
            ", ".join(words.get(cost.plan.key, ())),
        )


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds) if seconds else "0 s"


def _objectives(survey: Survey) -> dict[str, list[str]]:
    """The objectives that would take each plan, by its key."""
    words: dict[str, list[str]] = {}
    for objective in Objective:
        cost, choice = survey.best(objective)
        words.setdefault(cost.plan.key, []).append(str(objective) if choice.budget_met else f"{objective} (not met)")
    return words


def _document(survey: Survey) -> dict[str, Any]:
    chosen = {objective: survey.best(objective) for objective in Objective}
    return {
        "block": survey.key,
        "colocation": str(survey.colocation),
        "direction": str(survey.shape.direction),
        "ranges": survey.shape.merged_ranges,
        "bytes": survey.shape.total_bytes,
        "step_s": survey.step_s,
        "fresh_processes": survey.finals,
        "plans": [_plan(cost) for cost in survey.costs],
        "best": {
            str(objective): {"name": cost.plan.key, "plan": cost.plan.to_json(), "budget_met": choice.budget_met}
            for objective, (cost, choice) in chosen.items()
        },
    }


def _plan(cost: ServingCost) -> dict[str, Any]:
    predicted = cost.option.predicted
    return {
        "name": cost.plan.key,
        "processes": len(cost.summaries),
        "mean_delta": cost.mean_delta,
        "p99_delta": cost.p99_delta,
        "stall_s": predicted.stall_s,
        "extra_s": predicted.extra_s,
        "completion_p50_s": predicted.time_s,
        "completion_p99_s": predicted.completion_p99_s,
        "plan": cost.plan.to_json(),
    }
