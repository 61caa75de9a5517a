"""What `pega-tune bench serving` answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pega_tune.autotune.cli.bench_outcome import batch_words, device_field, head_document
from pega_tune.autotune.cli.output import fields, table
from pega_tune.autotune.cli.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pega_tune.autotune.bench.serving import BenchResult, Row
    from pega_tune.autotune.bench.serving_request import ServingBenchRequest
    from pega_tune.autotune.measuring.serving.summary import ServingSummary
    from pega_tune.autotune.measuring.serving.tails import Tails
    from pega_tune.kernels.facts import DeviceFacts

_HEADINGS = (
    "NAME", "KIND", "COLOCATION", "WAY", "MEAN", "", "P50", "P90", "P99", "", "MAX", "STALL", "RATE", "DONE P50",
    "DONE P99", "DONE MAX", "LATE", "NOTE",
)  # fmt: skip
_FIGURES = (
    "mean_s", "p50_s", "p90_s", "p99_s", "max_s", "mean_delta", "p99_delta", "p99_delta_low", "p99_delta_high",
    "stall_s", "extra_s", "bytes_per_s", "completion_p50_s", "completion_p99_s", "completion_max_s", "host_cpu_s",
    "missed", "bursts", "steps",
)  # fmt: skip
_GIB = 2**30


def document(facts: DeviceFacts, request: ServingBenchRequest, results: Sequence[BenchResult]) -> dict[str, Any]:
    """The answer as a JSON object."""
    baselines = [_baseline_document(result) for result in results]
    return {
        **head_document(facts, request, results),
        "decode": request.decode.source,
        "model": request.decode.model,
        "baseline": next((one for one in baselines if one), None),
        "baselines": [one for one in baselines if one],
        "rows": [_row_document(row) for result in results for row in result.rows],
        "best": [_best_document(result) for result in results if not result.planned.label],
    }


def _baseline_document(result: BenchResult) -> dict[str, Any] | None:
    summary = next((row.summary for row in result.rows if row.summary is not None), None)
    if summary is None:
        return None
    block = result.planned.block
    where = {"colocation": str(block.colocation), "block": result.planned.label, "period_s": result.period_s}
    return {**where, **_tails(summary.baseline)}


def _best_document(result: BenchResult) -> dict[str, Any]:
    from pega_tune.autotune.bench.serving import chosen, name_of
    from pega_tune.profiles.policy.terms import Objective

    found = {objective: chosen(result, objective) for objective in Objective}
    return {
        "colocation": str(result.planned.block.colocation),
        **{
            str(objective): {
                "name": name_of(result, choice.option.plan),
                "plan": choice.option.plan.to_json(),
                "budget_met": choice.budget_met,
                "reason": choice.reason,
            }
            for objective, choice in found.items()
            if choice is not None
        },
    }


def _tails(tails: Tails) -> dict[str, float]:
    return {
        "mean_s": tails.mean.value,
        "p50_s": tails.p50.value,
        "p90_s": tails.p90.value,
        "p99_s": tails.p99.value,
        "max_s": tails.max,
    }


def _figures(summary: ServingSummary) -> dict[str, Any]:
    interval = summary.delta.p99.interval
    return _tails(summary.step) | {
        "mean_delta": summary.delta.mean.value,
        "p99_delta": summary.delta.p99.value,
        "p99_delta_low": interval.low if interval else None,
        "p99_delta_high": interval.high if interval else None,
        "stall_s": summary.stall.p95_s,
        "extra_s": summary.extra_s,
        "bytes_per_s": summary.bytes_per_s,
        "completion_p50_s": summary.completion.p50_s,
        "completion_p99_s": summary.completion.p99_s.value,
        "completion_max_s": summary.completion.max_s,
        "host_cpu_s": summary.host_cpu_s,
        "missed": summary.missed,
        "bursts": summary.bursts,
        "steps": summary.steps,
    }


def _row_document(row: Row) -> dict[str, Any]:
    known = dict.fromkeys(_FIGURES) if row.summary is None else _figures(row.summary)
    return {
        "name": row.name,
        "kind": str(row.kind),
        "colocation": str(row.colocation),
        **known,
        "block": row.label,
        "direction": str(row.direction),
        "status": row.status,
        "detail": row.detail,
        "same_as": row.same_as,
        "plan": row.plan.to_json(),
    }


def lines(facts: DeviceFacts, request: ServingBenchRequest, results: Sequence[BenchResult]) -> Iterator[str]:
    """The answer for people."""
    yield from fields(
        [
            device_field(facts),
            ("burst", f"{batch_words(request)}, {_pace(request, results)}"),
            ("decode", f"{request.decode.source}, {request.decode.model}"),
        ]
    )
    for result in results:
        yield ""
        yield from table(_HEADINGS, [*_baseline_cells(result), *map(_cells, result.rows)])
        yield from _best_lines(result)


def _pace(request: ServingBenchRequest, results: Sequence[BenchResult]) -> str:
    if request.pacing.period_s is not None:
        return f"every {format_duration(request.pacing.period_s)}"
    used = max((result.period_s for result in results if result.period_s is not None), default=None)
    return "each at its shortest period" + ("" if used is None else f", at most {format_duration(used)}")


def _baseline_cells(result: BenchResult) -> Iterator[tuple[str, ...]]:
    block = result.planned.block
    for row in result.rows:
        if row.summary is not None:
            base = row.summary.baseline
            times = (base.mean.value, base.p50.value, base.p90.value, base.p99.value, base.max)
            mean, p50, p90, p99, most = map(format_duration, times)
            words = ("no transfer", "baseline", str(block.colocation), "-")
            yield (*words, mean, "", p50, p90, p99, "", most, *("-",) * 6, result.planned.label)
            return


def _cells(row: Row) -> tuple[str, ...]:
    words = (row.name, str(row.kind), str(row.colocation), str(row.direction))
    note = "; ".join(filter(None, (row.label, f"measured as {row.same_as}" if row.same_as else "")))
    summary = row.summary
    if summary is None:
        return (*words, *("-",) * 13, f"{row.status}: {row.detail}")
    step, delta = summary.step, summary.delta
    return (
        *words,
        format_duration(step.mean.value),
        f"{delta.mean.value:+.1%}",
        format_duration(step.p50.value),
        format_duration(step.p90.value),
        format_duration(step.p99.value),
        f"{delta.p99.value:+.1%}",
        format_duration(step.max),
        _signed(summary.stall.p95_s),
        f"{summary.bytes_per_s / _GIB:.3f} GiB/s",
        format_duration(summary.completion.p50_s),
        format_duration(summary.completion.p99_s.value),
        format_duration(summary.completion.max_s),
        str(summary.missed),
        note if row.status == "ok" else f"{row.status}: {row.detail}",
    )


def _signed(seconds: float) -> str:
    """A duration that noise may have made negative."""
    return f"-{format_duration(-seconds)}" if seconds < 0 else format_duration(seconds)


def _best_lines(result: BenchResult) -> Iterator[str]:
    from pega_tune.autotune.bench.serving import chosen, name_of
    from pega_tune.profiles.policy.terms import Objective

    if result.planned.label or len(result.planned.block.candidates) < 2:
        return
    for objective in Objective:
        choice = chosen(result, objective)
        if choice is not None:
            kept = "" if choice.budget_met else " (budget not met)"
            plan = choice.option.plan
            name = name_of(result, plan)
            known = "" if name == plan.key else f" ({plan.key})"
            yield f"best {objective}: {name}{known}, which {choice.reason}{kept}"
