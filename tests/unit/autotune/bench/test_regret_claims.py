import pytest

from pega_tune.autotune.bench.regret_beside import RIVALS, BurstResult, check, check_all
from pega_tune.autotune.bench.regret_claims import CLAIMS_PER_REST, Burst, ClaimsPlan, ClaimsRequest, plan_claims
from pega_tune.autotune.bench.regret_plan import AUTO
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import Backend, CopyPlan, PlanPair, direct
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.choose import DEFAULT_PERIOD_S
from pega_tune.profiles.policy.table import Option, Predicted, Table
from pega_tune.profiles.policy.terms import Colocation, Runtime
from pega_tune.profiles.store.records import BlockFlag
from tests.helpers.sweeps import capabilities, sim_engine
from tests.unit.profiles.policy.examples import profile

MIB = 1 << 20
HOURS_S = 3600.0
FEW = TransferShape(4, 256 << 10, Direction.BOTH)
ORDERED = TransferShape(16_384, 64 * MIB, Direction.BOTH, host_runs=1)
DIRECT = PlanPair(direct(), direct())
BATCH = PlanPair(CopyPlan(Backend.BATCH), CopyPlan(Backend.BATCH))


def _auto(*options: Option, most_ranges: int = 65_536) -> Auto:
    """Who claims what the options say, up to so many ranges, beside a decode step of 7 ms."""
    table = Table(
        direction=Direction.BOTH,
        colocation=Colocation.TIME_SLICED,
        runtime=Runtime.FULL,
        range_edges=(1,),
        size_edges=(1,),
        cells=(options,),
        measured_ranges=(1, most_ranges),
        measured_sizes=(1, 1 << 30),
        measured_bytes=(1, 1 << 30),
        margin=0.02,
        step_s=7e-3,
    )
    return Auto.from_profile(profile(table))


def _option(plan: PlanPair, stall_s: float) -> Option:
    return Option(plan, Predicted(1e-3, stall_s, stall_s, 1e-3))


PROMISING = _auto(_option(DIRECT, 0.0))
SILENT = _auto(_option(DIRECT, 1.0))


def _checked(shape: TransferShape, auto: Auto, *faults: str, budget: float = 0.1) -> BurstResult:
    request = ClaimsRequest(shapes=(shape,), budget=budget)
    engine = sim_engine(*faults)
    (burst,) = plan_claims(request, auto, engine.capabilities()).bursts
    return check(burst, request, auto, engine)


def test_bursts_are_drawn_until_there_are_claims_enough() -> None:
    plan = plan_claims(ClaimsRequest(count=8), _auto(_option(DIRECT, 0.0), most_ranges=256), capabilities())
    claimed = [burst.decision.budget_met for burst in plan.bursts]
    assert claimed == [True] * 8 + [False] * (8 // CLAIMS_PER_REST)
    assert (plan.claims, plan.is_short) == (8, False)
    assert all((burst.held_out.shape.merged_ranges <= 256) == burst.decision.budget_met for burst in plan.bursts)
    assert plan.estimate_s > 0


def test_without_claims_a_few_bursts_are_measured_all_the_same() -> None:
    plan = plan_claims(ClaimsRequest(count=8), SILENT, capabilities())
    assert [burst.decision.budget_met for burst in plan.bursts] == [False, False]
    assert (plan.claims, plan.is_short, plan.drawn > 100) == (0, True, True)


def test_a_users_shapes_are_measured_whatever_is_claimed() -> None:
    other = TransferShape(8, 8192, Direction.H2D)
    huge = TransferShape(1, 1 << 50, Direction.BOTH)
    plan = plan_claims(ClaimsRequest(shapes=(FEW, other, huge, ORDERED)), SILENT, capabilities())
    assert [burst.held_out.shape for burst in plan.bursts] == [FEW, ORDERED]
    assert [str(burst.held_out.layout) for burst in plan.bursts] == ["shuffled", "host-ordered"]
    assert plan.too_large == 1
    assert not plan.is_short


@pytest.mark.parametrize(
    "asked",
    [{"count": 0}, {"seed": -1}, {"colocation": Colocation.IDLE}, {"shapes": (FEW,), "direction": Direction.H2D}],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        ClaimsRequest(**asked)  # type: ignore[arg-type]


def test_a_kept_claim() -> None:
    result = _checked(FEW, PROMISING)
    auto = result.row(AUTO)
    assert auto is not None
    assert (result.claimed, result.kept, result.possible) == (True, True, True)
    assert auto.stall_s is not None
    assert result.step_s is not None
    assert auto.stall_s <= 0.1 * result.step_s
    assert auto.completion_s is not None
    assert auto.halves is not None
    assert 0 < auto.completion_s < DEFAULT_PERIOD_S


def test_a_broken_claim() -> None:
    """16,384 commands of 4 KiB keep a copy engine busy that decode needs."""
    result = _checked(ORDERED, PROMISING)
    assert (result.claimed, result.kept) == (True, False)


def test_no_budget_is_kept_by_what_stalls_at_all() -> None:
    assert not _checked(FEW, PROMISING, budget=0.0).row(AUTO).kept  # type: ignore[union-attr]


def test_a_missed_chance() -> None:
    result = _checked(FEW, SILENT)
    assert (result.claimed, result.kept, result.possible) == (False, True, True)


def test_beside_auto_run_a_few_rivals_and_the_rules_that_are_not_hopeless() -> None:
    result = _checked(ORDERED, _auto(_option(BATCH, 0.0)))
    rules = {rule.name for rule in STATIC_RULES}
    shared = {row.same_as for row in result.rows if row.name in rules}
    own = {row.name for row in result.rows} - rules - shared - {AUTO}
    assert 1 <= len(own) <= RIVALS
    assert {AUTO, "pegaflow-kernel", "one-batch-call"} <= {row.name for row in result.rows}
    assert {row.status for row in result.rows} == {"ok"}
    names = [row.name for row in _checked(FEW, PROMISING).rows]
    assert len(set(names)) == len(names)


def test_a_choice_that_fails_keeps_nothing() -> None:
    failing = PlanPair(CopyPlan(Backend.DIRECT, stream_priority=-77), direct())
    result = _checked(FEW, _auto(_option(failing, 0.0)))
    row = result.row(AUTO)
    assert row is not None
    assert (row.status, row.kept, row.completion_s) == ("unsupported", False, None)
    assert (result.claimed, result.kept) == (True, False)


def test_flags_are_kept() -> None:
    assert _checked(FEW, PROMISING, "throttled").flags == (BlockFlag.THROTTLED,)


def test_nothing_is_begun_when_the_time_is_up() -> None:
    engine = sim_engine()
    request = ClaimsRequest(shapes=(FEW, ORDERED))
    plan = plan_claims(request, PROMISING, engine.capabilities())
    done: list[Burst] = []
    none = check_all(plan, PROMISING, engine, 0.0, done.append)
    assert (none.bursts, none.too_late, done) == ((), 2, [])
    whole = check_all(ClaimsPlan(request, plan.bursts[:1], 3, 2), PROMISING, engine, HOURS_S, done.append)
    assert (len(whole.bursts), whole.too_late, whole.too_large, len(done)) == (1, 0, 3, 1)
