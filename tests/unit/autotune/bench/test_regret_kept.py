from dataclasses import replace

import pytest

from pega_tune.autotune.bench.regret_beside import BurstResult, ClaimRow
from pega_tune.autotune.bench.regret_claims import Burst
from pega_tune.autotune.bench.regret_kept import regret_within_budget, summarise_claims
from pega_tune.autotune.bench.regret_plan import AUTO
from pega_tune.autotune.bench.regret_shapes import HeldOut
from pega_tune.autotune.bench.regret_statistics import Halves
from pega_tune.autotune.engine import CandidateKind
from pega_tune.autotune.layouts import SHUFFLED
from pega_tune.kernels.plan import PlanPair, direct
from pega_tune.kernels.shape import TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.terms import Evidence

SHAPE = TransferShape(64, 1 << 20)
ANSWER = Auto.rule_only().decide(64, 1 << 20)
DIRECT = PlanPair(direct(), direct())


def _row(name: str, time_s: float | None, *, kept: bool = True) -> ClaimRow:
    row = ClaimRow(name, CandidateKind.PLAN, DIRECT, "ok", "", None)
    if time_s is None:
        return row
    return replace(row, kept=kept, stall_s=0.0, completion_s=time_s, halves=Halves(time_s, time_s))


def _burst(*rows: ClaimRow, claimed: bool = True, evidence: Evidence = Evidence.NONE) -> BurstResult:
    decision = replace(ANSWER, budget_met=claimed, evidence=evidence)
    return BurstResult(Burst(HeldOut(SHAPE, SHUFFLED), decision), rows, 7e-3, ())


def test_claims_are_counted() -> None:
    kept, over, failed = _row(AUTO, 1.0), _row(AUTO, 1.0, kept=False), _row(AUTO, None)
    other = _row("other", 1.0)
    bursts = [
        _burst(kept),
        _burst(over),
        _burst(failed, other),
        _burst(over, claimed=False),
        _burst(over, other, claimed=False),
        _burst(kept, claimed=False, evidence=Evidence.FITTED),
    ]
    summary = summarise_claims(bursts)
    assert (summary.claimed, summary.broken) == (3, 2)
    assert (summary.unclaimed, summary.missed, summary.missed_with_evidence) == (3, 2, 1)
    assert summary.missed_kept == 1
    assert summary.outside == 2


def test_speed_counts_among_those_that_kept_the_budget_alone() -> None:
    fast_but_over = _row("pegaflow-kernel", 0.1, kept=False)
    burst = _burst(_row(AUTO, 1.5), _row("one-batch-call", 1.0), _row("pegaflow-direct", 3.0), fast_but_over)
    rows = {row.rule: row for row in summarise_claims([burst, burst]).rows}
    auto, batch, slow, over = (rows[n] for n in (AUTO, "one-batch-call", "pegaflow-direct", "pegaflow-kernel"))
    assert auto.spread is not None
    assert auto.spread.mean == pytest.approx(0.5)
    assert auto.spread.n == 2
    assert (auto.slower, batch.slower, slow.slower) == pytest.approx((0.0, -1 / 3, 1.0))
    assert (over.measured, over.kept, over.spread, over.slower) == (2, 0, None, None)
    assert regret_within_budget(burst, fast_but_over) is None
    unclaimed = _burst(*burst.rows, claimed=False)
    assert {row.slower for row in summarise_claims([unclaimed]).rows} == {None}


def test_auto_comes_first_then_the_rules_by_regret() -> None:
    burst = _burst(_row(AUTO, 9.0), _row("pegaflow-direct", 3.0), _row("one-batch-call", 1.0))
    names = [row.rule for row in summarise_claims([burst]).rows]
    assert names[:3] == [AUTO, "one-batch-call", "pegaflow-direct"]


def test_nothing_is_said_of_nothing() -> None:
    summary = summarise_claims([])
    assert (summary.claimed, summary.floor) == (0, None)
    assert all((row.measured, row.spread, row.slower) == (0, None, None) for row in summary.rows)


def test_the_floor_is_of_bursts_in_which_something_kept_the_budget() -> None:
    over = _burst(_row(AUTO, 1.0, kept=False))
    floor = summarise_claims([over, _burst(_row(AUTO, 1.0))]).floor
    assert floor is not None
    assert (floor.n, floor.mean) == (1, 0.0)
