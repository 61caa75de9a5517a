"""The answers of `pega-tune bench regret`, as a document and as a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pega_tune.autotune.cli.bench_outcome import device_field
from pega_tune.autotune.cli.output import fields, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pega_tune.autotune.bench.regret import RegretResult, ShapeResult, Summary
    from pega_tune.autotune.bench.regret_beside import BurstResult, ClaimsResult
    from pega_tune.autotune.bench.regret_claims import ClaimsRequest
    from pega_tune.autotune.bench.regret_kept import ClaimsSummary, RuleClaims
    from pega_tune.autotune.bench.regret_plan import RegretRequest
    from pega_tune.autotune.bench.regret_shapes import HeldOut
    from pega_tune.autotune.bench.regret_statistics import Spread
    from pega_tune.kernels.facts import DeviceFacts
    from pega_tune.profiles.policy.auto import Auto
    from pega_tune.profiles.policy.decision import Decision
    from pega_tune.profiles.store.records import BlockFlag

_REGRET_HEADINGS = ("DIRECTION", "RULE", "MEAN", "P95", "MAX", "N")
_CLAIM_HEADINGS = ("RULE", "KEPT", "MEAN", "P95", "MAX", "N", "SLOWER")


@dataclass(frozen=True, slots=True)
class Judged:
    """On which device, and whose answers."""

    facts: DeviceFacts
    auto: Auto

    def document(self, flags: Sequence[tuple[BlockFlag, ...]]) -> dict[str, Any]:
        """How every answer begins as a JSON object."""
        profile = self.auto.profile
        return {
            "device": self.facts.uuid,
            "simulated": self.facts.simulated,
            "profile": profile.profile_id if profile else None,
            "tier": str(self.auto.tier),
            "flags": sorted({str(flag) for some in flags for flag in some}),
        }

    @property
    def fields(self) -> list[tuple[str, str]]:
        """How every answer begins for people."""
        profile = self.auto.profile
        return [device_field(self.facts), ("profile", f"{profile.profile_id if profile else 'none'}, {self.auto.tier}")]


def left_out(too_large: int, too_late: int, what: str) -> Iterator[str]:
    """What to warn of if not all was measured."""
    if too_large:
        yield f"{what} left out because memory is too small for them: {too_large}"
    if too_late:
        yield f"{what} left out because the time was up (--within): {too_late}"


def document(head: Judged, request: RegretRequest, result: RegretResult) -> dict[str, Any]:
    """The regrets as a JSON object."""
    return {
        **head.document([shape.flags for shape in result.shapes]),
        "objective": "throughput",
        "seed": request.seed,
        "count": len(result.shapes),
        "left_out": {"too_large": result.too_large, "too_late": result.too_late},
        **_summary_document(result.summary()),
        "directions": [
            {"direction": str(direction), **_summary_document(result.summary(direction))}
            for direction in request.directions
        ],
        "layouts": [
            {"layout": str(kind), **_summary_document(result.summary(kind=kind))} for kind in sorted(result.kinds)
        ],
        "shapes": [_shape_document(shape) for shape in result.shapes],
    }


def lines(head: Judged, request: RegretRequest, result: RegretResult) -> Iterator[str]:
    """The regrets for people."""
    yield from fields([*head.fields, ("shapes", f"{len(result.shapes)}, seed {request.seed}")])
    yield ""
    yield from table(_REGRET_HEADINGS, _regret_rows(request, result))


def claims_document(head: Judged, request: ClaimsRequest, result: ClaimsResult) -> dict[str, Any]:
    """The claims as a JSON object."""
    from pega_tune.autotune.bench.regret_kept import summarise_claims

    summary = summarise_claims(result.bursts)
    return {
        **head.document([burst.flags for burst in result.bursts]),
        "objective": "tail-bounded",
        "colocation": str(request.colocation),
        "budget": request.budget,
        "seed": request.seed,
        "count": len(result.bursts),
        "left_out": {"too_large": result.too_large, "too_late": result.too_late},
        "claims": _counts(summary),
        **_floor_document(summary.floor),
        "rows": [_claim_row(row) for row in summary.rows],
        "shapes": [_burst_document(burst) for burst in result.bursts],
    }


def claims_lines(head: Judged, request: ClaimsRequest, result: ClaimsResult) -> Iterator[str]:
    """The claims for people."""
    from pega_tune.autotune.bench.regret_kept import summarise_claims

    summary = summarise_claims(result.bursts)
    asked = f"{len(result.bursts)}, {request.colocation}, budget {request.budget:g} of a step, seed {request.seed}"
    kept = f"{summary.claimed - summary.broken} of {summary.claimed}"
    missed = f"in {summary.missed} of {summary.unclaimed} something kept the budget, in {summary.missed_kept} auto did"
    yield from fields([*head.fields, ("bursts", asked), ("claims kept", kept), ("not claimed", missed)])
    yield ""
    rows = [("floor", "", *_spread_cells(summary.floor), ""), *map(_claim_cells, summary.rows)]
    yield from table(_CLAIM_HEADINGS, rows)


def _summary_document(summary: Summary) -> dict[str, Any]:
    rows = [{"rule": row.rule, **_spread_document(row.spread)} for row in summary.rows]
    return {**_floor_document(summary.floor), "untimed": summary.untimed, "rows": rows}


def _floor_document(floor: Spread | None) -> dict[str, Any]:
    """`floor` is the mean over shapes, as the means of the rules are."""
    if floor is None:
        return {"floor": None, "floor_p95": None, "floor_max": None}
    return {"floor": floor.mean, "floor_p95": floor.p95, "floor_max": floor.max}


def _spread_document(spread: Spread | None) -> dict[str, Any]:
    return {"mean": None, "p95": None, "max": None, "n": 0} if spread is None else asdict(spread)


def _held_out_document(held_out: HeldOut) -> dict[str, Any]:
    shape = held_out.shape
    return {
        "direction": str(shape.direction),
        "ranges": shape.merged_ranges,
        "bytes": shape.total_bytes,
        "layout": str(held_out.layout),
    }


def _decision_document(decision: Decision) -> dict[str, Any]:
    return {
        "chosen": decision.plan.key,
        "predicted": asdict(decision.predicted),
        "evidence": str(decision.evidence),
        "budget_met": decision.budget_met,
    }


def _shape_document(shape: ShapeResult) -> dict[str, Any]:
    best = shape.best
    return {
        **_held_out_document(shape.planned.held_out),
        **_decision_document(shape.planned.decision),
        "best": None if best is None else best.plan.key,
        "regret": shape.regret("auto"),
        "floor": shape.floor,
        "ceiling_s": shape.ceiling_s,
        "flags": [str(flag) for flag in shape.flags],
        "rows": [
            {
                "name": row.name,
                "kind": str(row.kind),
                "plan": row.plan.key,
                "same_as": row.same_as,
                "status": row.status,
                "detail": row.detail,
                "time_s": row.time_s,
                "halves_s": None if row.halves is None else [row.halves.even_s, row.halves.odd_s],
                "rounds": row.rounds,
            }
            for row in shape.rows
        ],
    }


def _regret_rows(request: RegretRequest, result: RegretResult) -> Iterator[tuple[str, ...]]:
    for direction in request.directions:
        summary = result.summary(direction)
        if summary.floor is None and all(row.spread is None for row in summary.rows):  # no shapes, or nothing worked
            continue
        yield str(direction), "floor", *_spread_cells(summary.floor)
        for row in summary.rows:
            yield str(direction), row.rule, *_spread_cells(row.spread)


def _spread_cells(spread: Spread | None) -> tuple[str, ...]:
    if spread is None:
        return "-", "-", "-", "0"
    return _percent(spread.mean), _percent(spread.p95), _percent(spread.max), str(spread.n)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1%}"


def _counts(summary: ClaimsSummary) -> dict[str, int]:
    return {
        "claimed": summary.claimed,
        "broken": summary.broken,
        "unclaimed": summary.unclaimed,
        "missed": summary.missed,
        "missed_with_evidence": summary.missed_with_evidence,
        "missed_kept": summary.missed_kept,
        "outside": summary.outside,
    }


def _claim_row(row: RuleClaims) -> dict[str, Any]:
    counts = {"measured": row.measured, "kept": row.kept, "slower": row.slower}
    return {"rule": row.rule, **_spread_document(row.spread), **counts}


def _claim_cells(row: RuleClaims) -> tuple[str, ...]:
    return row.rule, f"{row.kept} of {row.measured}", *_spread_cells(row.spread), _percent(row.slower)


def _burst_document(burst: BurstResult) -> dict[str, Any]:
    return {
        **_held_out_document(burst.burst.held_out),
        **_decision_document(burst.burst.decision),
        "kept": burst.kept,
        "possible": burst.possible,
        "step_s": burst.step_s,
        "flags": [str(flag) for flag in burst.flags],
        "rows": [
            {
                "name": row.name,
                "kind": str(row.kind),
                "plan": row.plan.key,
                "same_as": row.same_as,
                "status": row.status,
                "detail": row.detail,
                "kept": row.kept,
                "stall_s": row.stall_s,
                "completion_s": row.completion_s,
            }
            for row in burst.rows
        ],
    }
