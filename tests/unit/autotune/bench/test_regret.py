from collections.abc import Iterator
from dataclasses import replace

import pytest

from pega_tune.autotune.bench.regret import RegretResult, ShapeResult, measure, measure_all
from pega_tune.autotune.bench.regret_plan import AUTO, LIMITS, RegretPlan, RegretRequest, decide, plan_regret
from pega_tune.autotune.bench.regret_shapes import HeldOut
from pega_tune.autotune.engine import CandidateKind, Measurement, MemoryLimitError, TransferBlock
from pega_tune.autotune.layouts import LayoutKind, NamedLayout
from pega_tune.autotune.static_rules import STATIC_RULES
from pega_tune.autotune.sweep.plans import launched
from pega_tune.errors import UsageError
from pega_tune.kernels.plan import Backend, CopyPlan, direct
from pega_tune.kernels.shape import Direction, TransferShape
from pega_tune.profiles.policy.auto import Auto
from pega_tune.profiles.policy.terms import Objective
from pega_tune.profiles.store.records import BlockFlag
from tests.helpers.sweeps import capabilities, sim_engine
from tests.unit.profiles.policy.examples import one_way, option, profile

RULES = {rule.name for rule in STATIC_RULES}
FRAGMENTED = TransferShape(4096, 4096 * 4096, Direction.H2D)
SMALL = RegretRequest(seed=3, count=2)
HOURS_S = 3600.0


def _plan(*shapes: TransferShape, auto: Auto | None = None) -> RegretPlan:
    directions = tuple(dict.fromkeys(shape.direction for shape in shapes))
    request = RegretRequest(shapes=shapes, directions=directions)
    return plan_regret(request, auto or Auto.rule_only(), sim_engine().capabilities())


def _measured(shape: TransferShape = FRAGMENTED, auto: Auto | None = None, *faults: str) -> ShapeResult:
    (planned,) = _plan(shape, auto=auto).shapes
    return measure(planned, sim_engine(*faults))


def _always(plan: CopyPlan) -> Auto:
    return Auto.from_profile(profile(one_way(option(plan, 1e-3))))


@pytest.mark.parametrize("direction", list(Direction))
def test_a_block_holds_the_choice_every_rule_and_the_ceiling_each_launch_once(direction: Direction) -> None:
    plan = plan_regret(RegretRequest(directions=(direction,), count=20), Auto.rule_only(), capabilities())
    for planned in plan.shapes:
        shape, candidates = planned.held_out.shape, planned.block.candidates
        assert [c.kind for c in candidates].count(CandidateKind.CEILING) == 1
        launches = [launched(c.plan, shape) for c in candidates if c.kind is not CandidateKind.CEILING]
        assert len(set(launches)) == len(launches)
        assert {entry.name for entry in planned.entries} >= RULES | {AUTO}
        assert len({entry.name for entry in planned.entries}) == len(planned.entries)
        assert {entry.candidate for entry in planned.entries} | {"ceiling"} == {c.name for c in candidates}
        assert planned.block.layout == planned.held_out.layout
        assert planned.entries[0].plan == planned.decision.plan
        assert planned.estimate_s > 0


def test_what_is_known_of_the_ranges_is_measured_too() -> None:
    strided = replace(FRAGMENTED, host_runs=1, pitch=8192)
    (planned,) = _plan(strided).shapes
    backends = {c.plan.backend for c in planned.block.candidates if isinstance(c.plan, CopyPlan)}
    assert backends == set(Backend)


def test_what_auto_takes_for_other_ends_is_among_the_rivals() -> None:
    odd = CopyPlan(Backend.BATCH, prefer_overlap=True)
    auto = Auto.from_profile(profile(one_way(option(direct(), 1e-3, 1e-3), option(odd, 2e-3, 1e-6))))
    (planned,) = _plan(FRAGMENTED, auto=auto).shapes
    assert planned.decision.plan == direct()
    assert odd in [candidate.plan for candidate in planned.block.candidates]


def test_auto_is_told_all_that_is_known() -> None:
    one = HeldOut.laid_out(FRAGMENTED, NamedLayout.parse("strided"))
    asked = decide(Auto.rule_only(), one, Objective.THROUGHPUT)
    assert (asked.direction, asked.objective, asked.colocation) == ("h2d", "throughput", "idle")
    with pytest.raises(UsageError):
        decide(Auto.rule_only(), replace(one, shape=replace(one.shape, host_runs=10_000)), Objective.THROUGHPUT)


def test_directions_take_turns_and_the_seed_decides() -> None:
    chosen = SMALL.chosen
    assert [one.shape.direction for one in chosen] == [*Direction, *Direction]
    assert chosen == RegretRequest(seed=3, count=4).chosen[:6]
    assert chosen != RegretRequest(seed=4, count=2).chosen


@pytest.mark.parametrize("asked", [{"count": 0}, {"count": 10_001}, {"seed": -1}, {"seed": 2**31}])
def test_what_makes_no_sense_is_refused(asked: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        RegretRequest(**asked)  # type: ignore[arg-type]


def test_shapes_of_other_directions_are_passed_over() -> None:
    both = replace(FRAGMENTED, direction=Direction.BOTH)
    request = RegretRequest(shapes=(FRAGMENTED, both), directions=(Direction.BOTH,))
    assert [one.shape for one in request.chosen] == [both]
    with pytest.raises(UsageError, match="none of the shapes"):
        RegretRequest(shapes=(FRAGMENTED,), directions=(Direction.D2H,))


def test_shapes_that_do_not_fit_are_left_out_and_counted() -> None:
    request = RegretRequest(count=30)
    whole = plan_regret(request, Auto.rule_only(), capabilities())
    little = plan_regret(request, Auto.rule_only(), capabilities(memory_bytes=64 << 20))
    assert (len(whole.shapes), whole.too_large) == (90, 0)
    assert little.too_large > 0
    assert len(little.shapes) + little.too_large == 90
    assert little.estimate_s < whole.estimate_s


def test_the_best_has_no_regret_and_a_slow_choice_has_much() -> None:
    slow = _measured(auto=_always(direct()))
    assert slow.best is not None
    assert slow.row(AUTO).time_s is not None
    regret = slow.regret(AUTO)
    assert regret == slow.regret("pegaflow-direct")
    assert regret == pytest.approx(slow.row(AUTO).time_s / slow.best.time_s - 1, rel=0.1)  # type: ignore[operator]
    assert regret is not None
    assert regret > 1
    best = slow.best.plan
    assert isinstance(best, CopyPlan)
    good = _measured(auto=_always(best))
    assert good.regret(AUTO) == pytest.approx(0.0, abs=0.01)
    assert good.floor == pytest.approx(0.0, abs=0.01)


def test_every_rule_has_times_in_both_halves_even_the_hopeless() -> None:
    result = _measured()
    for name in (*RULES, AUTO):
        row = result.row(name)
        assert row.status == "ok"
        assert row.halves is not None
        assert row.rounds >= 2
    assert max(row.rounds for row in result.rows) >= LIMITS.min_rounds
    assert result.ceiling_s is not None
    assert result.ceiling_s < min(row.time_s or 0.0 for row in result.rows)


def _result(*shapes: ShapeResult) -> RegretResult:
    return RegretResult(shapes, 0, 0)


def test_a_summary_has_auto_first_then_the_rules_by_their_regret() -> None:
    both = replace(FRAGMENTED, direction=Direction.BOTH)
    result = _result(_measured(), _measured(both))
    summary = result.summary()
    assert summary.rows[0].rule == AUTO
    assert {row.rule for row in summary.rows} == RULES | {AUTO}
    means = [row.spread.mean for row in summary.rows[1:] if row.spread]
    assert means == sorted(means)
    assert {row.spread.n for row in summary.rows if row.spread} == {2}
    assert {row.spread.n for row in result.summary(Direction.BOTH).rows if row.spread} == {1}
    assert result.kinds == (LayoutKind.SHUFFLED,)
    assert result.summary(kind=LayoutKind.SHUFFLED) == summary
    assert result.summary(kind=LayoutKind.STRIDED).floor is None
    assert result.summary(Direction.D2H).floor is None
    assert all(row.spread is None for row in result.summary(Direction.D2H).rows)


def test_a_choice_that_cannot_run_has_no_regret_and_is_counted() -> None:
    beyond = CopyPlan(Backend.DIRECT, stream_priority=-77)
    result = _measured(auto=_always(beyond))
    assert result.row(AUTO).status == "unsupported"
    assert result.regret(AUTO) is None
    assert _result(result).summary().untimed == 1


def test_a_failed_choice_has_no_times() -> None:
    result = _measured(FRAGMENTED, None, "mismatch")
    failed = [row for row in result.rows if row.status == "mismatch"]
    assert failed
    assert all(row.time_s is None and row.halves is None for row in failed)


def test_flags_are_kept() -> None:
    assert _measured(FRAGMENTED, None, "throttled").flags == (BlockFlag.THROTTLED,)


class Clock:
    """Moves on by a second whenever it is read."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


def test_nothing_is_begun_when_the_time_is_up() -> None:
    plan = plan_regret(SMALL, Auto.rule_only(), sim_engine().capabilities())
    done: list[str] = []
    result = measure_all(plan, sim_engine(), 2.5, lambda planned: done.append(planned.held_out.key), Clock())
    assert done == [planned.held_out.key for planned in plan.shapes[:2]]
    assert (len(result.shapes), result.too_late, result.too_large) == (2, 4, 0)


class ForgetfulEngine:
    """A simulated H200 that has no memory left for its first block."""

    def __init__(self) -> None:
        self._engine = sim_engine()
        self.facts = self._engine.facts
        self.capabilities = self._engine.capabilities
        self.beside_decode = self._engine.beside_decode
        self.conditions = self._engine.conditions
        self.close = self._engine.close
        self._blocks = 0

    def transfer(self, block: TransferBlock) -> Iterator[Measurement]:
        self._blocks += 1
        if self._blocks == 1:
            raise MemoryLimitError("too little")
        yield from self._engine.transfer(block)


def test_a_shape_that_the_engine_has_no_memory_for_is_counted() -> None:
    plan = plan_regret(SMALL, Auto.rule_only(), sim_engine().capabilities())
    result = measure_all(plan, ForgetfulEngine(), HOURS_S, lambda _planned: None)
    assert (len(result.shapes), result.too_large, result.too_late) == (5, 1, 0)
